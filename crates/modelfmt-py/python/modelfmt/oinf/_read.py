"""A file becomes a dataclass."""

from __future__ import annotations

import dataclasses
import os
import re
from typing import Any, TypeVar

import numpy as np

from .._errors import usage
from .._keywords import checked
from .._model import Model
from .._opening import Content
from .._tensor import Tensor
from . import _encode
from ._fields import DICTS, Bitset, Field, ScalarValue, SizeVar, TensorSpec, UninitializedTensor, fields_of

T = TypeVar("T")


@checked()
def read_oinf(path: str | os.PathLike[str] | Content, cls: type[T]) -> T:
    """Reads an OINF file into a dataclass.

    A field takes the size variable, the metadata or the tensor of its name. Characters of names that identifiers cannot have are
    ``_`` in fields: ``W.0`` goes to ``W_0``. A tensor is a :class:`TensorSpec` or an :class:`UninitializedTensor`, or an array where
    the field is annotated as one. Entries without a field are left out, unless a field is named ``sizevars``, ``metadata`` or ``tensors``.
    """
    if not dataclasses.is_dataclass(cls):
        raise usage("read_oinf takes a dataclass")
    with Model(path) as model:
        if model.format != "oinf":
            raise usage(f"{model.path or 'the content'} is {model.format}, not oinf")
        content = _content(model)
        given: dict[str, Any] = {}
        fields = fields_of(cls)
        taken = set()
        for field in fields:
            if field.name not in DICTS:
                found = _find(field.name, content)
                if found is not None:
                    taken.add(found)
                    given[field.name] = _value(field, found[1], content[found])
        for name in DICTS:
            if any(field.name == name for field in fields):
                rest = {key: value for (kind, key), value in content.items() if kind == name and (kind, key) not in taken}
                given[name] = {key: _plain(name, key, value) for key, value in rest.items()}
        missing = [field.name for field in dataclasses.fields(cls) if _is_needed(field) and field.name not in given]
        if missing:
            raise usage(f"{model.path or 'the content'} has nothing for {', '.join(missing)} of {cls.__name__}")
        return cls(**given)


_Content = dict[tuple[str, str], Any]


def _content(model: Model) -> _Content:
    content: _Content = {}
    for name, size in model.details["sizevars"].items():
        content["sizevars", name] = size
    for key, entry in model.metadata.items():
        content["metadata", key] = entry
    for tensor in model.tensors():
        content["tensors", tensor.name] = (tensor, model.info(tensor.name).has_data)
    return content


def _find(name: str, content: _Content) -> tuple[str, str] | None:
    """The entry of that name, or the one whose name becomes it."""
    same = [entry for entry in content if entry[1] == name]
    if not same:
        same = [entry for entry in content if re.sub("[^A-Za-z0-9_]", "_", entry[1]) == name]
    if len(same) > 1:
        raise usage(f"the field {name!r} may be {' or '.join(repr(entry[1]) for entry in same)}")
    return same[0] if same else None


def _is_needed(field: dataclasses.Field[Any]) -> bool:
    return field.init and field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _value(field: Field, name: str, value: Any) -> Any:
    if isinstance(value, int):
        return SizeVar(value) if field.annotation is SizeVar else value
    if isinstance(value, dict):
        number = _metadata(value)
        return ScalarValue(number, value["type"]) if field.annotation is ScalarValue else number
    tensor, has_data = value
    renamed = name if name != field.name else None
    if not has_data:
        return None if field.extra.get("tensor") else UninitializedTensor(tensor.dtype, tensor.shape, renamed)
    array = _array(tensor)
    return array if field.annotation is np.ndarray else TensorSpec(array, tensor.dtype, renamed)


def _plain(kind: str, name: str, value: Any) -> Any:
    """What a dict of a dataclass gets."""
    return _value(Field(name, None, {}), name, value) if kind != "sizevars" else value


def _metadata(entry: dict[str, Any]) -> Any:
    kind, value = entry["type"], entry["value"]
    if kind == "bitset":
        return Bitset(value)
    if kind == "ndarray":
        numbers = [_number(one) for one in value]
        return _encode.as_array(np.reshape(np.array(numbers), entry["shape"]), _numpy_name(entry["dtype"]))
    return _number(value)


def _number(value: Any) -> Any:
    return float(value.lower()) if value in ("NaN", "Infinity", "-Infinity") else value


def _numpy_name(dtype: str) -> str:
    """The type in which numpy holds numbers of a type of OINF."""
    return "f32" if dtype in ("bf16", "f8_e5m2") else {"u4": "u8", "u2": "u8", "u1": "u8"}.get(dtype, _signed(dtype))


def _signed(dtype: str) -> str:
    return "i8" if dtype in ("i4", "i2", "i1", "t2", "t1") else dtype


def _array(tensor: Tensor) -> Any:
    """The values of a tensor in a type of numpy, from which the same bytes are written again."""
    if tensor.dtype in ("bf16", "f8_e5m2"):
        return tensor.dequantize()
    array = tensor.numpy()
    name = _numpy_name(tensor.dtype)
    return array if name == tensor.dtype else array.astype(_encode.as_array(0, name).dtype)
