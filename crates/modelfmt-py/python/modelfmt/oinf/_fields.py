"""What the fields of a dataclass may hold, and what each is in a file."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import numpy as np

from .._errors import usage


class Bitset:
    """A set of bits, as metadata."""

    def __init__(self, bits: Iterable[bool]) -> None:
        self.bits = [bool(bit) for bit in bits]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bitset) and self.bits == other.bits

    def __hash__(self) -> int:
        return hash(tuple(self.bits))

    def __repr__(self) -> str:
        return f"Bitset({self.bits})"


@dataclasses.dataclass
class ScalarValue:
    """A number as metadata, with a type of your choice."""

    value: Any
    dtype: str | int | None = None


@dataclasses.dataclass
class SizeVar:
    """A size variable, in a field that is not annotated as ``int``."""

    value: Any


@dataclasses.dataclass(eq=False)
class TensorSpec:
    """A tensor: anything that numpy makes an array of, with a type of your choice, and a name other than the field's."""

    data: Any
    dtype: str | int | None = None
    name: str | None = None


@dataclasses.dataclass
class UninitializedTensor:
    """A tensor that is declared and has no values."""

    dtype: str | int
    shape: Sequence[int]
    name: str | None = None


# The names of types by their codes in a file.
CODES = {
    1: "i8",
    2: "i16",
    3: "i32",
    4: "i64",
    5: "u8",
    6: "u16",
    7: "u32",
    8: "u64",
    9: "f16",
    10: "f32",
    11: "f64",
    12: "bool",
    16: "bf16",
    17: "f8_e5m2",
    18: "i4",
    19: "i2",
    20: "i1",
    21: "u4",
    22: "u2",
    23: "u1",
    24: "t2",
    25: "t1",
}

_ALIASES = {"f8": "f8_e5m2", "f8e5m2": "f8_e5m2", "float8e5m2": "f8_e5m2"}


def dtype_of(dtype: str | int) -> str:
    """A type by its name or its code."""
    if isinstance(dtype, str):
        name = dtype.strip().lower()
        name = _ALIASES.get(name, name)
        if name in CODES.values():
            return name
    elif dtype in CODES:
        return CODES[dtype]
    raise usage(f"OINF has no type {dtype!r}; there are {', '.join(CODES.values())}")


class Field(NamedTuple):
    """A field of a dataclass: its name, the type it is annotated with, and what else is said of it."""

    name: str
    annotation: Any
    # ``dtype``, ``shape``, ``sizevar``, ``tensor``
    extra: Mapping[str, Any]


# Fields with these names hold dicts of everything that has no field of its own.
DICTS = ("sizevars", "metadata", "tensors")


def fields_of(cls: type) -> list[Field]:
    """The fields of a dataclass."""
    hints = get_type_hints(cls, include_extras=True)
    fields = []
    for field in dataclasses.fields(cls):
        annotation = hints.get(field.name, field.type)
        extra: dict[str, Any] = {}
        if get_origin(annotation) is Annotated:
            annotation, *notes = get_args(annotation)
            for note in notes:
                if isinstance(note, str):
                    extra[note] = True
                elif isinstance(note, dict):
                    extra.update(note)
        extra.update(field.metadata)
        fields.append(Field(field.name, _without_none(annotation), extra))
    return fields


def _without_none(annotation: Any) -> Any:
    """``T`` of ``Optional[T]``."""
    if get_origin(annotation) in (Union, types.UnionType):
        others = [one for one in get_args(annotation) if one is not type(None)]
        return others[0] if len(others) == 1 else annotation
    return annotation


def coerced(annotation: Any, value: Any) -> Any:
    """The value as the field is annotated, where that is clear: JSON has no tensors, and a 1 that is a float is ``1.0``."""
    if annotation is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if annotation in (TensorSpec, ScalarValue) and isinstance(value, Mapping):
        return annotation(**value)
    if annotation is UninitializedTensor and isinstance(value, Mapping):
        return UninitializedTensor(**value)
    if annotation is TensorSpec and isinstance(value, (list, int, float)):
        return TensorSpec(value)
    if annotation is ScalarValue and isinstance(value, (bool, int, float)):
        return ScalarValue(value)
    if annotation is Bitset and isinstance(value, list):
        return Bitset(value)
    origin = get_origin(annotation)
    if origin in (list, tuple) and isinstance(value, (list, tuple)) and get_args(annotation):
        inner = get_args(annotation)[0]
        items = [coerced(inner, item) for item in value]
        return items if origin is list else tuple(items)
    if annotation is np.ndarray and isinstance(value, list):
        return np.asarray(value)
    return value
