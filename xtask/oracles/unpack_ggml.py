"""Unpacks the sources of ggml and llama.cpp that are compiled from the package in a folder.

Usage: python3 unpack_ggml.py FOLDER
"""

import pathlib
import sys
import tarfile

# The code that chooses types for presets, and what it needs.
SOURCES = ["src/llama-quant.cpp", "src/llama-arch.cpp", "src/llama-hparams.cpp"]

# The block types, and the code that reads and writes GGUF.
GGML = ["src/ggml-quants.c", "src/ggml.c", "src/gguf.cpp", "src/ggml-threading.cpp"]

folder = pathlib.Path(sys.argv[1])
with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
    for member in archive:
        _, _, path = member.name.partition("/vendor/llama.cpp/")
        inner = path.removeprefix("ggml/")
        if inner != path:
            target = folder / inner
            is_used = path.endswith(".h") or inner in GGML
        else:
            target = folder / "llama" / path
            is_used = path in SOURCES or (path.startswith(("src/", "include/")) and path.endswith(".h"))
        if member.isfile() and is_used:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(archive.extractfile(member).read())
