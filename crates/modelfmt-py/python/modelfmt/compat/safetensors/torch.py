"""``safetensors.torch``, over every format and URL."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from typing import Any

from ..._errors import ModelfmtError
from ..._model import Model
from . import SafetensorError, _save, _shared, safe_open
from ._shared import storage_ptr, storage_size

__all__ = ["load", "load_file", "load_model", "save", "save_file", "save_model", "storage_ptr", "storage_size"]


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


def save_model(
    model: Any,
    filename: str | os.PathLike[str],
    metadata: Mapping[str, str] | None = None,
    force_contiguous: bool = True,
) -> None:
    """Writes the tensors of a module (``torch.nn.Module``) to a safetensors file. If several tensors share memory,
    one of them is written, and the metadata says for each of the others which one.
    """
    tensors = dict(model.state_dict())
    notes = dict(metadata or {})
    for kept, others in _shared.duplicates(tensors).items():
        for name in others:
            notes.setdefault(name, kept)
            del tensors[name]
    if force_contiguous:
        tensors = {name: tensor.contiguous() for name, tensor in tensors.items()}
    try:
        save_file(tensors, filename, notes or None)
    except ValueError as error:
        raise ValueError(f"{error}, or use save_model(..., force_contiguous=True)") from error


def load_model(
    model: Any,
    filename: str | os.PathLike[str],
    strict: bool = True,
    device: Any = "cpu",
    *,
    backend: str = "mmap",
) -> tuple[set[str], list[str]]:
    """Loads a file of any format into a module. Returns the names that the file lacks and those that the module lacks; with
    ``strict`` either is an error.
    """
    tensors = load_file(filename, device, backend=backend)
    left_out = _shared.duplicates(model.state_dict(), preferred=tensors)
    found = model.load_state_dict(tensors, strict=False)
    missing, unexpected = set(found.missing_keys), list(found.unexpected_keys)
    for name in (name for others in left_out.values() for name in others):
        # It shares the memory of the tensor that is kept, so it may be missing. If both were there, one value
        # would be lost.
        if name in missing:
            missing.remove(name)
        else:
            unexpected.append(name)
    if strict and (missing or unexpected):
        lines = [f"Error(s) in loading state_dict for {type(model).__name__}:"]
        for what, names in (("Missing", sorted(missing)), ("Unexpected", sorted(unexpected))):
            if names:
                lines.append(f"    {what} key(s) in state_dict: " + ", ".join(f'"{name}"' for name in names))
        raise RuntimeError("\n".join(lines))
    return missing, unexpected


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
        if tensor.device.type == "meta":
            raise RuntimeError(f"Cannot copy out of meta tensor `{name}`, which has no values")
    if sparse:
        raise ValueError(
            f"You are trying to save a sparse tensors: `{sparse}` which this library does not support."
            " You can make it a dense tensor before saving with `.to_dense()` but be aware this might"
            " make a much larger file than needed."
        )
    shared = [group for group in _shared.find_shared(tensors) if len(group) > 1]
    if shared:
        # They would be written twice, and would no longer share memory when they are read.
        names = "; ".join(", ".join(f"`{name}`" for name in sorted(group)) for group in shared)
        raise RuntimeError(f"The tensors {names} share memory: save one or a clone of one, or the module by `save_model`")
    for name, tensor in tensors.items():
        if not tensor.is_contiguous():
            raise ValueError(f"The tensor `{name}` is not contiguous: call `.contiguous()` on it before saving")
