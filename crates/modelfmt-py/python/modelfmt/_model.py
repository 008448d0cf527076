"""An open model: a mapping of names to arrays."""

from __future__ import annotations

import builtins
import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Self, Unpack

from . import _content, _html, _modelfmt, _opening
from ._described import described
from ._dtypes import Array
from ._errors import VerifyError, usage
from ._keywords import checked
from ._opening import Content, Opening, Path
from ._progress import Progress, callback
from ._report import Report
from ._tensor import Tensor

Level = Literal["header"] | Literal["control"] | Literal["full"]
Spec = Literal["cyclonedx"] | Literal["spdx"]

# The number of tensors that ``repr`` shows.
_SHOWN = 8


@dataclass(frozen=True)
class TensorInfo:
    """What a tensor is, and where its values are, as ``modelfmt inspect --json`` prints it."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    has_data: bool
    file: str | None
    offset: int | None
    stored_nbytes: int
    encoding: str
    quant: dict[str, Any] | None


@checked(*Opening.__annotations__)
def open(
    path: Path | Content,
    *,
    verify: bool = False,
    mmap: bool = False,
    **opening: Unpack[Opening],
) -> Model:
    """Opens a model of any format: a path, a URL, the content of a file as ``bytes``, or an open file in binary mode.

    An open file is read from its beginning, wherever it stands, and stays where it stands. If it is a plain file of this machine, that is
    read when you ask for values; anything else with ``read``, such as a member of an archive, is copied to a temporary file.

    URLs are ``https://``, ``http://``, ``s3://``, ``gs://``, ``az://``, ``hf://OWNER/REPO/FILE`` and ``file://``, read by ranges.
    Credentials and endpoints come from the environment, as the providers' own tools read them.

    ``pin``, ``keys`` and ``identity``, ``passphrase`` or ``raw_key`` say what the file must be, who must have signed it, and what
    opens it if it is encrypted; :class:`Opening` has all of these keywords.

    The index is read and checked, and no value. With ``verify`` the whole file is checked, and a :class:`VerifyError` says what
    is wrong.

    A file is read when you ask for an array. With ``mmap`` it is mapped instead, so that arrays cost nothing until you look at
    them. The map is private: what you write to an array stays in this process. But if somebody makes the file shorter while it
    is mapped, your process is killed when it touches what is gone.
    """
    model = Model(path, mmap=mmap, **opening)
    if verify:
        report = model.verify()
        if not report["ok"]:
            model.close()
            raise failed(report)
    return model


def json_object(text: str) -> dict[str, Any]:
    """A report of the library."""
    value: dict[str, Any] = json.loads(text)
    return value


def failed(report: dict[str, Any]) -> VerifyError:
    """The error for a report that is not good."""
    first, *others = report["errors"]
    more = f" (and {len(others)} more)" if others else ""
    error = VerifyError(f"{report['path']}: {first}{more}")
    error.code, error.report = "damaged", report
    return error


def opened(model: Path | Content | Model, opening: Opening, *, verify: bool = True) -> Model:
    """The open model of an argument that is a path, content, or a model."""
    if not isinstance(model, Model):
        return Model(model, verify=verify, **opening)
    if opening:
        raise usage(f"the model is open already: {', '.join(opening)} say how to open one")
    return model


class Model(Mapping[str, Array]):
    """An open model: a mapping of the names of its tensors, in the order of the file, to arrays of numpy.

    ``model["w"]`` reads a tensor into memory that belongs to the array. :meth:`tensor` gives an object that torch, jax and mlx take
    too, and that reads only the slices you ask for.

    :func:`open` makes one. ``Model(path, verify=False)`` also opens a MAG file whose checksum is wrong, to look at what is left.
    """

    @checked(*Opening.__annotations__)
    def __init__(
        self, path: Path | Content, *, mmap: bool = False, verify: bool = True, **opening: Unpack[Opening]
    ) -> None:
        self._mmap, self._verify, self._opening = mmap, verify, opening
        self._path: str | None = None
        self._process: int | None = None
        self._native: _modelfmt.Model | None
        place = _content.place_of(path)
        if isinstance(place, str):
            self._path = place
            self._native = self._opened()
        else:
            self._native = _content.opened(place, mmap, verify, _opening.given(opening))

    def _opened(self) -> _modelfmt.Model:
        assert self._path is not None
        self._process = os.getpid() if _opening.is_url(self._path) else None
        return _modelfmt.Model.open(self._path, self._mmap, self._verify, _opening.given(self._opening))

    def native(self) -> _modelfmt.Model:
        """The open file of the Rust half; an error if it was closed."""
        if self._native is None:
            raise usage("the model is closed")
        if self._process is not None and self._process != os.getpid():
            # A fork does not yet have its own connections.
            self._native = self._opened()
        return self._native

    @property
    def is_remote(self) -> bool:
        """Whether it was opened by a URL."""
        return self._process is not None

    @property
    def path(self) -> str | None:
        """The path or URL by which it was opened, without the parts that may be secret; ``None`` for content and open files."""
        if self._path is None or self._process is None or self._native is None:
            return self._path if self._process is None else None
        return self._native.path

    @property
    def is_encrypted(self) -> bool:
        """Whether the values are encrypted in the file."""
        return self.native().is_encrypted

    @property
    def pins(self) -> list[str]:
        """The pins of the file (for ``pin=``) that are known without reading values."""
        return self.native().pins()

    @property
    def format(self) -> str:
        """The name of the format, such as ``"safetensors"``."""
        return self.native().format

    @property
    def version(self) -> str | None:
        """The version of the format that the file states."""
        return self.native().version

    @property
    def file_size(self) -> int:
        """The size in bytes; for a set, of all its files together."""
        return self.native().file_size

    @property
    def metadata(self) -> Any:
        """The format's own metadata, as ``modelfmt inspect --json`` prints it."""
        return json.loads(self.native().metadata())

    @property
    def details(self) -> dict[str, Any]:
        """What only this format has, as ``modelfmt inspect --json`` prints it."""
        return json_object(self.native().details())

    def __len__(self) -> int:
        return len(self.native())

    def __iter__(self) -> Iterator[str]:
        return iter(self.native().names())

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.native().position(name) is not None

    def __getitem__(self, name: str) -> Array:
        return self.tensor(name).numpy()

    @described
    def tensor(self, name: str) -> Tensor:
        """A tensor whose values are read when you ask for them."""
        position, dtype, shape, nbytes = self.native().found(name)
        return Tensor(name, dtype, shape, nbytes, self, position)

    def tensors(self) -> Iterator[Tensor]:
        """All tensors, in the order of the file."""
        self.native().names()
        return map(self._tensor_at, range(len(self)))

    def _tensor_at(self, position: int) -> Tensor:
        name, dtype, shape, nbytes, _ = self.native().info(position)
        return Tensor(name, dtype, tuple(shape), nbytes, self, position)

    @described
    def info(self, name: str) -> TensorInfo:
        """What a tensor is, and where its values are."""
        native = self.native()
        position = native.find(name)
        _, dtype, shape, nbytes, has_data = native.info(position)
        file, offset, stored, encoding = native.location(position)
        quant = native.quant(position)
        quant = None if quant is None else json.loads(quant)
        return TensorInfo(name, dtype, tuple(shape), nbytes, has_data, file, offset, stored, encoding, quant)

    @described
    def glob(self, *patterns: str) -> list[str]:
        """The names that match one of the patterns, such as ``"*.weight"``, in the order of the file."""
        names = self.native().names()
        return [names[position] for position in self.native().matching(patterns)]

    def table(self) -> list[dict[str, Any]]:
        """A row for each tensor, in the order of the file: ``name``, ``dtype``, ``shape``, ``elements``, ``nbytes``, ``file``, ``offset``,
        ``stored_nbytes`` and ``encoding``. ``pandas.DataFrame(model.table())`` is a table of them.
        """
        return [_row(tensor) for tensor in self.inspect()["tensors"]]

    @described
    def plan(self, *names: str) -> dict[str, Any]:
        """Which ranges of which files have to be read for these tensors, as ``modelfmt plan --json`` prints it: ``requests``, ``bytes``,
        ``overhead`` and ``ranges``. No value is read.
        """
        return json_object(self.native().plan(names))

    @checked()
    def verify(
        self, level: Level = "full", *, threads: int | None = None, progress: Progress = None
    ) -> dict[str, Any]:
        """What verification finds, as ``modelfmt verify --json`` prints it: ``ok``, ``checks``, ``errors``."""
        report = self.native().verify(level, threads, callback(progress, "verifying"))
        return json_object(report)

    @checked()
    def check(self, *, threads: int | None = None, progress: Progress = None) -> dict[str, Any]:
        """What is wrong with the values, as ``modelfmt check --json`` prints it: NaN, infinities, and tensors that are all
        zero, constant or duplicates. ``ok`` is false if a tensor holds NaN or an infinity, or if an index and its files disagree.
        """
        report = _modelfmt.check(self.native(), threads, callback(progress, "checking"))
        return json_object(report)

    @checked()
    def inspect(self, *, hash: bool = False, tensors: str | list[str] | None = None) -> dict[str, Any]:
        """What ``modelfmt inspect --json`` prints."""
        patterns = [tensors] if isinstance(tensors, str) else tensors
        return json_object(self.native().inspect(hash, patterns, None, None))

    @checked()
    def bom(
        self,
        *,
        spec: Spec = "cyclonedx",
        tensors: bool = False,
        threads: int | None = None,
        progress: Progress = None,
    ) -> str:
        """A bill of materials, as ``modelfmt bom`` writes it: JSON of CycloneDX 1.6 or SPDX 3.0.1. With ``tensors``, it lists each
        tensor, too. The time that SPDX asks for is that of the variable ``SOURCE_DATE_EPOCH``, or 1970-01-01T00:00:00Z.
        """
        epoch = os.environ.get("SOURCE_DATE_EPOCH")
        return self.native().bom(spec, tensors, epoch, threads, callback(progress, "hashing"))

    @checked()
    def report(
        self,
        other: Path | Content | Model | None = None,
        *,
        out: Path | None = None,
        overwrite: bool = False,
        threads: int | None = None,
        progress: Progress = None,
    ) -> Report:
        """A page about the model, as ``modelfmt report`` writes it, and with ``other`` about how that differs. A notebook shows it;
        ``out`` is a file to write it to. To open ``other`` with a pin or keys, pass the open model.
        """
        second = None if other is None else opened(other, {}).native()
        path = None if out is None else _content.local(out)
        told = callback(progress, "reading")
        html, ok = _modelfmt.report(self.native(), second, path, overwrite, threads, told)
        return Report(html, ok)

    @checked()
    def stats(self, name: str, *, threads: int | None = None) -> dict[str, Any]:
        """Statistics of a tensor's values: ``count``, ``min``, ``max``, ``mean``, ``median``, ``std`` of the finite ones, ``nan``,
        ``pos_inf``, ``neg_inf``, and a ``histogram`` of ``(from, to, count)``.
        """
        return self.native().stats(self.native().find(name), threads)

    @checked()
    def show(self, *names: str) -> str:
        """What ``modelfmt show`` prints: values, statistics and histograms, of all tensors or of those named."""
        return self.native().show(names, None)

    def close(self) -> None:
        """Closes the file. Arrays that were read stay valid."""
        self._native = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return builtins.hash(id(self))

    def __reduce__(self) -> tuple[Any, ...]:
        if self._path is None:
            raise TypeError("a model that was opened from its content or an open file has no path to be pickled by")
        path = self._path if _opening.is_url(self._path) else os.path.abspath(self._path)
        return (_reopen, (path, self._mmap, self._verify, _opening.picklable(self._opening)))

    def __repr__(self) -> str:
        if self._native is None:
            return "<Model, closed>"
        where = f" {self.path!r}" if self._path is not None else ""
        count = len(self)
        lines = [f"<Model {self.format}{where}: {count} tensor{'' if count == 1 else 's'}"]
        first = self.native().first(_SHOWN)
        for name, dtype, shape in first:
            dims = ", ".join(map(str, shape))
            lines.append(f"  {_cut(repr(name))}: {dtype}[{_cut(dims)}]")
        if len(first) < count:
            lines.append(f"  … {count - len(first):,} more")
        return "\n".join(lines) + ">"

    def _repr_html_(self) -> str:
        return _html.table(self) if self._native is not None else "<p>closed</p>"


def _row(tensor: dict[str, Any]) -> dict[str, Any]:
    """What is known of a tensor, as a row of a table."""
    shape = tuple(tensor["shape"])
    last = {name: tensor[name] for name in ("nbytes", "file", "offset", "stored_nbytes", "encoding")}
    return {"name": tensor["name"], "dtype": tensor["dtype"], "shape": shape, "elements": math.prod(shape), **last}


def _cut(text: str) -> str:
    """Text, of which only the beginning is shown if it is long."""
    return text if len(text) <= 100 else f"{text[:99]}…"


def _reopen(path: str, mmap: bool, verify: bool, opening: Opening) -> Model:
    return Model(path, mmap=mmap, verify=verify, **opening)
