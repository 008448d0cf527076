"""Takes what ggml-quants.c needs to be compiled alone out of the package in a folder: python3 unpack_ggml.py FOLDER"""

import pathlib
import sys
import tarfile

folder = pathlib.Path(sys.argv[1])
with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
    for member in archive:
        _, _, path = member.name.partition("/vendor/llama.cpp/ggml/")
        if member.isfile() and path.endswith((".h", "/ggml-quants.c")):
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(archive.extractfile(member).read())
