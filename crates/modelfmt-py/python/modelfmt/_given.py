"""Tensors to be written: the dtype, the shape and the bytes of each."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sized
from typing import Any, NamedTuple

import numpy as np

from . import _dtypes, _modelfmt, _unwritable
from ._dtypes import Array
from ._errors import unsupported, usage
from ._tensor import Tensor

#: Name, dtype, shape, and an object with the buffer protocol, or the first byte and the number of bytes in a file.
Described = tuple[str, str, tuple[int, ...], Any]


def pairs(tensors: Any) -> Iterable[tuple[str, Any]]:
    """What was given to be saved, as names and values."""
    if isinstance(tensors, Mapping):
        return tensors.items()
    if not isinstance(tensors, Iterable):
        raise usage(
            f"tensors is of type {type(tensors).__name__}: give names and arrays, as a mapping or as pairs; "
            "a module of torch has them in state_dict()"
        )
    return _checked(tensors) if isinstance(tensors, Iterator) else list(_checked(tensors))


def _checked(tensors: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    for pair in tensors:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise usage(f"tensors has an element of type {type(pair).__name__}: give names and arrays, as a mapping or as pairs")
        yield pair[0], pair[1]


class Prepared(NamedTuple):
    """Tensors as they are written."""

    #: Name, dtype, shape and bytes of each tensor. For iterators, the position of the bytes in the file.
    tensors: list[Described]
    #: The temporary file with the bytes of all of them.
    storage: _modelfmt.Storage | None


def prepared(tensors: Iterable[tuple[str, Any]], format: str, folder: str) -> Prepared:
    """The tensors as a file of the format takes them. Those of an iterator are taken one at a time, and wait in a temporary file in the
    folder.
    """
    storage = None if isinstance(tensors, Sized) else _modelfmt.Storage.temporary(folder)
    described: list[Described] = []
    names = set()
    for name, value in tensors:
        name, dtype, shape, data = describe(name, value)
        unfit = _modelfmt.unfit(format, name, dtype, len(shape))
        if unfit is not None:
            raise _unwritable.unfit(format, name, value, len(shape), unfit)
        if name in names:
            raise _unwritable.twice(name)
        names.add(name)
        described.append((name, dtype, shape, data if storage is None else storage.write(data)))
        # Otherwise they would be kept until the next one is made.
        del value, data
    return Prepared(described, storage)


def dtype_of(name: str, value: Any) -> str:
    """Our name for the type of a value; ``""`` for a type of torch that no format has."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return TORCH_DTYPES.get(str(value.dtype).removeprefix("torch."), "")
    return value.dtype if isinstance(value, Tensor) else _of_numpy(name, as_numpy(name, value))


def describe(name: str, value: Any) -> Described:
    """One tensor, as it is written."""
    if not isinstance(name, str):
        raise usage(f"the name of a tensor is text, and {name!r} is not")
    if isinstance(value, Tensor):
        return name, value.dtype, value.shape, value.memory()
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return _of_torch(torch, name, value)
    array = as_numpy(name, value)
    dtype = _of_numpy(name, array)
    if dtype in _dtypes.PACKED:
        return name, dtype, array.shape, _dtypes.pack(dtype, np.ascontiguousarray(array))
    return name, dtype, array.shape, as_bytes(array)


def _of_numpy(name: str, array: Array) -> str:
    dtype = _dtypes.of_numpy(array.dtype)
    if dtype is None:
        raise _unwritable.array(name, array.dtype)
    return dtype


def as_numpy(name: str, value: Any) -> Array:
    """An array of numpy, without a copy where that is possible."""
    if isinstance(value, np.ndarray):
        return value
    is_number = isinstance(value, (bool, int, float, list, tuple, np.generic))
    try:
        if is_number or hasattr(value, "__array_interface__") or hasattr(value, "__array__"):
            return np.asarray(value)
        if hasattr(value, "__dlpack__"):
            # mypy does not know that any object with the two methods is accepted.
            array: Array = np.from_dlpack(value)
            return array
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        raise _unwritable.not_converted(name, value, error) from error
    raise _unwritable.no_array(name, value)


def as_bytes(array: Array) -> Array:
    """The little-endian bytes of an array, row-major."""
    if array.dtype.byteorder == ">" or (array.dtype.byteorder == "=" and sys.byteorder == "big"):
        array = array.astype(array.dtype.newbyteorder("<"))
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _of_torch(torch: Any, name: str, value: Any) -> Described:
    dtype = TORCH_DTYPES.get(str(value.dtype).removeprefix("torch."))
    if dtype is None:
        raise _unwritable.of_torch(name, value)
    if value.layout != torch.strided:
        remedy = f"tensors[{name!r}].to_dense()"
        raise unsupported(f"tensor {name!r} is not dense: pass {remedy}", remedy)
    if value.device.type == "meta":
        remedy = f"{{name: tensor for name, tensor in tensors.items() if name != {name!r}}}"
        raise unsupported(f"tensor {name!r} is on torch's device meta, and has no values: load them, or pass {remedy}", remedy)
    shape = tuple(value.shape)
    value = value.detach().to("cpu").contiguous()
    # By DLPack, because torch's own numpy() needs the numpy with which torch was built, and lacks bf16.
    return name, dtype, shape, _bytes_of_torch(torch, value)


def _bytes_of_torch(torch: Any, value: Any) -> Any:
    if value.numel() == 0:
        return b""
    bytes_of = value.reshape(-1)
    bytes_of = bytes_of.view(torch.uint8) if bytes_of.dtype != torch.bool else bytes_of.to(torch.uint8)
    return _dlpack_bytes(bytes_of)


def _dlpack_bytes(value: Any) -> Array:
    array: Array = np.from_dlpack(value)
    return array


TORCH_DTYPES = {
    "bool": "bool",
    "int8": "i8",
    "uint8": "u8",
    "int16": "i16",
    "uint16": "u16",
    "int32": "i32",
    "uint32": "u32",
    "int64": "i64",
    "uint64": "u64",
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    "complex64": "c64",
    "float8_e4m3fn": "f8_e4m3",
    "float8_e4m3fnuz": "f8_e4m3fnuz",
    "float8_e5m2": "f8_e5m2",
    "float8_e5m2fnuz": "f8_e5m2fnuz",
    "float8_e8m0fnu": "f8_e8m0",
}
