"""The interface of the package ``safetensors``, for files of every format.

``from modelfmt.compat.safetensors import safe_open`` and ``from modelfmt.compat.safetensors.torch import load_file, save_file`` take the
place of the same names of ``safetensors``. What is written is safetensors, byte for byte; what is read may be any format.

Files are read and not mapped, whatever ``backend`` says: ``modelfmt.open(path, mmap=True)`` maps them.
"""

from __future__ import annotations

import errno
import json
import os
from types import TracebackType
from typing import Any, Self

import numpy as np

from ..._errors import ModelfmtError
from ..._model import Model
from ..._tensor import Tensor
from ._errors import SafetensorError
from ._raw import TensorSpec, deserialize, serialize, serialize_file

__all__ = ["SafetensorError", "TensorSpec", "deserialize", "safe_open", "serialize", "serialize_file"]


_NUMPY = ("np", "numpy")
_TORCH = ("pt", "torch", "pytorch")


class safe_open:
    """Opens a file and reads its tensors when they are asked for."""

    def __init__(
        self, filename: str | os.PathLike[str], framework: str, device: Any = "cpu", *, backend: str = "mmap"
    ) -> None:
        if framework not in (*_NUMPY, *_TORCH):
            raise SafetensorError(f"framework {framework!r} is none of np, numpy, pt, torch")
        if backend not in ("mmap", "pread"):
            raise SafetensorError(f"backend {backend!r} is neither mmap nor pread")
        self._is_torch = framework in _TORCH
        self._device = device
        self._model: Model | None
        try:
            self._model = Model(filename)
        except FileNotFoundError:
            # The message that programs expect.
            text = f"No such file or directory: {os.fspath(filename)}"
            raise _NoFile(errno.ENOENT, text, os.fspath(filename)) from None
        except (ModelfmtError, OSError) as error:
            raise SafetensorError(f"Error while deserializing header: {error}") from error

    def _open(self) -> Model:
        if self._model is None:
            raise SafetensorError("File is closed")
        return self._model

    def keys(self) -> list[str]:
        """The names of the tensors, sorted."""
        return sorted(self._open())

    def offset_keys(self) -> list[str]:
        """The names of the tensors, in the order of their values in the file."""
        model = self._open()
        return sorted(model, key=lambda name: model.info(name).offset or 0)

    def metadata(self) -> dict[str, str] | None:
        """The metadata, as text; ``None`` if there is none. Values of other formats that are not text become JSON."""
        metadata = self._open().metadata
        if not metadata:
            return None
        return {key: value if isinstance(value, str) else json.dumps(value) for key, value in metadata.items()}

    def get_tensor(self, name: str) -> Any:
        """A tensor, as an array of the framework."""
        return self._as_array(self._tensor(name))

    def get_tensors(self) -> dict[str, Any]:
        """All tensors by their names."""
        return {name: self.get_tensor(name) for name in self.offset_keys()}

    def get_slice(self, name: str) -> Slice:
        """A tensor that can be sliced; only the slice is read."""
        return Slice(self, self._tensor(name))

    def _tensor(self, name: str) -> Tensor:
        try:
            return self._open().tensor(name)
        except KeyError:
            raise SafetensorError(f"File does not contain tensor {name}") from None

    def _as_array(self, tensor: Tensor) -> Any:
        try:
            if not self._is_torch:
                return tensor.numpy()
            array = tensor.torch()
        except (ModelfmtError, OSError) as error:
            raise SafetensorError(str(error)) from error
        return array if str(self._device) == "cpu" else array.to(_device(self._device))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._model is not None:
            self._model.close()
        self._model = None


class _NoFile(FileNotFoundError):
    def __str__(self) -> str:
        return str(self.args[1])


def _device(device: Any) -> Any:
    return f"cuda:{device}" if isinstance(device, int) else device


class Slice:
    """A tensor of which only slices are read."""

    def __init__(self, opened: safe_open, tensor: Tensor) -> None:
        self._opened, self._tensor = opened, tensor

    def get_shape(self) -> list[int]:
        """The dimensions."""
        return list(self._tensor.shape)

    def get_dtype(self) -> str:
        """The type, by safetensors' name."""
        return self._tensor.dtype.upper()

    def __getitem__(self, key: Any) -> Any:
        key = _checked(key, self._tensor.shape)
        try:
            return self._opened._as_array(self._tensor[key])
        except (IndexError, ModelfmtError) as error:
            raise SafetensorError(str(error)) from error


def _checked(key: Any, shape: tuple[int, ...]) -> Any:
    """The key, if safetensors takes it: it knows no steps, and refuses ends that are outside."""
    keys = list(key) if isinstance(key, tuple) else [key]
    for place, one in enumerate(keys):
        if isinstance(one, list) and one:
            raise SafetensorError("Non empty lists are not implemented")
        if isinstance(one, list):
            # An empty slice keeps its dimension in place; numpy would move it like the dimension of any other
            # list.
            keys[place] = slice(0, 0)
        if place >= len(shape):
            continue
        size = shape[place]
        if isinstance(one, (int, np.integer)):
            index = int(one)
            if index < -size:
                raise SafetensorError(f"Invalid index {index} for dimension {place} of size {size}")
            if index >= size:
                raise _outside(keys, shape, index, place)
        elif isinstance(one, slice):
            if one.step not in (None, 1):
                raise SafetensorError(f"Slices with a step are not implemented: {_shown(one)} has {one.step}")
            stop = one.stop
            if isinstance(stop, (int, np.integer)) and stop > size:
                raise _outside(keys, shape, int(stop) - 1, place)
    return tuple(keys)


def _outside(keys: list[Any], shape: tuple[int, ...], index: int, place: int) -> SafetensorError:
    shown = ", ".join(map(_shown, keys))
    return SafetensorError(
        f"Error during slicing [{shown}] with shape {list(shape)}: "
        f"index {index} out of bounds for tensor dimension #{place} of size {shape[place]}"
    )


def _shown(key: Any) -> str:
    if not isinstance(key, slice):
        return "..." if key is Ellipsis else str(key)
    start, stop = ("" if end is None else str(end) for end in (key.start, key.stop))
    return f"{start}:{stop}"
