#!/usr/bin/env python3
"""Writes testdata/small/: codes of small floats, decoded and encoded by the Python package ml_dtypes.

Usage: python3 xtask/oracles/small_vectors.py [folder]      (needs numpy 2 and ml_dtypes 0.6.0)

Each file is for the type in its name, which has c codes. Everything is little-endian:

    decoded  f32, c of them   the number of each code
    values   f32, n of them   what was encoded: each number, the middles between neighbours, the f32 next to each
                              of these on both sides, infinities, NaN, and the extreme values of f32
    encoded  u8, n of them    their codes
"""

import pathlib
import sys

import ml_dtypes
import numpy as np

TYPES = {
    "f8_e4m3": (8, ml_dtypes.float8_e4m3fn),
    "f8_e5m2": (8, ml_dtypes.float8_e5m2),
    "f8_e4m3fnuz": (8, ml_dtypes.float8_e4m3fnuz),
    "f8_e5m2fnuz": (8, ml_dtypes.float8_e5m2fnuz),
    "f8_e8m0": (8, ml_dtypes.float8_e8m0fnu),
    "f6_e2m3": (6, ml_dtypes.float6_e2m3fn),
    "f6_e3m2": (6, ml_dtypes.float6_e3m2fn),
    "f4": (4, ml_dtypes.float4_e2m1fn),
}


def values(decoded):
    numbers = np.unique(decoded[np.isfinite(decoded)].astype("f8"))
    largest = numbers[-1] * 2 - numbers[-2]  # where the next number would be
    ends = [-largest, largest] if numbers[0] < 0 else [0, largest]
    numbers = np.sort(np.concatenate([numbers, ends]))
    exact = np.concatenate([numbers, (numbers[1:] + numbers[:-1]) / 2])
    exact = exact[np.abs(exact) <= np.finfo("f4").max].astype("f4")
    infinity = np.float32(np.inf)
    around = [exact, np.nextafter(exact, infinity), np.nextafter(exact, -infinity)]
    bits = [0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007FFFFF, 0x807FFFFF, 0x7F7FFFFF, 0xFF7FFFFF]
    bits += [0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00000, 0x7F800001, 0xFFFFFFFF]
    # As bits, because numpy may quiet a NaN that it copies.
    return np.unique(np.concatenate([*(a.view("u4") for a in around), np.array(bits, "u4")])).view("f4")


def main():
    here = pathlib.Path(__file__).resolve().parents[2]
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else here / "testdata" / "small"
    folder.mkdir(parents=True, exist_ok=True)
    for name, (bits, dtype) in TYPES.items():
        with np.errstate(all="ignore"):
            decoded = np.arange(2**bits, dtype="u1").view(dtype).astype("f4")
            encoded = values(decoded)
            codes = encoded.astype(dtype).view("u1")
        (folder / f"{name}.bin").write_bytes(decoded.tobytes() + encoded.tobytes() + codes.tobytes())


if __name__ == "__main__":
    main()
