"""A dataclass becomes a file."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import _modelfmt
from .._content import local
from .._errors import usage
from .._keywords import checked
from . import _encode
from ._fields import (
    DICTS,
    Bitset,
    ScalarValue,
    SizeVar,
    TensorSpec,
    UninitializedTensor,
    coerced,
    dtype_of,
    fields_of,
)

Metadata = tuple[str, str, Any]
Tensor = tuple[str, str, tuple[int, ...], bytes | None]


@checked()
def write_oinf(instance: Any, path: str | os.PathLike[str]) -> None:
    """Writes a dataclass instance to an OINF file, which replaces one that exists.

    Fields annotated as ``int`` are size variables; :class:`TensorSpec`, :class:`UninitializedTensor` and arrays of numpy are tensors;
    numbers, strings, lists and :class:`Bitset` are metadata. ``Annotated[..., {"dtype": "f16"}]`` and ``field(metadata=...)`` choose
    a type. Fields named ``sizevars``, ``metadata`` and ``tensors`` hold dicts for names that are not identifiers.
    """
    if not dataclasses.is_dataclass(instance) or isinstance(instance, type):
        raise usage("write_oinf takes an instance of a dataclass")
    content = _Content()
    content.collect(instance)
    sizevars = sorted(content.sizevars.items())
    metadata = [_metadata(key, value, extra) for key, (value, extra) in sorted(content.metadata.items())]
    tensors = [_tensor(name, value, extra) for name, (value, extra) in sorted(content.tensors.items())]
    _modelfmt.write_oinf(local(path), sizevars, metadata, tensors)


class _Content:
    """What goes into the file, by the names of the fields."""

    def __init__(self) -> None:
        self.sizevars: dict[str, int] = {}
        self.metadata: dict[str, tuple[Any, Mapping[str, Any]]] = {}
        self.tensors: dict[str, tuple[Any, Mapping[str, Any]]] = {}

    def collect(self, instance: Any) -> None:
        for name in DICTS:
            entries = getattr(instance, name, None)
            if isinstance(entries, dict):
                self._collect_dict(name, entries)
        for field in fields_of(type(instance)):
            if field.name in DICTS:
                continue
            value = coerced(field.annotation, getattr(instance, field.name))
            extra = field.extra
            if isinstance(value, SizeVar) or extra.get("sizevar") or field.annotation in (int, SizeVar):
                self.sizevars[field.name] = _size(field.name, value)
            elif isinstance(value, ScalarValue):
                self.metadata[field.name] = (value, extra)
            elif _is_tensor(value, extra):
                self.tensors[field.name] = (value, extra)
            else:
                self.metadata[field.name] = (value, extra)

    def _collect_dict(self, name: str, entries: dict[str, Any]) -> None:
        if name == "sizevars":
            self.sizevars.update({key: _size(key, value) for key, value in entries.items()})
        else:
            target = self.metadata if name == "metadata" else self.tensors
            target.update({key: (value, {}) for key, value in entries.items()})


def _is_tensor(value: Any, extra: Mapping[str, Any]) -> bool:
    if extra.get("tensor") or isinstance(value, (TensorSpec, UninitializedTensor, np.ndarray)):
        return True
    return isinstance(value, (list, tuple)) and "dtype" in extra


def _size(name: str, value: Any) -> int:
    value = value.value if isinstance(value, SizeVar) else value
    if value is None or isinstance(value, bool):
        raise usage(f"the size variable {name!r} cannot be {value}")
    size = int(value)
    if not 0 <= size < 2**64:
        raise usage(f"the size variable {name!r} is {size}, and has to be at least 0 and below 2^64")
    return size


def _metadata(key: str, value: Any, extra: Mapping[str, Any]) -> Metadata:
    dtype = extra.get("dtype")
    if isinstance(value, ScalarValue):
        dtype = value.dtype if value.dtype is not None else dtype
        value = value.value
    if isinstance(value, bool):
        return key, "bool", bytes([value])
    if isinstance(value, str):
        return key, "str", value
    if isinstance(value, Bitset):
        return key, "bitset", value.bits
    wanted = None if dtype is None else dtype_of(dtype)
    if isinstance(value, (int, np.integer)):
        kind = wanted or _encode.smallest_int(int(value))
        return key, kind, _encode.to_bytes(_encode.as_array(int(value), kind), kind)
    if isinstance(value, (float, np.floating)):
        kind = wanted or "f32"
        return key, kind, _encode.to_bytes(_encode.as_array(float(value), kind), kind)
    if isinstance(value, (list, tuple, np.ndarray)):
        array = _encode.as_array(value, wanted)
        if wanted is None:
            wanted = _encode.named(array) if isinstance(value, np.ndarray) else _encode.smallest(array)
        return key, "ndarray", (wanted, array.shape, _encode.to_bytes(array, wanted))
    raise usage(f"the field {key!r} holds a {type(value).__name__}, which is no metadata of OINF")


def _tensor(name: str, value: Any, extra: Mapping[str, Any]) -> Tensor:
    if isinstance(value, UninitializedTensor):
        return value.name or name, dtype_of(value.dtype), tuple(map(int, value.shape)), None
    dtype = extra.get("dtype")
    if isinstance(value, TensorSpec):
        name, dtype, value = value.name or name, value.dtype or dtype, value.data
    elif isinstance(value, np.ndarray):
        dtype = None
    if value is None:
        if dtype is None or extra.get("shape") is None:
            raise usage(f"the tensor {name!r} has no values: say its dtype and its shape")
        return name, dtype_of(dtype), tuple(map(int, extra["shape"])), None
    wanted = None if dtype is None else dtype_of(dtype)
    array = _encode.as_array(value, wanted)
    wanted = wanted or _encode.named(array)
    return name, wanted, array.shape, _encode.to_bytes(array, wanted)
