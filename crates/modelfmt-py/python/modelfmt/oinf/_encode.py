"""Numbers as their bytes in a file."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _dtypes
from .._dtypes import Array
from .._errors import usage

# The smallest and the largest number of packed types.
_RANGES = {
    "i4": (-8, 7),
    "i2": (-2, 1),
    "i1": (-1, 0),
    "u4": (0, 15),
    "u2": (0, 3),
    "u1": (0, 1),
    "t2": (-1, 1),
    "t1": (-1, 1),
}


def as_array(value: Any, dtype: str | None) -> Array:
    """An array of numbers; of ``dtype``, if there is one and numpy has it."""
    try:
        array: Array = np.array(value)
        if array.dtype == object:
            raise ValueError("nested lists have to be of one shape")
        if dtype in ("bf16", "f8_e5m2"):
            with np.errstate(over="ignore"):
                return array.astype(np.float32, copy=False)
        if dtype in _RANGES:
            return _packable(array, dtype)
        if dtype is not None:
            return _cast(array, dtype)
    except (ValueError, TypeError, OverflowError) as error:
        raise usage(f"{value!r:.60} is no array: {error}") from None
    return array


def _packable(array: Array, dtype: str) -> Array:
    low, high = _RANGES[dtype]
    is_good = (array >= low) & (array <= high)
    if dtype == "t1":
        is_good &= array != 0
    if not is_good.all():
        raise ValueError(f"{dtype} holds numbers from {low} to {high}{', not 0' if dtype == 't1' else ''}")
    return array.astype(np.int8, copy=False)


def _cast(array: Array, dtype: str) -> Array:
    """The numbers in another type; integers that it cannot hold are refused, floats are rounded."""
    wanted = np.dtype(_dtypes.NATIVE[dtype].typestr)
    if wanted.kind in "iu" and array.dtype.kind in "iu" and array.size:
        info = np.iinfo(wanted)
        if int(array.min()) < info.min or int(array.max()) > info.max:
            raise ValueError(f"{dtype} holds numbers from {info.min} to {info.max}")
    with np.errstate(over="ignore"):  # what is beyond the range of a float is an infinity in it
        return array.astype(wanted, copy=False)


def named(array: Array) -> str:
    """The name of an array's type, which has to be one of OINF's."""
    name = _dtypes.of_numpy(array.dtype)
    if name is None or name == "c64" or name not in _dtypes.NATIVE:
        raise usage(f"OINF has no type for numpy's {array.dtype}")
    return name


def to_bytes(array: Array, dtype: str) -> bytes:
    """The bytes of the numbers as that type."""
    if dtype == "bf16":
        return _bf16(array.astype(np.float32, copy=False)).tobytes()
    if dtype == "f8_e5m2":
        return _f8(array.astype(np.float32, copy=False)).tobytes()
    if dtype in _RANGES:
        return _dtypes.pack(dtype, np.ascontiguousarray(array)).tobytes()
    return array.astype(_dtypes.NATIVE[dtype].typestr, copy=False).tobytes()


def _bf16(values: Array) -> Array:
    """Rounds to the nearest, ties to even, by the bits alone: a NaN is rounded like a number."""
    bits = np.ascontiguousarray(values).reshape(-1).view(np.uint32).astype(np.uint64)
    rounded = bits + np.uint64(0x7FFF) + (bits >> np.uint64(16) & np.uint64(1))
    return (rounded >> np.uint64(16)).astype("<u2")


def _f8(values: Array) -> Array:
    """The bytes that openinfer-oinf writes. They are not always those of the nearest number: where a mantissa is rounded up to the
    next power of two, the exponent stays. Its readers expect these, so they are what the file gets.
    """
    bits = np.ascontiguousarray(values).reshape(-1).view(np.uint32).astype(np.int64)
    sign = (bits >> 31) << 7
    exponent = (bits >> 23) & 0xFF
    mantissa = (bits & 0x7FFFFF) | 0x800000
    target = exponent - 112
    # Normal numbers: two bits of mantissa, rounded by adding half of the last place.
    normal = (target << 2) | (((mantissa + (1 << 20)) >> 21) & 3)
    # Below the smallest normal number, the mantissa is shifted right.
    shift = np.clip(22 - target, 22, 62)
    subnormal = np.where(shift >= 32, 0, ((mantissa + (1 << (shift - 1))) >> shift) & 3)
    code = np.where(target >= 31, 0x7C, np.where(target <= 0, subnormal, normal))
    code = np.where(exponent == 0, 0, code) | sign
    is_nan = (exponent == 0xFF) & (bits & 0x7FFFFF != 0)
    result: Array = np.where(is_nan, 0x7D, code).astype(np.uint8)
    return result


def smallest(array: Array) -> str:
    """The type of a list that says none: f32 for floats, for integers the smallest of their kind that holds all."""
    kind = array.dtype.kind
    if kind == "b":
        return "bool"
    if kind == "f":
        return "f32"
    if kind not in "iu":
        raise usage(f"metadata of OINF holds numbers and booleans, not numpy's {array.dtype}")
    low, high = (int(array.min()), int(array.max())) if array.size else (0, 0)
    for bits in (8, 16, 32):
        info = np.iinfo(f"{kind}{bits // 8}")
        if info.min <= low and high <= info.max:
            return f"{kind}{bits}"
    return f"{kind}64"


def smallest_int(value: int) -> str:
    """The type of an integer that says none: unsigned unless it is negative."""
    kind = "u" if value >= 0 else "i"
    for bits in (8, 16, 32, 64):
        info = np.iinfo(f"{kind}{bits // 8}")
        if info.min <= value <= info.max:
            return f"{kind}{bits}"
    raise usage(f"{value} takes more than 64 bits")
