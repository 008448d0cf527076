"""All tensors of a model at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Unpack

import numpy as np

from . import _dtypes
from ._errors import usage
from ._model import Model, opened
from ._opening import Content, Opening, Path
from ._progress import Progress, callback
from ._tensor import Tensor

Framework = Literal["numpy", "torch", "jax", "mlx", "tensor"]


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
    is damaged. Formats without them (OINF, MAG, safetensors, GGUF) have nothing to check. ``progress`` is called with the number
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
    # From the end, so that what is converted needs no more memory than one tensor beside the rest.
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
            np.copyto(target, _numbers(tensor), casting="same_kind")
        else:
            target.copy_(tensor.torch())
        done += nbytes
        if told is not None:
            told(done, total)


def _numbers(tensor: Tensor) -> _dtypes.Array:
    is_plain = tensor.dtype in _dtypes.NATIVE or tensor.dtype in _dtypes.EXTENDED or tensor.dtype in _dtypes.PACKED
    return tensor.numpy() if is_plain else tensor.dequantize()


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
        return lambda tensor: _as_torch(tensor, device, dtype)
    if framework == "jax":
        return lambda tensor: tensor.jax() if dtype is None else tensor.jax().astype(dtype)
    if framework == "mlx":
        return lambda tensor: tensor.mlx() if dtype is None else tensor.mlx().astype(dtype)
    raise _unknown(framework)


def _unknown(framework: object) -> Exception:
    """Other programs have other names."""
    meant = {"np": "numpy", "pt": "torch", "pytorch": "torch", "flax": "jax"}.get(str(framework))
    hint = f"; it is {meant!r} here" if meant else ""
    return usage(f"framework={framework!r} is none of numpy, torch, jax, mlx and tensor{hint}")


def _as_numpy(tensor: Tensor, dtype: Any) -> _dtypes.Array:
    if dtype is None:
        return tensor.numpy()
    values = _numbers(tensor)
    wanted = _numpy_dtype(dtype)
    is_float = tensor.dtype not in _dtypes.NATIVE or values.dtype.kind in "fc"
    return values.astype(wanted, copy=False) if is_float else values


def _numpy_dtype(dtype: Any) -> np.dtype[Any]:
    """A type by numpy's name or by ours."""
    if isinstance(dtype, str) and dtype in _dtypes.NATIVE:
        return np.dtype(_dtypes.NATIVE[dtype].typestr)
    if isinstance(dtype, str) and dtype in _dtypes.EXTENDED:
        return _dtypes.ml_dtype(_dtypes.EXTENDED[dtype].ml_dtype, dtype)
    try:
        wanted: np.dtype[Any] = np.dtype(dtype)
    except TypeError as error:
        raise usage(f"dtype={dtype!r} is no type of modelfmt's or numpy's, such as 'f16'") from error
    return wanted


def _as_torch(tensor: Tensor, device: Any, dtype: Any) -> Any:
    import torch

    if dtype is not None and tensor.dtype not in _dtypes.NATIVE and tensor.dtype not in _dtypes.EXTENDED:
        values: Any = torch.from_numpy(tensor.dequantize())
    else:
        values = tensor.torch()
    if isinstance(dtype, str):
        from ._tensor import TORCH_NAMES

        known = getattr(torch, TORCH_NAMES.get(dtype, dtype), None)
        if not isinstance(known, torch.dtype):
            raise usage(f"dtype={dtype!r} is no type of modelfmt's or torch's, such as 'f16'")
        dtype = known
    if dtype is not None and values.is_floating_point():
        values = values.to(dtype)
    return values if device is None or str(device) == "cpu" else values.to(device)
