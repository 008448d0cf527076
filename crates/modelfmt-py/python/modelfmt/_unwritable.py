"""Errors for values that no file holds: which tensor it is, and what to pass in its place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from . import _dtypes, _modelfmt
from ._errors import UnsupportedError, unsupported
from ._tensor import Tensor

# The nearest type that files can hold.
_NEAREST = {
    "complex256": "complex64",
    "complex128": "complex64",
    "complex32": "complex64",
    "float128": "float64",
    "longdouble": "float64",
    "float96": "float64",
}
_OF_KIND = {"c": "complex64", "f": "float64", "i": "int64", "u": "uint64"}


def array(name: str, dtype: np.dtype[Any]) -> UnsupportedError:
    """The error for an array of a type that no format has."""
    it = f"tensors[{name!r}]"
    if dtype.kind == "O":
        why, remedy = "numbers of one type are needed", f'numpy.asarray({it}, dtype="float32")'
    elif dtype.kind in "USTa":
        why, remedy = "text goes into the metadata", f"metadata={{{name!r}: …}}"
    elif dtype.kind in "mM":
        why, remedy = "its numbers can be written", f'{it}.view("int64")'
    elif dtype.names:
        why, remedy = "write each of its fields", f"{it}[{dtype.names[0]!r}]"
    else:
        nearest = _NEAREST.get(dtype.name) or _OF_KIND.get(dtype.kind, "float32")
        why, remedy = f"the nearest that has one is {nearest}", f"{it}.astype({nearest!r})"
    return _of_type(name, f"numpy's type {dtype.name}", why, remedy)


def of_torch(name: str, value: Any) -> UnsupportedError:
    """The error for a tensor of torch of a type that no format has."""
    dtype = str(value.dtype).removeprefix("torch.")
    it = f"tensors[{name!r}]"
    if value.is_quantized:
        why, remedy = "its values can be decoded", f"{it}.dequantize()"
    elif value.is_complex():
        why, remedy = "the nearest that has one is complex64", f"{it}.to(torch.complex64)"
    else:
        why, remedy = "its bytes can be written", f"{it}.view(torch.uint8)"
    return _of_type(name, f"torch's type {dtype}", why, remedy)


def _of_type(name: str, dtype: str, why: str, remedy: str) -> UnsupportedError:
    return unsupported(f"tensor {name!r}: no file format has {dtype}; {why}: pass {remedy}", remedy)


def no_array(name: str, value: Any) -> UnsupportedError:
    """The error for what is no array at all."""
    it = f"tensors[{name!r}]"
    if isinstance(value, Mapping):
        why, remedy = "give its own names and arrays", f"{{f'{name}.{{name}}': array for name, array in {it}.items()}}"
    elif value is None:
        why, remedy = "leave it out", "{name: array for name, array in tensors.items() if array is not None}"
    elif isinstance(value, (str, bytes)):
        why, remedy = "text goes into the metadata", f"metadata={{{name!r}: …}}"
    else:
        why, remedy = "make an array of it", f'numpy.asarray({it}, dtype="float32")'
    text = f"tensor {name!r} is a {type(value).__name__}, which has neither DLPack nor the array interface"
    return unsupported(f"{text}; {why}: pass {remedy}", remedy)


def not_converted(name: str, value: Any, error: Exception) -> UnsupportedError:
    """The error for what numpy makes no array of, such as lists of different lengths."""
    remedy = f"an array of numpy in place of tensors[{name!r}]"
    if isinstance(value, (list, tuple)):
        remedy = f"{{f'{name}.{{number}}': row for number, row in enumerate(tensors[{name!r}])}}"
    kind = type(value).__name__
    return unsupported(f"tensor {name!r} is a {kind} that numpy makes no array of: {error}; pass {remedy}", remedy)


def unfit(format: str, name: str, value: Any, rank: int, fault: tuple[str, str, str | None, bool]) -> UnsupportedError:
    """The error for a tensor that the format cannot hold."""
    subject, why, dtype, is_exact = fault
    it = f"tensors[{name!r}]"
    if subject == "name":
        remedy = f"{{{_other_name(format, name)!r}: {it}}}"
    elif subject == "rank":
        kept = _largest_rank(format, rank) - 1
        remedy = f"{it}.reshape(-1, *{it}.shape[{rank - kept}:])"
    else:
        remedy = _converted(it, value, dtype)
    limit = "" if is_exact else " if its values fit"
    return unsupported(f"tensor {name!r}: {why}; pass {remedy}{limit}", remedy)


def _converted(it: str, value: Any, dtype: str | None) -> str:
    """A tensor in a type that the format has."""
    numpy_name = "float32" if dtype is None else _dtypes.NUMPY[dtype].name
    if isinstance(value, Tensor):
        is_float = numpy_name == "float32"
        return f"{it}.dequantize()" if is_float else f"{it}.numpy().astype({numpy_name!r})"
    if type(value).__module__.partition(".")[0] == "torch":
        return f"{it}.to(torch.{numpy_name})" if dtype is not None else f"torch.view_as_real({it})"
    # The real and imaginary parts of complex numbers, side by side.
    return f"{it}.astype({numpy_name!r})" if dtype is not None else f"{it}.view({numpy_name!r})"


def _other_name(format: str, name: str) -> str:
    """A name much like this one that the format can have."""
    plain = re.sub("[^A-Za-z0-9._-]", "_", name)[:63].strip("_") or "tensor"
    return next((it for it in (plain, f"{plain}.") if _modelfmt.unfit(format, it, "f32", 1) is None), "tensor")


def _largest_rank(format: str, rank: int) -> int:
    fits = (rank for rank in range(rank, 1, -1) if _modelfmt.unfit(format, "w", "f32", rank) is None)
    return next(fits, 1)


def twice(name: str) -> UnsupportedError:
    """The error for a name that two tensors have."""
    remedy = f"another name than {name!r} for one of them"
    return unsupported(f"tensor {name!r} is given twice, and each tensor of a file has a name of its own: pass {remedy}", remedy)
