"""Writes safetensors files, with the tensors in the order of the package ``safetensors``."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from typing import Any

from ... import _files, _given

# From the last type written to the first: types with the largest elements come first, so that each is
# aligned.
_ORDER = (
    "bool f4 f6_e2m3 f6_e3m2 u8 i8 f8_e5m2 f8_e4m3 f8_e8m0 f8_e4m3fnuz f8_e5m2fnuz "
    "i16 u16 f16 bf16 i32 u32 f32 c64 f64 i64 u64"
).split()


def save_file(
    tensors: Mapping[str, Any], filename: str | os.PathLike[str], metadata: Mapping[str, str] | None
) -> None:
    """Writes a file, which replaces one that exists."""
    _files.save(_sorted(tensors), filename, "safetensors", metadata, overwrite=True)


def save(tensors: Mapping[str, Any], metadata: Mapping[str, str] | None) -> bytes:
    """The bytes of a file."""
    out = io.BytesIO()
    _files.save(_sorted(tensors), out, "safetensors", metadata)
    return out.getvalue()


def _sorted(tensors: Mapping[str, Any]) -> list[tuple[str, Any]]:
    def rank(pair: tuple[str, Any]) -> tuple[int, str]:
        dtype = _given.dtype_of(*pair)
        return (-_ORDER.index(dtype) if dtype in _ORDER else 0, pair[0])

    return sorted(tensors.items(), key=rank)
