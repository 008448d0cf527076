"""``safetensors.torch``, over every format, without its helpers for modules."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from typing import Any

from ..._errors import ModelfmtError
from ..._model import Model
from . import SafetensorError, _save, safe_open

__all__ = ["load", "load_file", "save", "save_file"]


def load(data: bytes) -> dict[str, Any]:
    """The tensors of a file's content."""
    try:
        return {tensor.name: tensor.torch() for tensor in Model(data).tensors()}
    except ModelfmtError as error:
        raise SafetensorError(f"Error while deserializing: {error}") from error


def load_file(filename: str | os.PathLike[str], device: Any = "cpu", *, backend: str = "mmap") -> dict[str, Any]:
    """The tensors of a file."""
    with safe_open(filename, framework="pt", device=device, backend=backend) as file:
        return file.get_tensors()


def save(tensors: Mapping[str, Any], metadata: Mapping[str, str] | None = None) -> bytes:
    """The bytes of a safetensors file."""
    _check(tensors)
    return _save.save(tensors, metadata)


def save_file(
    tensors: Mapping[str, Any], filename: str | os.PathLike[str], metadata: Mapping[str, str] | None = None
) -> None:
    """Writes a safetensors file."""
    _check(tensors)
    _save.save_file(tensors, filename, metadata)


def _check(tensors: Any) -> None:
    """Refuses what safetensors refuses: no dict of tensors, sparse ones, tensors over the same memory, and those with gaps."""
    torch: Any = importlib.import_module("torch")  # not this module, which has its name
    if not isinstance(tensors, dict):
        raise ValueError(f"Expected a dict of [str, torch.Tensor] but received {type(tensors)}")
    sparse = []
    for name, tensor in tensors.items():
        if not isinstance(tensor, torch.Tensor):
            raise ValueError(f"Key `{name}` is invalid, expected torch.Tensor but received {type(tensor)}")
        if tensor.layout != torch.strided:
            sparse.append(name)
    if sparse:
        raise ValueError(
            f"You are trying to save a sparse tensors: `{sparse}` which this library does not support."
            " You can make it a dense tensor before saving with `.to_dense()` but be aware this might"
            " make a much larger file than needed."
        )
    _check_shared(tensors)
    for name, tensor in tensors.items():
        if not tensor.is_contiguous():
            raise ValueError(f"The tensor `{name}` is not contiguous: call `.contiguous()` on it before saving")


def _check_shared(tensors: dict[str, Any]) -> None:
    """Refuses tensors whose memory overlaps: they would be written twice, and be apart when they are read."""
    spans = []
    for name, tensor in tensors.items():
        if tensor.numel() and tensor.device.type != "meta":
            last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
            start = tensor.data_ptr()
            spans.append((str(tensor.device), start, start + (last + 1) * tensor.element_size(), name))
    spans.sort()
    for (device, _, end, name), (other_device, start, _, other) in zip(spans, spans[1:], strict=False):
        if device == other_device and start < end:
            raise RuntimeError(f"The tensors `{name}` and `{other}` share memory: save one, or a clone of one")
