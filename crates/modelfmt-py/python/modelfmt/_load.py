"""All tensors of a model at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Literal, Unpack

import numpy as np

from . import _dtypes
from ._errors import usage
from ._keywords import checked
from ._model import Model, opened
from ._opening import Content, Opening, Path
from ._progress import Progress, callback
from ._tensor import TORCH_NAMES, Tensor

Framework = Literal["numpy"] | Literal["torch"] | Literal["jax"] | Literal["mlx"] | Literal["tensor"]


@checked(*Opening.__annotations__)
def load(
    path: Path | Content | Model,
    device: Any = "cpu",
    dtype: Any = None,
    *,
    framework: Framework | None = None,
    include: str | Sequence[str] | None = None,
    into: Mapping[str, Any] | None = None,
    verify: bool = True,
    threads: int | None = None,
    progress: Progress = None,
    **opening: Unpack[Opening],
) -> dict[str, Any]:
    """All tensors, or those whose names match ``include``, read on all cores into memory that starts at multiples of 64 bytes.

    They are arrays of numpy, or of the ``framework`` that you name; a ``device`` other than ``"cpu"`` is torch's. With ``dtype``,
    floats and blocks become that type. With ``into``, a mapping of names to arrays or tensors of the right shape, values are
    copied into those, one tensor at a time, and only the names in the mapping are read.

    Values are checked against the hashes and checksums of the file, unless ``verify`` is false; a :class:`VerifyError` says what
    is damaged. Formats without them (OINF, MAG, safetensors, GGUF, npy) have nothing to check. ``progress`` is called with the number
    of bytes done and the total; ``True`` shows a tqdm bar. The other keywords are those of :func:`open`.
    """
    model = opened(path, opening, verify=verify)
    native = model.native()
    names = native.names()
    if into is not None:
        wanted = [native.find(name) for name in into]
    elif include is None:
        wanted = [position for position in range(len(names)) if native.info(position)[4]]
    else:
        patterns = [include] if isinstance(include, str) else list(include)
        wanted = native.matching(patterns)
        if not wanted:
            raise usage(f"no tensor has a name like {', '.join(patterns)}")
    told = callback(progress, "loading")
    if into is not None:
        _fill(model, wanted, into, verify, threads, told)
        return dict(into)
    finish = _finisher(framework, device, dtype)
    memories, _ = native.load(wanted, verify, threads, told)
    loaded = {}
    # From the end, so that converting a tensor needs no more memory than that tensor in addition to the rest.
    for position in reversed(wanted):
        name, dtype_name, shape, nbytes, _ = native.info(position)
        tensor = Tensor(name, dtype_name, tuple(shape), nbytes, memory=memories.pop())
        loaded[name] = finish(tensor)
        del tensor
    return dict(reversed(loaded.items()))


def _fill(
    model: Model, wanted: list[int], into: Mapping[str, Any], verify: bool, threads: int | None, told: Any
) -> None:
    """Copies tensor by tensor into the caller's arrays."""
    native = model.native()
    total = sum(native.info(position)[3] for position in wanted)
    done = 0
    for position in wanted:
        name, dtype_name, shape, nbytes, _ = native.info(position)
        target = into[name]
        if tuple(target.shape) != tuple(shape):
            raise usage(f"tensor {name!r} has the shape {tuple(shape)}, what it is to be copied into {tuple(target.shape)}")
        memories, _ = native.load([position], verify, threads, None)
        tensor = Tensor(name, dtype_name, tuple(shape), nbytes, memory=memories.pop())
        if isinstance(target, np.ndarray):
            np.copyto(target, _numbers(tensor, target.dtype), casting="same_kind")
        else:
            target.copy_(tensor.torch())
        done += nbytes
        if told is not None:
            told(done, total)


def _numbers(tensor: Tensor, wanted: np.dtype[Any]) -> _dtypes.Array:
    """The values, in the wanted type if that is theirs, else in one of numpy's own, so that nobody needs ml_dtypes for float32."""
    extended = _dtypes.EXTENDED.get(tensor.dtype)
    is_same = extended is not None and extended.ml_dtype == wanted.name
    return tensor.numpy() if is_same else _plain(tensor)


def _plain(tensor: Tensor) -> _dtypes.Array:
    """The values in a type that numpy itself has: floats that it lacks and blocks as ``float32``, which holds each of them."""
    if tensor.dtype in _dtypes.NATIVE:
        return tensor.numpy()
    if tensor.dtype in _dtypes.PACKED and _dtypes.PACKED[tensor.dtype].kind != "code":
        return _dtypes.unpack_integers(tensor.dtype, tensor.raw(), tensor.shape)
    return tensor.dequantize()


def _finisher(framework: Framework | None, device: Any, dtype: Any) -> Any:
    """The function that makes the result of a tensor."""
    if framework is None:
        framework = "numpy" if device is None or str(device) == "cpu" else "torch"
    if framework != "torch" and device is not None and str(device) != "cpu":
        raise usage(f"a device is torch's: framework={framework!r} has device={device!r}")
    if framework == "tensor":
        if dtype is not None:
            raise usage("framework='tensor' gives tensors as they are stored, without dtype=")
        return lambda tensor: tensor
    if framework == "numpy":
        return lambda tensor: _as_numpy(tensor, dtype)
    if framework == "torch":
        return lambda tensor: torch_tensor(tensor, device, dtype)
    if framework == "jax":
        return lambda tensor: _as_jax(tensor, dtype)
    if framework == "mlx":
        return lambda tensor: _as_mlx(tensor, dtype)
    raise _unknown(framework)


def _unknown(framework: object) -> Exception:
    """Other programs have other names."""
    meant = {"np": "numpy", "pt": "torch", "pytorch": "torch", "flax": "jax"}.get(str(framework))
    hint = f"; it is {meant!r} here" if meant else ""
    return usage(f"framework={framework!r} is none of numpy, torch, jax, mlx and tensor{hint}")


def _as_numpy(tensor: Tensor, dtype: Any) -> _dtypes.Array:
    if dtype is None:
        return tensor.numpy()
    wanted = _numpy_dtype(dtype)
    values = _numbers(tensor, wanted)
    is_float = tensor.dtype not in _dtypes.NATIVE or values.dtype.kind in "fc"
    return values.astype(wanted, copy=False) if is_float else values


def _numpy_dtype(dtype: Any) -> np.dtype[Any]:
    """A type by numpy's name or by ours."""
    _dtypes.refuse_ambiguous(dtype)
    if isinstance(dtype, str) and dtype in _dtypes.NATIVE:
        return np.dtype(_dtypes.NATIVE[dtype].typestr)
    if isinstance(dtype, str) and dtype in _dtypes.EXTENDED:
        return _dtypes.ml_dtype(_dtypes.EXTENDED[dtype].ml_dtype, dtype)
    try:
        wanted: np.dtype[Any] = np.dtype(dtype)
    except TypeError as error:
        raise usage(f"dtype={dtype!r} is no type of modelfmt's or numpy's, such as 'f16'") from error
    return wanted


def _as_jax(tensor: Tensor, dtype: Any) -> Any:
    if dtype is None:
        return tensor.jax()
    import jax.numpy

    return jax.numpy.asarray(_as_numpy(tensor, dtype))


def _as_mlx(tensor: Tensor, dtype: Any) -> Any:
    if dtype is None:
        return tensor.mlx()
    import mlx.core

    if isinstance(dtype, str):
        known = getattr(mlx.core, TORCH_NAMES.get(dtype, dtype), None)
        if known is None:
            raise usage(f"dtype={dtype!r} is no type of modelfmt's or mlx's, such as 'f16'")
        dtype = known
    values = mlx.core.array(_plain(tensor))
    is_float = tensor.dtype not in _dtypes.NATIVE or mlx.core.issubdtype(values.dtype, mlx.core.inexact)
    return values.astype(dtype) if is_float else values


def torch_tensor(tensor: Tensor, device: Any, dtype: Any) -> Any:
    """A tensor of torch: floats and blocks become ``dtype``, if there is one."""
    torch: Any = import_module("torch")

    if dtype is not None and tensor.dtype not in _dtypes.NATIVE and tensor.dtype not in _dtypes.EXTENDED:
        values: Any = torch.from_numpy(tensor.dequantize())
    else:
        values = tensor.torch()
    if isinstance(dtype, str):
        known = getattr(torch, TORCH_NAMES.get(dtype, dtype), None)
        if not isinstance(known, torch.dtype):
            raise usage(f"dtype={dtype!r} is no type of modelfmt's or torch's, such as 'f16'")
        dtype = known
    if dtype is not None and values.is_floating_point():
        values = values.to(dtype)
    return values if device is None or str(device) == "cpu" else values.to(device)
