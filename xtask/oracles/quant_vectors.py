#!/usr/bin/env python3
"""Writes testdata/quant/: blocks of ggml's quantized types as the Python package gguf encodes and decodes them.

Usage: python3 xtask/oracles/quant_vectors.py [folder]      (needs numpy 2 and gguf 0.19.0)

Each file belongs to the type that it is named for and holds n blocks, all little-endian:

    values   f32, n blocks of them   what was encoded (only for the types that can be encoded)
    blocks   bytes                   their encoding; for the K-quants random bytes with sound scales
    decoded  f32                     the decoding of these blocks

gguf does not decode Q8_K; its values are the product d * q, computed here.
"""

import pathlib
import sys

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType as Type, quants

# Type -> (largest magnitude, or span, in units of the scale; whether the block has a minimum)
ENCODED = {Type.Q4_0: (8, False), Type.Q4_1: (15, True), Type.Q5_0: (16, False), Type.Q5_1: (31, True), Type.Q8_0: (127, False)}
# Type -> where f16 (or, for Q8_K, f32) scales lie in a block
DECODED = {Type.Q2_K: (80, 82), Type.Q3_K: (108,), Type.Q4_K: (0, 2), Type.Q5_K: (0, 2), Type.Q6_K: (208,), Type.Q8_K: (0,)}


def cases(rng, levels, has_minimum):
    """Blocks of 32 values: what networks hold, and the edges of the arithmetic."""
    for scale in (1e-5, 0.02, 1.0, 300.0):
        yield rng.standard_normal(32) * scale
    yield np.zeros(32)
    yield np.full(32, -0.0)
    yield np.where(np.arange(32) % 2, 0.0, -0.0)
    yield np.where(np.arange(32) % 2, -0.0, np.arange(32))
    yield np.full(32, 0.37)
    yield np.full(32, -0.37)
    yield rng.standard_normal(32) * 1e-41  # subnormal; the inverse of the scale is infinite
    yield rng.standard_normal(32) * 1e-36  # the scale rounds to 0 in f16
    yield rng.standard_normal(32) * 1e-5 * levels / 64  # the scale is subnormal in f16
    for outlier in (5.0, -5.0):
        yield np.where(np.arange(32) == 19, outlier, rng.standard_normal(32) * 1e-3)
    for first in (1.5, -1.5):  # the same magnitude twice: the first gives the scale its sign
        yield np.where(np.arange(32) == 6, first, np.where(np.arange(32) == 25, -first, rng.uniform(-1, 1, 32)))
    low, high = (0, levels) if has_minimum else (-levels, levels - 1)
    halves = rng.integers(2 * low, 2 * high, 32).astype(np.float32) / 2  # ties, the scale being 1
    halves[[3, 17]] = low, high
    yield halves
    below = np.nextafter(halves, np.float32(0))
    below[[3, 17]] = low, high
    yield below
    ends = (-65504, -65504 + levels * 65519.0) if has_minimum else (-levels * 65519.0, levels * 65519.0 / 2)
    largest = rng.uniform(*ends, 32)  # just below the scale that f16 rounds to infinity
    largest[[30, 12]] = ends
    yield largest
    yield np.linspace(-1, 1, 32)


def random_blocks(rng, kind, offsets, count):
    blocks = rng.integers(0, 256, (count, GGML_QUANT_SIZES[kind][1]), dtype=np.uint8)
    scale = np.dtype("<f4" if kind == Type.Q8_K else "<f2")
    for offset in offsets:
        scales = (rng.standard_normal(count) * 0.01).astype(scale)
        blocks[:, offset : offset + scale.itemsize] = scales.view(np.uint8).reshape(count, -1)
    return blocks


def decode(kind, blocks):
    if kind != Type.Q8_K:
        return quants.dequantize(blocks, kind)
    d = np.ascontiguousarray(blocks[:, :4]).view("<f4")
    return d * blocks[:, 4:260].view(np.int8).astype(np.float32)


def main():
    here = pathlib.Path(__file__).resolve().parents[2]
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else here / "testdata" / "quant"
    folder.mkdir(parents=True, exist_ok=True)
    for kind, (levels, has_minimum) in ENCODED.items():
        rng = np.random.default_rng(int(kind))
        values = np.stack([np.asarray(v, "<f4") for v in cases(rng, levels, has_minimum)])
        with np.errstate(all="ignore"):
            blocks = quants.quantize(values, kind)
        decoded = decode(kind, blocks)
        assert np.isfinite(decoded).all(), kind
        (folder / f"{kind.name.lower()}.bin").write_bytes(values.tobytes() + blocks.tobytes() + decoded.tobytes())
    for kind, offsets in DECODED.items():
        rng = np.random.default_rng(int(kind))
        blocks = random_blocks(rng, kind, offsets, 2)
        (folder / f"{kind.name.lower()}.bin").write_bytes(blocks.tobytes() + decode(kind, blocks).tobytes())


if __name__ == "__main__":
    main()
