"""Which of numpy's, ml_dtypes', torch's and DLPack's types a dtype is."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ._errors import unsupported, usage

Array = npt.NDArray[Any]


class Native(NamedTuple):
    """A dtype that numpy itself has."""

    typestr: str
    # DLPack's code and bits.
    code: int
    bits: int


_INT, _UINT, _FLOAT, _BFLOAT, _COMPLEX, _BOOL = 0, 1, 2, 4, 5, 6

NATIVE: dict[str, Native] = {
    "bool": Native("|b1", _BOOL, 8),
    "i8": Native("|i1", _INT, 8),
    "u8": Native("|u1", _UINT, 8),
    "i16": Native("<i2", _INT, 16),
    "u16": Native("<u2", _UINT, 16),
    "i32": Native("<i4", _INT, 32),
    "u32": Native("<u4", _UINT, 32),
    "i64": Native("<i8", _INT, 64),
    "u64": Native("<u8", _UINT, 64),
    "f16": Native("<f2", _FLOAT, 16),
    "f32": Native("<f4", _FLOAT, 32),
    "f64": Native("<f8", _FLOAT, 64),
    "c64": Native("<c8", _COMPLEX, 64),
}


class Extended(NamedTuple):
    """A dtype of whole bytes whose numbers ml_dtypes has."""

    size: int
    ml_dtype: str
    # DLPack's code, from its version 1.1 for floats of 8 bits.
    code: int
    torch: str


EXTENDED: dict[str, Extended] = {
    "bf16": Extended(2, "bfloat16", _BFLOAT, "bfloat16"),
    "f8_e4m3": Extended(1, "float8_e4m3fn", 10, "float8_e4m3fn"),
    "f8_e4m3fnuz": Extended(1, "float8_e4m3fnuz", 11, "float8_e4m3fnuz"),
    "f8_e5m2": Extended(1, "float8_e5m2", 12, "float8_e5m2"),
    "f8_e5m2fnuz": Extended(1, "float8_e5m2fnuz", 13, "float8_e5m2fnuz"),
    "f8_e8m0": Extended(1, "float8_e8m0fnu", 14, "float8_e8m0fnu"),
}


class Packed(NamedTuple):
    """A dtype whose elements share bytes: the first has the lowest bits."""

    bits: int
    kind: str
    # None if ml_dtypes has no such type; then the numbers come in a type of numpy.
    ml_dtype: str | None


PACKED: dict[str, Packed] = {
    "i4": Packed(4, "int", "int4"),
    "u4": Packed(4, "uint", "uint4"),
    "i2": Packed(2, "int", "int2"),
    "u2": Packed(2, "uint", "uint2"),
    "i1": Packed(1, "int", None),
    "u1": Packed(1, "uint", None),
    "t2": Packed(2, "int", None),
    "t1": Packed(1, "sign", None),
    "f4": Packed(4, "code", "float4_e2m1fn"),
    "f6_e2m3": Packed(6, "code", "float6_e2m3fn"),
    "f6_e3m2": Packed(6, "code", "float6_e3m2fn"),
}

#: numpy's types, created once.
NUMPY: dict[str, np.dtype[Any]] = {name: np.dtype(native.typestr) for name, native in NATIVE.items()}

# Names of numpy's and ml_dtypes' types for data that is saved.
_OF_NUMPY = {np.dtype(native.typestr).name: name for name, native in NATIVE.items()}
_OF_NUMPY |= {extended.ml_dtype: name for name, extended in EXTENDED.items()}
_PACKED_OF_NUMPY = {packed.ml_dtype: name for name, packed in PACKED.items() if packed.ml_dtype is not None}


def ml_dtype(name: str, dtype: str) -> np.dtype[Any]:
    """A type of ml_dtypes, if that is installed and has it."""
    try:
        import ml_dtypes
    except ImportError:
        raise unsupported(
            f"numpy has no type for {dtype}: install it with `pip install ml_dtypes`, or ask for `.numpy(dtype=\"f32\")`, "
            "and where all tensors are loaded for `dtype=\"f32\"`",
            'dtype="f32"',
            "pip install ml_dtypes",
        ) from None
    found = getattr(ml_dtypes, name, None)
    if found is None:
        raise unsupported(
            f"this ml_dtypes has no {name} for {dtype}: install a newer one, or read the bytes with .raw()",
            "pip install --upgrade ml_dtypes",
        )
    dtype_of: np.dtype[Any] = np.dtype(found)
    return dtype_of


#: The size of an element in bytes, for types that take whole bytes.
SIZES = {name: native.bits // 8 for name, native in NATIVE.items()}
SIZES |= {name: extended.size for name, extended in EXTENDED.items()}


def unpack(dtype: str, data: Array, shape: tuple[int, ...]) -> Array:
    """The elements of a packed type from its bytes."""
    packed = PACKED[dtype]
    if packed.ml_dtype is None:
        return unpack_integers(dtype, data, shape)
    wanted = ml_dtype(packed.ml_dtype, dtype)
    if packed.kind == "code":
        return unpack_codes(data, packed.bits, shape).view(wanted)
    return unpack_integers(dtype, data, shape).astype(wanted)


def unpack_integers(dtype: str, data: Array, shape: tuple[int, ...]) -> Array:
    """The elements of a packed type of integers from its bytes, as ``int8`` or ``uint8``."""
    packed = PACKED[dtype]
    values = unpack_codes(data, packed.bits, shape)
    if packed.kind == "sign":
        values = (values.astype(np.int8) << 1) - np.int8(1)
    elif packed.kind == "int":
        shift = 8 - packed.bits
        values = (values << shift).astype(np.uint8).view(np.int8) >> shift
    return values.reshape(shape)


def unpack_codes(data: Array, bits: int, shape: tuple[int, ...]) -> Array:
    """The bits of each element, in a byte of its own."""
    count = math.prod(shape)
    stream = np.unpackbits(data, bitorder="little")[: count * bits].reshape(count, bits)
    codes: Array = np.packbits(stream, axis=1, bitorder="little").reshape(shape)
    return codes


def pack_codes(codes: Array, bits: int) -> Array:
    """Bytes that hold the lowest bits of each element, without gaps."""
    stream = np.unpackbits(codes.reshape(-1, 1), axis=1, bitorder="little")[:, :bits]
    data: Array = np.packbits(stream.reshape(-1), bitorder="little")
    return data


def pack(dtype: str, values: Array) -> Array:
    """The bytes of elements of a packed type."""
    packed = PACKED[dtype]
    if packed.kind == "sign":
        codes = (values.reshape(-1) > 0).astype(np.uint8)
    elif values.dtype.itemsize == 1 and packed.kind == "code":
        codes = values.reshape(-1).view(np.uint8)
    else:
        codes = values.reshape(-1).astype(np.int8).view(np.uint8)
    return pack_codes(codes, packed.bits)


def of_numpy(dtype: np.dtype[Any]) -> str | None:
    """Our name for a type of numpy or ml_dtypes; ``None`` for one that no file format has."""
    name = dtype.newbyteorder("=").name if dtype.kind != "V" else dtype.name
    return _OF_NUMPY.get(name) or _PACKED_OF_NUMPY.get(name)


# Names of integers that numpy has too, where they count bytes and ours count bits: "i8" is its int64.
_AMBIGUOUS = frozenset(sign + digit for sign in "iu" for digit in "1248")


def refuse_ambiguous(dtype: Any) -> None:
    """An error for a name that means another type to numpy, where both names are accepted."""
    if not isinstance(dtype, str) or dtype not in _AMBIGUOUS:
        return
    wide = np.dtype(dtype).name
    both = [NUMPY[dtype].name, wide] if dtype in NUMPY else [wide]
    names = " or ".join(f'"{name}"' for name in both)
    raise usage(f'dtype="{dtype}" counts bits here and bytes in numpy: give {names}')


def name_of(dtype: Any) -> str:
    """Our name, or another usual one, for a type: text, or a type of numpy, ml_dtypes or torch."""
    if isinstance(dtype, str):
        return dtype
    if type(dtype).__module__.partition(".")[0] == "torch":
        return str(dtype).removeprefix("torch.")
    try:
        # numpy treats None as its float64.
        name = None if dtype is None else of_numpy(np.dtype(dtype))
    except TypeError:
        name = None
    if name is None:
        raise usage(f"{dtype!r} is no type that files have, such as 'f16'")
    return name
