"""Tensors of torch over the same memory: a file has each once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

# Device, address and length of a storage.
_Storage = tuple[Any, int, int]


def storage_ptr(tensor: Any) -> int:
    """Where the memory begins that a tensor is a part of; 0 if it has none."""
    return 0 if tensor.device.type == "meta" else int(_storage(tensor).data_ptr())


def storage_size(tensor: Any) -> int:
    """The length of that memory in bytes."""
    if tensor.device.type == "meta":
        return int(tensor.numel() * tensor.element_size())
    return int(_storage(tensor).nbytes())


def _storage(tensor: Any) -> Any:
    """The memory; torch 1.13 knows the untyped kind by no public name."""
    return tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()


def end_ptr(tensor: Any) -> int:
    """Where the last element of a tensor ends."""
    start = int(tensor.data_ptr())
    if tensor.numel() == 0:
        return start
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return start + (int(last) + 1) * int(tensor.element_size())


def is_complete(tensor: Any) -> bool:
    """Whether a tensor is all of its memory."""
    nbytes = tensor.numel() * tensor.element_size()
    start = 0 if tensor.device.type == "meta" else int(tensor.data_ptr())
    return start == storage_ptr(tensor) and nbytes == storage_size(tensor)


def find_shared(tensors: Mapping[str, Any]) -> list[set[str]]:
    """The names of the tensors that have memory, in groups of those that overlap."""
    storages: dict[_Storage, list[str]] = {}
    for name, tensor in tensors.items():
        if storage_ptr(tensor) != 0 and storage_size(tensor) != 0:
            storages.setdefault((tensor.device, storage_ptr(tensor), storage_size(tensor)), []).append(name)
    return [group for names in storages.values() for group in _overlapping(tensors, names)]


def _overlapping(tensors: Mapping[str, Any], names: list[str]) -> list[set[str]]:
    """Tensors of one storage, in groups of those that overlap."""
    groups: list[set[str]] = []
    end = 0
    for start, stop, name in sorted((int(tensors[name].data_ptr()), end_ptr(tensors[name]), name) for name in names):
        if groups and start < end:
            groups[-1].add(name)
        else:
            groups.append({name})
        end = max(end, stop)
    return groups


def duplicates(tensors: Mapping[str, Any], preferred: Iterable[str] = ()) -> dict[str, list[str]]:
    """The names that need not be in a file, by the name of the tensor that is. Of several it is the first, in the order of the
    alphabet, that is all of its memory; one that is preferred goes before.
    """
    liked = set(preferred)
    left_out: dict[str, list[str]] = {}
    for group in find_shared(tensors):
        complete = {name for name in group if is_complete(tensors[name])}
        if not complete:
            names = ", ".join(sorted(group))
            raise RuntimeError(
                f"No tensor of {names} is all of its memory, so a file would hold less than the model, or more: save clones of them"
            )
        kept = min(complete & liked or complete)
        others = sorted(group - {kept})
        if others:
            left_out.setdefault(kept, []).extend(others)
    return left_out
