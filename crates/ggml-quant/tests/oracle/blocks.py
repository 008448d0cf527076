"""Decodes and encodes what lies in a folder, with the package gguf and with ggml's C.

Usage: python3 blocks.py FOLDER LIBRARY

TYPE.blocks becomes TYPE.decoded.gguf and TYPE.decoded.c, TYPE.values becomes TYPE.encoded.c, each where the one or the other can. Rows
are as long as TYPE.importance, where there is one.
"""

import ctypes
import pathlib
import sys

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType as Type, quants

# Newer than the package, or of another size than in ggml.
SIZES = {"q1_0": (128, 18), "q2_0": (64, 18), "q8_1": (32, 36)}


def by_gguf(convert, array, kind):
    try:
        with np.errstate(all="ignore"):
            return convert(array, kind)
    except NotImplementedError:
        return None


def by_c(library, name, array, out):
    # ggml writes the K, alone, as a capital.
    function = getattr(library, name[:-1] + "K" if name.endswith("_k") else name, None)
    if function is None:
        return None
    count = max(array.size if array.dtype == np.float32 else 0, out.size if out.dtype == np.float32 else 0)
    function.restype = None
    function(array.ctypes.data_as(ctypes.c_void_p), out.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(count))
    return out


def encoded(library, name, values, importance, nbytes, elements):
    rows, columns = values.shape
    out = np.zeros((rows, columns // elements * nbytes), np.uint8)
    function = getattr(library, f"quantize_{name[:-1]}K" if name.endswith("_k") else f"quantize_{name}")
    function.restype = ctypes.c_size_t
    pointer = lambda array: None if array is None else array.ctypes.data_as(ctypes.c_void_p)
    function(pointer(values), pointer(out), ctypes.c_int64(rows), ctypes.c_int64(columns), pointer(importance))
    return out


def main():
    folder, library = pathlib.Path(sys.argv[1]), ctypes.CDLL(sys.argv[2])
    for path in sorted(folder.glob("*.blocks")):
        name = path.stem
        kind = getattr(Type, name.upper(), None)
        elements, nbytes = SIZES.get(name) or GGML_QUANT_SIZES[kind]
        blocks = np.fromfile(path, np.uint8).reshape(-1, nbytes)
        out = np.empty((len(blocks), elements), np.float32)
        results = {"c": by_c(library, f"dequantize_row_{name}", blocks, out)}
        if name not in SIZES:
            results["gguf"] = by_gguf(quants.dequantize, blocks, kind)
        for by, values in results.items():
            if values is not None:
                values.tofile(folder / f"{name}.decoded.{by}")
    for path in sorted(folder.glob("*.values")):
        name = path.stem
        kind = getattr(Type, name.upper())
        elements, nbytes = GGML_QUANT_SIZES[kind]
        weights = path.with_suffix(".importance")
        importance = np.fromfile(weights, np.float32) if weights.exists() else None
        values = np.fromfile(path, np.float32).reshape(-1, elements if importance is None else len(importance))
        encoded(library, name, values, importance, nbytes, elements).tofile(folder / f"{name}.encoded.c")


if __name__ == "__main__":
    main()
