"""Models of any format for torch: modules are loaded and saved, weights are iterated over.

>>> import modelfmt.torch
>>> modelfmt.torch.load_model(module, "model.gguf")
>>> for name, tensor in modelfmt.torch.iter_weights("model/"):
...     ...
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Unpack

from . import _dtypes
from ._files import save
from ._keywords import checked, names_of
from ._load import load, torch_tensor
from ._model import Model, opened
from ._opening import Content, Opening, Path
from ._outputs import Output
from ._tensor import Tensor
from .compat.safetensors import _shared

__all__ = ["iter_weights", "load_file", "load_model", "save_file", "save_model"]


def _torch() -> Any:
    # Not this module, which has the same name.
    return importlib.import_module("torch")


@checked(*Opening.__annotations__)
def iter_weights(
    path: Path | Content | Model,
    device: Any = "cpu",
    dtype: Any = None,
    *,
    include: str | Sequence[str] = (),
    exclude: str | Sequence[str] = (),
    verify: bool = True,
    threads: int | None = None,
    **opening: Unpack[Opening],
) -> Iterator[tuple[str, Any]]:
    """Names and tensors of a model, one at a time, as loaders such as vLLM's take them: ``model.load_weights(iter_weights(path))``.

    A folder of shards is one model. Only the tensor that you hold is in memory.
    """
    model = opened(path, opening, verify=verify)
    native = model.native()
    wanted = range(len(native.names())) if not include else native.matching(_list(include))
    without = set(native.matching(_list(exclude))) if exclude else set()
    return _weights(model, [one for one in wanted if one not in without], device, dtype, verify, threads)


def _weights(
    model: Model, wanted: list[int], device: Any, dtype: Any, verify: bool, threads: int | None
) -> Iterator[tuple[str, Any]]:
    for position in wanted:
        tensor = _read(model, position, verify, threads)
        if tensor is not None:
            yield tensor.name, torch_tensor(tensor, device, dtype)


def _read(model: Model, position: int, verify: bool, threads: int | None) -> Tensor | None:
    """A tensor with its values, checked; ``None`` if it is only declared."""
    native = model.native()
    name, dtype, shape, nbytes, has_data = native.info(position)
    if not has_data:
        return None
    memories, _ = native.load([position], verify, threads, None)
    return Tensor(name, dtype, tuple(shape), nbytes, memory=memories.pop())


def _list(patterns: str | Sequence[str]) -> list[str]:
    return [patterns] if isinstance(patterns, str) else list(patterns)


@checked(*(name for name in names_of(load) if name not in ("framework", "into")))
def load_file(path: Path | Content | Model, device: Any = "cpu", dtype: Any = None, **options: Any) -> dict[str, Any]:
    """All tensors of a model, as tensors of torch: :func:`modelfmt.load` with ``framework="torch"``."""
    return load(path, device, dtype, framework="torch", **options)


@checked(*names_of(save))
def save_file(
    tensors: Mapping[str, Any], path: Output, format: str | None = None, metadata: Mapping[str, Any] | None = None, **options: Any
) -> None:
    """Writes tensors of torch: :func:`modelfmt.save`, in any format."""
    save(tensors, path, format, metadata, **options)


@checked(*(name for name in names_of(save) if name != "tensors"))
def save_model(
    module: Any, path: Output, format: str | None = None, metadata: Mapping[str, Any] | None = None, **options: Any
) -> None:
    """Writes the tensors of a ``torch.nn.Module``. Of several over the same memory one is written, whose name :func:`load_model`
    finds again.
    """
    tensors = dict(module.state_dict())
    for others in _shared.duplicates(tensors).values():
        for name in others:
            del tensors[name]
    save(tensors, path, format, metadata, **options)


@checked(*Opening.__annotations__)
def load_model(
    module: Any,
    path: Path | Content | Model,
    strict: bool = True,
    device: Any = None,
    *,
    assign: bool = False,
    verify: bool = True,
    threads: int | None = None,
    **opening: Unpack[Opening],
) -> tuple[list[str], list[str]]:
    """Loads a model of any format into a ``torch.nn.Module``. Returns the names that the file lacks and those that the module lacks.

    Tensors are read one at a time into the module's own, and become their types. Those on torch's device ``meta`` have no memory yet: what
    is read becomes theirs, on ``device``, without a copy. With ``assign`` it becomes that of every tensor, with the type that it has in the file.
    So memory never holds the model twice. Only a module that changes its state while it loads, as batch norms and some hooks do, is loaded by
    its own ``load_state_dict``.

    With ``strict``, names that are missing or not expected are a ``RuntimeError`` with torch's words, and so is a wrong shape in any case.
    Nothing has been changed then.
    """
    model = opened(path, opening, verify=verify)
    native = model.native()
    # A tensor that is only declared has no values to load, so its name counts as missing.
    names = {name: place for place, name in enumerate(native.names()) if native.info(place)[4]}
    tensor_type = _torch().Tensor
    own = {name: one for name, one in module.state_dict(keep_vars=True).items() if isinstance(one, tensor_type)}
    apart = _apart(own, names, assign)
    if _has_own_way(module):
        return _by_itself(module, _tensors(model, own, verify, threads), apart, strict)
    missing = [name for name in own if name not in names and name not in apart]
    unexpected = [name for name in names if name not in own]
    wrong = [_wrong_shape(model, names[name], tensor) for name, tensor in own.items() if name in names]
    _refuse(module, missing if strict else [], unexpected if strict else [], [text for text in wrong if text is not None])
    owners = _owners(module)
    with _torch().no_grad():
        for name, old in own.items():
            tensor = _read(model, names[name], verify, threads) if name in names else None
            if tensor is None:
                continue
            if assign or old.device.type == "meta":
                is_kept = assign and tensor.dtype in _dtypes.SIZES
                _put(owners[id(old)], old, torch_tensor(tensor, _chosen(device, old), None if is_kept else old.dtype))
            else:
                old.copy_(torch_tensor(tensor, None, old.dtype))
    return missing, unexpected


def _chosen(device: Any, own: Any) -> Any:
    """Where a new tensor goes: where the caller says, or where the one was that it replaces."""
    return device if device is not None or own.device.type == "meta" else own.device


def _has_own_way(module: Any) -> bool:
    """Whether a module of the tree changes what is loaded: with hooks, extra state, or a loader of its own."""
    base = _torch().nn.Module
    methods = ("_load_from_state_dict", "_save_to_state_dict", "load_state_dict", "set_extra_state", "state_dict")
    hooks = ("_load_state_dict_pre_hooks", "_load_state_dict_post_hooks", "_state_dict_hooks")
    return any(
        any(getattr(type(one), name) is not getattr(base, name) for name in methods) or any(getattr(one, name, None) for name in hooks)
        for one in module.modules()
    )


def _tensors(model: Model, own: Mapping[str, Any], verify: bool, threads: int | None) -> dict[str, Any]:
    """All tensors of a file. Blocks become the types of the module's."""
    tensors = {}
    for position in range(len(model)):
        tensor = _read(model, position, verify, threads)
        if tensor is not None:
            is_kept = tensor.name not in own or tensor.dtype in _dtypes.SIZES
            tensors[tensor.name] = torch_tensor(tensor, None, None if is_kept else own[tensor.name].dtype)
    return tensors


def _by_itself(
    module: Any, tensors: dict[str, Any], apart: set[str], strict: bool
) -> tuple[list[str], list[str]]:
    found = module.load_state_dict(tensors, strict=False)
    missing = [name for name in found.missing_keys if name not in apart]
    unexpected = list(found.unexpected_keys)
    if strict:
        _refuse(module, missing, unexpected, [])
    return missing, unexpected


def _refuse(module: Any, missing: list[str], unexpected: list[str], wrong: list[str]) -> None:
    """Raises torch's error, if anything is wrong."""
    errors = []
    for what, names in (("Missing", missing), ("Unexpected", unexpected)):
        if names:
            errors.append(f"{what} key(s) in state_dict: " + ", ".join(f'"{name}"' for name in names) + ". ")
    errors += wrong
    if errors:
        lines = "\n\t".join(errors)
        raise RuntimeError(f"Error(s) in loading state_dict for {type(module).__name__}:\n\t{lines}")


def _wrong_shape(model: Model, position: int, own: Any) -> str | None:
    """What torch says of a tensor whose shape is another."""
    name, _, shape, _, _ = model.native().info(position)
    if tuple(shape) == tuple(own.shape):
        return None
    return (
        f"size mismatch for {name}: copying a param with shape {_torch().Size(shape)} from checkpoint, "
        f"the shape in current model is {own.shape}."
    )


def _apart(own: Mapping[str, Any], names: Mapping[str, int], assign: bool) -> set[str]:
    """The names that a file need not have, because it has another name of the same tensor, or all of its memory."""
    there = {id(tensor) for name, tensor in own.items() if name in names}
    apart = {name for name, tensor in own.items() if id(tensor) in there}
    if not assign:
        for group in _shared.find_shared(own):
            if any(name in names and _shared.is_complete(own[name]) for name in group):
                apart |= group
    return apart


def _owners(module: Any) -> dict[int, list[tuple[Any, str]]]:
    """For each tensor, the modules that have it and its names there: a tied one has several."""
    owners: dict[int, list[tuple[Any, str]]] = {}
    for one in module.modules():
        for name, tensor in (*one._parameters.items(), *one._buffers.items()):
            if tensor is not None:
                owners.setdefault(id(tensor), []).append((one, name))
    return owners


def _put(owners: list[tuple[Any, str]], old: Any, value: Any) -> None:
    """Puts a tensor where another one is."""
    parameter = _torch().nn.Parameter
    if isinstance(old, parameter):
        value = parameter(value, requires_grad=old.requires_grad and value.is_floating_point())
    for module, name in owners:
        # Not into its dict, because some modules also keep lists of their parameters.
        setattr(module, name, value)
