"""``safetensors.numpy``, over every format."""

from __future__ import annotations

import os
from collections.abc import Mapping

from ..._dtypes import Array
from ..._errors import ModelfmtError
from ..._model import Model
from . import SafetensorError, _save, safe_open

__all__ = ["load", "load_file", "save", "save_file"]


def load(data: bytes) -> dict[str, Array]:
    """The tensors of a file's content."""
    try:
        return dict(Model(data))
    except ModelfmtError as error:
        raise SafetensorError(f"Error while deserializing: {error}") from error


def load_file(filename: str | os.PathLike[str], *, backend: str = "mmap") -> dict[str, Array]:
    """The tensors of a file."""
    with safe_open(filename, framework="np", backend=backend) as file:
        return file.get_tensors()


def save(tensor_dict: Mapping[str, Array], metadata: Mapping[str, str] | None = None) -> bytes:
    """The bytes of a safetensors file."""
    return _save.save(tensor_dict, metadata)


def save_file(
    tensor_dict: Mapping[str, Array], filename: str | os.PathLike[str], metadata: Mapping[str, str] | None = None
) -> None:
    """Writes a safetensors file."""
    _save.save_file(tensor_dict, filename, metadata)
