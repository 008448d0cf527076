"""Tensors by the addresses of their memory, and files as bytes: the lower level of safetensors."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ... import _given
from ..._errors import ModelfmtError
from ..._model import Model
from ..._tensor import Tensor
from . import _save
from ._errors import SafetensorError

_DTYPES = {**_given.TORCH_DTYPES, "float8_e4m3": "f8_e4m3", "float4_e2m1fn_x2": "f4"}


class TensorSpec:
    """A tensor by the address of its memory, which the caller keeps until it is written."""

    def __init__(self, *, dtype: str, shape: Sequence[int], data_ptr: int, data_len: int) -> None:
        found = _DTYPES.get(dtype)
        if found is None:
            raise SafetensorError(f"no dtype is named {dtype!r}")
        self._dtype = found
        self.shape = list(shape)
        if dtype.endswith("_x2"):
            # Its elements are pairs.
            self.shape[-1] *= 2
        self.data_ptr, self.data_len = data_ptr, data_len

    @property
    def dtype(self) -> str:
        """The type, by safetensors' name."""
        return self._dtype.upper()

    def tensor(self, name: str) -> Tensor:
        """The tensor, as it is written. Its bytes are read where they are."""
        memory: Any = b""  # any object with the buffer protocol is written
        if self.data_len:
            data: Any = (ctypes.c_ubyte * self.data_len).from_address(self.data_ptr)
            memory = np.frombuffer(data, np.uint8)
        return Tensor(name, self._dtype, tuple(self.shape), self.data_len, memory=memory)


def serialize(tensor_dict: Mapping[str, TensorSpec], metadata: Mapping[str, str] | None = None) -> bytes:
    """The bytes of a safetensors file."""
    return _save.save(_tensors(tensor_dict), metadata)


def serialize_file(
    tensor_dict: Mapping[str, TensorSpec], filename: str | os.PathLike[str], metadata: Mapping[str, str] | None = None
) -> None:
    """Writes a safetensors file."""
    _save.save_file(_tensors(tensor_dict), filename, metadata)


def _tensors(specs: Mapping[str, TensorSpec]) -> dict[str, Tensor]:
    tensors = {}
    for name, spec in specs.items():
        if not isinstance(spec, TensorSpec):
            raise TypeError(f"tensor {name!r} is a {type(spec).__name__}, and has to be a TensorSpec")
        tensors[name] = spec.tensor(name)
    return tensors


def deserialize(bytes: bytes) -> list[tuple[str, dict[str, Any]]]:
    """The tensors of a file's content: for each its name, and a dict of shape, dtype and bytes."""
    try:
        tensors = Model(bytes).tensors()
        return [
            (tensor.name, {"shape": list(tensor.shape), "dtype": tensor.dtype.upper(), "data": bytearray(tensor.tobytes())})
            for tensor in tensors
        ]
    except ModelfmtError as error:
        raise SafetensorError(f"Error while deserializing: {error}") from error
