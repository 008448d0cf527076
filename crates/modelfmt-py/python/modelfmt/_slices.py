"""Which bytes of a tensor a slice reads, and how its result is made of them."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from types import EllipsisType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ._errors import UsageError, usage

Index = int | slice | EllipsisType | Sequence[int] | npt.NDArray[np.integer[Any]] | npt.NDArray[np.bool_]
Key = Index | tuple[Index, ...]
Positions = npt.NDArray[np.int64]

#: A gap of up to this many bytes between two ranges is read with them, because another read would cost more.
GAP = 4096
#: The same for a file at a URL, where each range is a request, and for tensors of up to ``FAR_NBYTES``, which
#: are read whole at worst.
FAR_GAP = 1 << 18
FAR_NBYTES = 64 << 20


class Slice(NamedTuple):
    """What a slice reads, and how its result is made of that."""

    # First byte and last byte + 1 of each range, in elements of ``unit`` bytes.
    ranges: list[tuple[int, int]]
    # The shape of the ranges' content, one range after the other.
    read: tuple[int, ...]
    # For each dimension, the positions that are taken; None for all.
    take: list[Positions | None]
    # The dimension that comes first in the result.
    front: int | None
    # The shape of the result, without the dimensions that were indexed by a number.
    shape: tuple[int, ...]


class Resolved(NamedTuple):
    """What a key takes of a tensor."""

    # For each dimension, the positions that are taken, in their order.
    places: list[Positions]
    # For each dimension, whether it was indexed by a number and so is not in the result.
    goes: list[bool]
    # The dimension indexed by a list that comes first in the result.
    front: int | None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the result."""
        lens = [len(places) for places, gone in zip(self.places, self.goes, strict=True) if not gone]
        if self.front is not None:
            lens.insert(0, lens.pop(self.front - sum(self.goes[: self.front])))
        return tuple(lens)


def one_run(key: Key, shape: tuple[int, ...]) -> tuple[int, int, tuple[int, ...]] | None:
    """The first element, the last element + 1 and the shape of a slice whose elements are neighbours in memory.

    Most slices are such, and need no lists of places. ``None`` for all others, also for wrong ones.
    """
    keys = key if isinstance(key, tuple) else (key,)
    if len(keys) > len(shape):
        return None
    first, last = 0, 1
    result: list[int] = []
    for axis, size in enumerate(shape):
        one = keys[axis] if axis < len(keys) else slice(None)
        # A bool does not count as a number here.
        if type(one) is int and -size <= one < size:
            low = one % size
            high = low + 1
        elif type(one) is slice:
            low, high, step = one.indices(size)
            if step != 1 or high <= low:
                return None
            result.append(high - low)
        else:
            return None
        if last - first > 1 and high - low < size:
            return None
        first, last = first * size + low, (last - 1) * size + high
    return first, last, tuple(result)


def resolve(key: Key, shape: tuple[int, ...]) -> Resolved:
    """The places of each dimension that are taken, and which dimensions the result has."""
    given = _keys(key)
    keys = _expand(given, len(shape))
    lists = [axis for axis, one in enumerate(keys) if isinstance(one, (list, np.ndarray))]
    if len(lists) > 1:
        raise usage("a slice takes one list of indices, the other dimensions take numbers and slices")
    places: list[Positions] = []
    goes: list[bool] = []
    for axis, (one, size) in enumerate(zip(keys, shape, strict=True)):
        if isinstance(one, slice):
            places.append(np.arange(*one.indices(size), dtype=np.int64))
            goes.append(False)
        elif isinstance(one, (list, np.ndarray)):
            places.append(_listed(one, size, axis))
            goes.append(False)
        else:
            places.append(_listed([operator.index(one)], size, axis))
            goes.append(True)
    front = lists[0] if lists and _is_divided(given) else None
    return Resolved(places, goes, front)


def _is_divided(keys: list[Any]) -> bool:
    """Whether a slice or ``...`` stands between lists and numbers. Then numpy puts the dimension of the list first, because there is no
    one place for it; else it stays where it is.
    """
    apart = [place for place, one in enumerate(keys) if not isinstance(one, slice) and one is not Ellipsis]
    return apart[-1] - apart[0] >= len(apart)


def _keys(key: Key) -> list[Any]:
    """The indices of a key, if each of them is one that a slice takes."""
    keys: list[Any] = list(key) if isinstance(key, tuple) else [key]
    for place, one in enumerate(keys):
        is_array = isinstance(one, np.ndarray) and one.ndim == 1
        if isinstance(one, (tuple, range)):
            keys[place] = list(one)
        elif isinstance(one, bool) or not (
            is_array or isinstance(one, (int, np.integer, slice, list)) or one is Ellipsis
        ):
            raise usage(f"a slice takes numbers, slices, `...` and a list of numbers, not {one!r}")
    return keys


def _expand(given: list[Any], rank: int) -> list[Any]:
    """One index for each dimension."""
    keys = list(given)
    dots = [place for place, one in enumerate(keys) if one is Ellipsis]
    if len(dots) > 1:
        raise usage("a slice has one `...` at most")
    missing = rank - (len(keys) - len(dots))
    if missing < 0:
        raise _index_error(f"{rank} dimensions and {len(keys) - len(dots)} indices")
    at = dots[0] if dots else len(keys)
    keys[at : at + len(dots)] = [slice(None)] * missing
    return keys


def _listed(one: Any, size: int, axis: int) -> Positions:
    places = np.asarray(one)
    if places.size == 0:
        return np.empty(0, dtype=np.int64)
    if places.dtype == np.bool_:
        if places.shape != (size,):
            raise _index_error(f"dimension {axis} has {size} places, the mask {places.size}")
        return np.flatnonzero(places).astype(np.int64)
    if places.ndim != 1 or places.dtype.kind not in "iu":
        raise usage("a list of indices holds integers, or a boolean for each place")
    places = places.astype(np.int64)
    wrong = (places < -size) | (places >= size)
    if wrong.any():
        raise _index_error(f"index {int(places[wrong][0])} is outside dimension {axis} of {size} places")
    return np.where(places < 0, places + size, places)


class SliceError(UsageError, IndexError):
    """A slice is outside its tensor."""


def _index_error(text: str) -> SliceError:
    error = SliceError(text)
    error.code = "out-of-range"
    return error


def plan(taken: Resolved, shape: tuple[int, ...], unit: int, gap: int = GAP) -> Slice:
    """The ranges that have these places of elements of ``unit`` bytes, with gaps of up to ``gap`` bytes."""
    places = taken.places
    if any(len(one) == 0 for one in places):
        counts = tuple(len(one) for one in places)
        return Slice([], counts, [None] * len(shape), taken.front, taken.shape)
    strides = [unit * math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    split = _last_divided(places, shape, strides, gap)
    starts, ends = np.zeros(1, dtype=np.int64), np.full(1, unit * math.prod(shape), dtype=np.int64)
    read: list[int] = []
    take: list[Positions | None] = []
    for axis, one in enumerate(places):
        if axis > split:
            count, order = shape[axis], one
        else:
            firsts, lasts, order = _read_of(one, strides[axis], gap if axis == split else None)
            count = int((lasts - firsts).sum())
            starts, ends = (np.add.outer(starts, at * strides[axis]).reshape(-1) for at in (firsts, lasts))
        read.append(count)
        take.append(None if _is_all(order, count) else order)
    ranges = list(zip(starts.tolist(), ends.tolist(), strict=True))
    return Slice(ranges, tuple(read), take, taken.front, taken.shape)


def _last_divided(places: list[Positions], shape: tuple[int, ...], strides: list[int], gap: int) -> int:
    """The last dimension of which only parts are read; -1 if there is none. Those after it are read whole: all of each is wanted, or
    what is not wanted is a small gap.
    """
    for axis in range(len(shape) - 1, -1, -1):
        if strides[axis] * (shape[axis] - len(np.unique(places[axis]))) > gap:
            return axis
    return -1


def _read_of(one: Positions, stride: int, gap: int | None) -> tuple[Positions, Positions, Positions]:
    """What is read of one dimension: the first place and the last place + 1 of each range, and where each wanted place is among those
    that are read. With a ``gap``, places that are no further apart are one range.
    """
    wanted, inverse = np.unique(one, return_inverse=True)
    firsts, lasts = (wanted, wanted + 1) if gap is None else _runs(wanted, stride, gap)
    before = np.concatenate(([0], np.cumsum(lasts - firsts)[:-1]))
    run = np.searchsorted(firsts, wanted, side="right") - 1
    among = before[run] + (wanted - firsts[run])
    return firsts, lasts, among[inverse.reshape(-1)]


def _runs(places: Positions, stride: int, gap: int) -> tuple[Positions, Positions]:
    """Ranges of ascending places, those with small gaps between them as one."""
    breaks = np.flatnonzero((np.diff(places) - 1) * stride > gap)
    firsts = places[np.concatenate(([0], breaks + 1))]
    lasts = places[np.concatenate((breaks, [len(places) - 1]))] + 1
    return firsts, lasts


def _is_all(places: Positions, size: int) -> bool:
    return len(places) == size and bool((places == np.arange(size)).all())


def finish(data: npt.NDArray[Any], taken: Slice) -> npt.NDArray[Any]:
    """The result, made of what was read."""
    for axis, places in enumerate(taken.take):
        if places is not None:
            data = data.take(places, axis=axis)
    if taken.front is not None:
        data = np.moveaxis(data, taken.front, 0)
    return data.reshape(taken.shape)
