"""A tensor of an open model, whose values are read when they are needed."""

from __future__ import annotations

import math
from importlib import import_module
from typing import Any, NamedTuple, Protocol, SupportsIndex

import numpy as np
import numpy.typing as npt

from . import _dtypes, _slices
from ._described import described
from ._dtypes import EXTENDED, NATIVE, PACKED, Array
from ._errors import unsupported
from ._modelfmt import Memory, Model as _Native, block, cast, cast_of, decode


def over(memory: Memory, dtype: npt.DTypeLike, shape: tuple[int, ...]) -> Array:
    """An array over memory, which keeps it alive."""
    try:
        view: Any = memory  # mypy knows of no buffer protocol for older Pythons
        return np.ndarray(shape, dtype, view)
    except (ValueError, OverflowError) as error:
        raise unsupported(f"numpy cannot have the shape {shape!r:.200}: {error}; .raw() has the bytes") from None


class Grid(NamedTuple):
    """How rows are made of blocks."""

    # The number of elements and bytes of a block.
    elements: int
    nbytes: int
    # The number of blocks in a row.
    in_row: int


def _as_bytes(values: Array) -> Array:
    """The bytes of a contiguous array."""
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8) if values.size else np.empty(0, np.uint8)


def _is_no_number(*names: str) -> bool:
    """Whether one of these types has no numbers that are rounded, and numpy's own rules count."""
    return any(name in ("bool", "c64") for name in names)


class _Source(Protocol):
    """The open model that a tensor is read from."""

    def native(self) -> _Native: ...

    @property
    def is_remote(self) -> bool: ...


class Tensor:
    """A tensor of a model. Nothing is read until you ask for its values, and a slice reads only its own ranges.

    numpy, torch, jax and mlx take it without a copy: by :meth:`numpy` and its siblings, by the array interface, or by DLPack.
    An array keeps its memory alive, also after the model was closed.
    """

    __slots__ = ("_memory", "_origin", "_position", "_source", "dtype", "name", "nbytes", "shape")

    #: The name.
    name: str
    #: The type as ``modelfmt inspect`` shows it, such as ``"f32"``.
    dtype: str
    #: The dimensions, slowest first.
    shape: tuple[int, ...]
    #: The size of the values in bytes.
    nbytes: int

    _source: _Source | None
    _position: int
    _memory: Memory | None
    # The tensor from whose values these are cast.
    _origin: Tensor | None

    def __init__(
        self,
        name: str,
        dtype: str,
        shape: tuple[int, ...],
        nbytes: int,
        source: _Source | None = None,
        position: int = 0,
        memory: Memory | None = None,
        origin: Tensor | None = None,
    ) -> None:
        self.name = name
        self.dtype = dtype
        self.shape = shape
        self.nbytes = nbytes
        self._source = source
        self._position = position
        self._memory = memory
        self._origin = origin

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    def __repr__(self) -> str:
        dims = ", ".join(map(str, self.shape))
        return f"Tensor({self.name!r}, {self.dtype}[{dims}])"

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a scalar has no length")
        return self.shape[0]

    def memory(self) -> Memory:
        """The bytes of the values, little-endian and row-major, read if they were not yet."""
        memory = self._memory
        if memory is None and self._origin is not None:
            origin = self._origin
            memory = self._memory = cast(self.name, origin.dtype, origin.shape, origin.memory(), self.dtype)
        elif memory is None:
            assert self._source is not None
            memory = self._memory = self._source.native().values(self._position)
        return memory

    def raw(self) -> Array:
        """The bytes of the values, as they are, in an array of ``uint8``."""
        return over(self.memory(), np.uint8, (self.nbytes,))

    def tobytes(self) -> bytes:
        """A copy of the bytes of the values."""
        return self.memory().tobytes()

    @described
    def numpy(self, dtype: npt.DTypeLike | str | None = None) -> Array:
        """The values as an array of numpy, over the tensor's own memory.

        Types that numpy lacks are those of ``ml_dtypes``. Elements that share bytes get bytes of their own. Without a ``dtype``, blocks come
        as their bytes, the last dimension counted in bytes.
        """
        if dtype is not None:
            return self._numpy_as(dtype)
        native = _dtypes.NUMPY.get(self.dtype)
        if native is not None:
            return over(self.memory(), native, self.shape)
        if self.dtype in EXTENDED:
            extended = EXTENDED[self.dtype]
            dtype = _dtypes.ml_dtype(extended.ml_dtype, self.dtype)
            return over(self.memory(), dtype, self.shape)
        if self.dtype in PACKED:
            return _dtypes.unpack(self.dtype, self.raw(), self.shape)
        return self.raw().reshape(self._block_shape())

    def _numpy_as(self, dtype: npt.DTypeLike | str) -> Array:
        _dtypes.refuse_ambiguous(dtype)
        if isinstance(dtype, str) and (dtype in NATIVE or dtype in EXTENDED):
            return self.to(dtype).numpy()
        try:
            wanted: np.dtype[Any] = np.dtype(dtype)
        except TypeError:
            # numpy knows bfloat16 by name only after ml_dtypes was imported.
            return self.to(dtype).numpy()
        name = _dtypes.of_numpy(wanted)
        if name is not None and name not in PACKED and not _is_no_number(self.dtype, name):
            return self.to(name).numpy().astype(wanted, copy=False)
        # Types that no file has, such as complex128.
        values = self if self.dtype in NATIVE else self.to("f32")
        return values.numpy().astype(wanted)

    @described
    def to(self, dtype: Any) -> Tensor:
        """The same tensor with another type, such as ``"f16"``. It is converted when its values are read, and a slice of it reads its own
        ranges.

        Each number is rounded once: to the nearest, and to the even of two that are equally near, if the type is a float; toward zero if
        it is an integer. A number beyond the range becomes infinite, or the end of the range. A NaN is an error if the type has none. Blocks
        are decoded first. These are the rules of ``cast=`` of :func:`convert`.
        """
        name, nbytes = cast_of(self.name, self.dtype, self.shape, _dtypes.name_of(dtype))
        return self if name == self.dtype else Tensor(self.name, name, self.shape, nbytes, origin=self)

    def dequantize(self) -> Array:
        """The values as ``float32``: blocks decoded, small types converted."""
        return over(decode(self.dtype, self.shape, self.memory()), "<f4", self.shape)

    def torch(self) -> Any:
        """The values as a tensor of torch, over the same memory."""
        torch: Any = import_module("torch")

        name = TORCH_NAMES.get(self.dtype)
        if self.dtype in PACKED:
            if PACKED[self.dtype].kind == "code":
                raise unsupported(f"torch has no type for {self.dtype}; .dequantize() gives float32")
            small = _dtypes.unpack_integers(self.dtype, self.raw(), self.shape)
            memory, shape, dtype = Memory.copy_of(small.reshape(-1).view(np.uint8)), self.shape, str(small.dtype)
        elif name is None:
            memory, shape, dtype = self.memory(), self._block_shape(), "uint8"
        else:
            memory, shape, dtype = self.memory(), self.shape, name
        torch_dtype = getattr(torch, dtype, None)
        if torch_dtype is None:
            raise unsupported(f"torch {torch.__version__} has no type {dtype}; .numpy() reads {self.dtype}")
        if memory.nbytes == 0:
            return torch.empty(shape, dtype=torch_dtype)
        return torch.frombuffer(memory, dtype=torch_dtype).reshape(shape)

    def jax(self) -> Any:
        """The values as an array of jax."""
        import jax.numpy

        return jax.numpy.asarray(self.numpy())

    def mlx(self) -> Any:
        """The values as an array of mlx."""
        import mlx.core

        if self.dtype == "bf16":
            bits = self.raw().view("<u2").reshape(self.shape)
            return mlx.core.array(bits).view(mlx.core.bfloat16)
        return mlx.core.array(self.numpy())

    def __getitem__(self, key: _slices.Key) -> Tensor:
        """A part of the tensor. If the values have not been read yet, only the ranges of this part are. Of a tensor of blocks, whole rows stay
        blocks; any other part is decoded, and is ``f32``.
        """
        if self._origin is not None and self._memory is None:
            return self._origin[key].to(self.dtype)
        size = _dtypes.SIZES.get(self.dtype)
        source = self._source
        if size is not None and type(key) is slice and self._memory is None and source is not None:
            rows = source.native().rows(self._position, key)
            if rows is not None:
                memory, shape, nbytes = rows
                return Tensor(self.name, self.dtype, shape, nbytes, None, 0, memory)
        run = None if size is None else _slices.one_run(key, self.shape)
        if size is not None and run is not None:
            first, last, shape = run
            return self._range(first * size, last * size, shape)
        resolved = _slices.resolve(key, self.shape)
        if self.dtype in PACKED:
            return self._part_of_packed(resolved)
        if size is None:
            return self._part_of_blocks(key, resolved)
        taken = _slices.plan(resolved, self.shape, size, self._gap())
        data = self._gather(taken.ranges)
        values = _slices.finish(data.view(f"V{size}").reshape(taken.read), taken)
        return self._part(_as_bytes(values), taken.shape)

    def _range(self, start: int, end: int, shape: tuple[int, ...]) -> Tensor:
        if self._memory is None and self._source is not None:
            memory = self._source.native().gather(self._position, [(start, end)])
        else:
            memory = Memory.copy_of(self.raw()[start:end])
        return Tensor(self.name, self.dtype, shape, memory.nbytes, memory=memory)

    def _gap(self) -> int:
        """How far ranges may be apart that are read as one."""
        is_far = self._source is not None and self._source.is_remote and self.nbytes <= _slices.FAR_NBYTES
        return _slices.FAR_GAP if is_far else _slices.GAP

    def _gather(self, ranges: list[tuple[int, int]]) -> Array:
        """The bytes of these ranges, one after the other."""
        if self._memory is None and self._source is not None:
            memory = self._source.native().gather(self._position, ranges)
            return over(memory, np.uint8, (memory.nbytes,))
        raw = self.raw()
        parts = [raw[start:end] for start, end in ranges]
        return np.concatenate(parts) if parts else raw[:0]

    def _part(self, data: Array, shape: tuple[int, ...]) -> Tensor:
        memory = Memory.copy_of(np.ascontiguousarray(data))
        return Tensor(self.name, self.dtype, shape, memory.nbytes, memory=memory)

    def _part_of_packed(self, resolved: _slices.Resolved) -> Tensor:
        """A part of a tensor whose elements share bytes."""
        bits = PACKED[self.dtype].bits
        taken = _slices.plan(resolved, self.shape, 1)
        codes = _dtypes.unpack_codes(self.raw(), bits, self.shape).reshape(-1)
        parts = [codes[start:end] for start, end in taken.ranges]
        data = np.concatenate(parts) if parts else codes[:0]
        values = _slices.finish(data.reshape(taken.read), taken)
        return self._part(_dtypes.pack_codes(values, bits), taken.shape)

    def _part_of_blocks(self, key: _slices.Key, resolved: _slices.Resolved) -> Tensor:
        """A part of a tensor of blocks: whole rows as they are, anything else decoded."""
        grid = self._grid()
        if grid is None:
            # Blocks continue from row to row.
            return Tensor(self.name, "f32", self.shape, 4 * self.size, memory=decode(self.dtype, self.shape, self.memory()))[key]
        last = len(self.shape) - 1
        row = resolved.places[last]
        is_whole = len(row) == self.shape[last] and bool((np.diff(row) == 1).all())
        if not is_whole or resolved.goes[last] or resolved.front == last:
            return self._decoded_part(resolved, grid)
        in_blocks = resolved._replace(places=[*resolved.places[:last], np.arange(grid.in_row)])
        taken = _slices.plan(in_blocks, (*self.shape[:last], grid.in_row), grid.nbytes, self._gap())
        data = self._gather(taken.ranges)
        values = _slices.finish(data.view(f"V{grid.nbytes}").reshape(taken.read), taken)
        return self._part(_as_bytes(values), (*taken.shape[:-1], self.shape[last]))

    def _decoded_part(self, resolved: _slices.Resolved, grid: Grid) -> Tensor:
        """A part that cuts blocks: reads and decodes the blocks that it cuts, and takes the elements from them."""
        *places, row = resolved.places
        which, inner = row // grid.elements, row % grid.elements
        blocks, at = np.unique(which, return_inverse=True)
        whole = _slices.Resolved([*places, blocks], [False] * len(self.shape), None)
        taken = _slices.plan(whole, (*self.shape[:-1], grid.in_row), grid.nbytes, self._gap())
        data = self._gather(taken.ranges)
        values = _slices.finish(data.view(f"V{grid.nbytes}").reshape(taken.read), taken)
        counted = (*taken.shape[:-1], len(blocks) * grid.elements)
        decoded = over(decode(self.dtype, counted, _as_bytes(values)), "<f4", counted)
        part = decoded.take(at.reshape(-1) * grid.elements + inner, axis=-1)
        if resolved.front is not None:
            part = np.moveaxis(part, resolved.front, 0)
        part = np.ascontiguousarray(part.reshape(resolved.shape))
        memory = Memory.copy_of(_as_bytes(part))
        return Tensor(self.name, "f32", resolved.shape, memory.nbytes, memory=memory)

    def _grid(self) -> Grid | None:
        """How the rows are made of blocks; ``None`` if blocks do not begin where rows do."""
        shared = block(self.dtype)
        if shared is None or not self.shape:
            return None
        elements, nbytes = shared
        in_row = -(-self.shape[-1] // elements)
        # Rows are padded to whole blocks, except in aprender's types.
        if self.shape[-1] % elements and self.dtype.startswith("apr_"):
            return None
        rows = math.prod(self.shape[:-1])
        return Grid(elements, nbytes, in_row) if rows * in_row * nbytes == self.nbytes else None

    def _block_shape(self) -> tuple[int, ...]:
        """The shape with bytes in place of the elements of the last dimension."""
        grid = self._grid()
        if grid is None or math.prod(self.shape[:-1]) == 0:
            return (self.nbytes,)
        return (*self.shape[:-1], grid.in_row * grid.nbytes)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        if self.dtype not in NATIVE:
            # numpy then calls __array__.
            raise AttributeError(f"numpy has no type of its own for {self.dtype}")
        interface: dict[str, Any] = self.numpy().__array_interface__
        return interface

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        values = self.numpy()
        if dtype is not None and values.dtype != dtype:
            if copy is False:
                raise ValueError(f"{self.dtype} cannot be {dtype} without a copy")
            return values.astype(dtype)
        return values.copy() if copy else values

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[SupportsIndex, SupportsIndex] | None = None,
        dl_device: tuple[SupportsIndex, SupportsIndex] | None = None,
        copy: bool | None = None,
    ) -> object:
        if dl_device is not None and tuple(map(int, dl_device)) != (1, 0):
            raise BufferError("the values are in the memory of the processor")
        if self.dtype in NATIVE:
            code, bits = NATIVE[self.dtype].code, NATIVE[self.dtype].bits
        elif self.dtype in EXTENDED:
            code, bits = EXTENDED[self.dtype].code, 8 * EXTENDED[self.dtype].size
        else:
            raise BufferError(f"DLPack has no type for {self.dtype}")
        memory = Memory.copy_of(self.memory()) if copy else self.memory()
        version = int(max_version[0]) if max_version is not None else 0
        return memory.dlpack(code, bits, self.shape, version)


TORCH_NAMES = {
    "bool": "bool",
    "i8": "int8",
    "u8": "uint8",
    "i16": "int16",
    "u16": "uint16",
    "i32": "int32",
    "u32": "uint32",
    "i64": "int64",
    "u64": "uint64",
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
    "c64": "complex64",
    **{name: extended.torch for name, extended in EXTENDED.items()},
}
