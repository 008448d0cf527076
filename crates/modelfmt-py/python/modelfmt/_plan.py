"""Conversions into sets, whose parts are written by independent processes."""

from __future__ import annotations

import functools
import os
import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Unpack, cast

from . import _modelfmt, _opening
from ._content import local
from ._described import described
from ._errors import usage
from ._files import Adapters, Converted, Rules, conversion, format_of
from ._keywords import checked
from ._model import Model
from ._opening import Opening, Path
from ._progress import Progress, callback


class Converting(Opening, total=False):
    """The keywords of :func:`modelfmt.convert` that say what is written."""

    widen: bool
    cast: Rules
    dequantize: Rules
    quantize: Rules
    rules: Sequence[str]
    imatrix: Path | None
    scales: Mapping[str, str] | None
    include: str | Sequence[str]
    exclude: str | Sequence[str]
    rename: Mapping[str, str] | None
    allow_ties: bool
    map: Path | None
    lora: Adapters
    base: Path | None
    pre: str | None
    dedupe: bool
    lossy: bool
    stringify: bool
    metadata: Mapping[str, Any] | None
    model_name: str | None
    architecture: str | None
    model_type: str | None
    control_hash: bool
    page_hashes: int | None
    tensor_hashes: bool
    uuid: bytes | None
    no_zstd: bool
    compress: str | None
    align: int | None
    reserve: int | None
    shards: int | None
    verify: bool
    overwrite: bool


@checked(*Converting.__annotations__)
def plan_convert(
    source: Path,
    path: Path,
    format: str | None = None,
    *,
    shard_size: int | None = None,
    begin: bool = True,
    **options: Unpack[Converting],
) -> ConversionPlan:
    """Plans a conversion into a set of files, whose parts can be written by independent processes, in any order.

    Source and ``path`` are paths or URLs that every worker reaches. The same call gives the same plan everywhere, and a plan can be
    pickled. Only one process begins: it checks that the set can be written. A worker that makes the plan itself passes
    ``begin=False``; a worker that unpickles it need not.

    >>> plan = modelfmt.plan_convert("model.safetensors", "out/model.aeroset.json", shard_size=2 << 30)
    >>> receipts = [plan.part(k).write() for k in range(len(plan))]     # by any workers
    >>> plan.finish(receipts)
    """
    plan = ConversionPlan(local(source), local(path), format, {**options, "shard_size": shard_size})
    if begin:
        plan.native().begin()
    return plan


class ConversionPlan:
    """A planned conversion into a set, made by :func:`plan_convert`."""

    #: Plans with the same id write parts of the same set.
    id: str
    #: The file that appears last, and that you open to read the set.
    path: str

    def __init__(self, source: str, path: str, format: str | None, options: Mapping[str, Any]) -> None:
        self._given = (source, path, format, dict(options))
        self._receipts: dict[int, str] = {}
        self._make()
        self.id, self.path, self._parts = self._native.describe()

    def _make(self) -> None:
        source, path, format, options = self._given
        opening = cast("Opening", {name: options[name] for name in Opening.__annotations__ if name in options})
        self._process = os.getpid()
        self._model = Model(source, verify=options.get("verify", True), **opening)
        name = format_of(format, path)
        given = conversion(options)
        requests = _opening.requests(opening)
        self._native = _modelfmt.Plan(self._model.native(), path, name, given, requests)

    def native(self) -> _modelfmt.Plan:
        """The plan, with connections of this process's own."""
        if self._process != os.getpid():
            self._make()
        return self._native

    def __len__(self) -> int:
        """The number of parts."""
        return len(self._parts)

    @described
    def part(self, number: int) -> PlannedPart:
        """The part of that number, from 0 on."""
        if not 0 <= number < len(self):
            raise IndexError(f"there is no part {number} of {len(self)}")
        return PlannedPart(self, number, *self._parts[number])

    def __iter__(self) -> Iterator[PlannedPart]:
        return map(self.part, range(len(self)))

    @described
    def keep(self, number: int, receipt: str) -> str:
        """Keeps the receipt of a part that was written here, for :meth:`finish`."""
        self._receipts[number] = receipt
        return receipt

    @checked()
    def finish(
        self, receipts: Iterable[str] = (), *, threads: int | None = None, progress: Progress = None
    ) -> Converted:
        """Writes the remaining files when all parts are there; then the set can be opened. ``receipts`` are what writing the
        parts returned, in any order. You need not give those of parts that this plan itself has written.
        """
        known = [*self._receipts.values(), *receipts]
        done = self.native().finish(known, threads, callback(progress, "finishing"))
        return Converted(**done)

    def __repr__(self) -> str:
        return f"<ConversionPlan of {self.path!r} in {len(self)} part{'' if len(self) == 1 else 's'}>"

    def __reduce__(self) -> tuple[Any, ...]:
        source, path, format, options = self._given
        _opening.picklable(cast("Opening", options))
        if not _opening.is_url(source):
            source = os.path.abspath(source)
        if not _opening.is_url(path):
            path = os.path.abspath(path)
        return (_unpickled, (pickle.dumps((source, path, format, options)), self.id))


def _unpickled(given: bytes, id: str) -> ConversionPlan:
    plan = _made(os.getpid(), given)
    if plan.id != id:
        _made.cache_clear()
        plan = _made(os.getpid(), given)
    if plan.id != id:
        raise usage(f"{plan.path}: the model that is converted is another here than where the plan was made")
    return plan


def _make(process: int, given: bytes) -> ConversionPlan:
    return ConversionPlan(*pickle.loads(given))


#: The plan for all the parts that a worker writes. A fork makes its own.
_made = functools.lru_cache(maxsize=4)(_make)


class PlannedPart:
    """A part of a :class:`ConversionPlan`. It can be pickled, as the plan can."""

    def __init__(self, plan: ConversionPlan, number: int, path: str, tensors: int, nbytes: int) -> None:
        self._plan = plan
        #: Its number, counted from 0.
        self.number = number
        #: Its file.
        self.path = path
        #: The number of its tensors, and their total size in bytes.
        self.tensors, self.nbytes = tensors, nbytes

    @checked()
    def write(self, *, threads: int | None = None, progress: Progress = None) -> str:
        """Writes the part, in place of one that a killed worker has left. Returns its receipt, for
        :meth:`ConversionPlan.finish`: a line of text, which can be sent to another process.
        """
        told = callback(progress, "writing")
        receipt = self._plan.native().write(self.number, self.nbytes, threads, told)
        return self._plan.keep(self.number, receipt)

    def __repr__(self) -> str:
        return f"<PlannedPart {self.number} {self.path!r}: {self.tensors} tensors, {self.nbytes} bytes>"
