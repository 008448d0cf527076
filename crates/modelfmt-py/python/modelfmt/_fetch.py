"""Files from URLs: fetched, resumed, repaired."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Unpack

from . import _modelfmt, _opening
from ._content import local
from ._errors import usage
from ._keywords import checked
from ._opening import Path, Requests, is_url
from ._progress import Progress, callback


@dataclass(frozen=True)
class FetchSource:
    """A server, and what came from it."""

    #: The URL, without secrets.
    url: str
    #: The number of bytes of the file that came from it.
    bytes: int
    #: The number of pieces from it that were wrong.
    refused: int


@dataclass(frozen=True)
class Fetched:
    """What was fetched, and what was there already."""

    #: The file, or the folder of several.
    path: str
    #: The length in bytes. For several files this is the sum, as for the other numbers.
    size: int
    #: The number of bytes that were already there and correct, and so were not fetched.
    kept: int
    #: The number of bytes that came from servers.
    fetched: int
    #: The number of pieces that were there but wrong.
    bad: int
    requests: int
    sources: list[FetchSource]
    #: How the bytes were checked: ``"b3"``, ``"own"``, ``"sha256"``, ``"etag"`` or ``None``.
    checked_by: str | None
    #: For a set or a repository, the results for each file.
    files: list[Fetched] = field(default_factory=list)
    #: Notes, such as about servers that sent wrong bytes.
    notes: list[str] = field(default_factory=list)


@checked(*Requests.__annotations__)
def fetch(
    url: Path | Sequence[Path],
    path: Path,
    *,
    pin: str | None = None,
    overwrite: bool = False,
    include: str | Sequence[str] = (),
    exclude: str | Sequence[str] = (),
    policy: Path | None = None,
    threads: int | None = None,
    progress: Progress = None,
    **requests: Unpack[Requests],
) -> Fetched:
    """Gets a file, a set or a repository from a URL, resumes it, or repairs a damaged copy.

    Several URLs are mirrors of one file. ``path`` is the file to write, or a folder. What is there already and is right stays: pieces of
    16 KiB with a ``pin`` (``"b3:…"``) and an outboard beside the file, else what the hashes in the file cover. A new file appears when
    it is complete and right; the same call resumes after a stop. ``overwrite`` begins anew and replaces whatever is there.

    The URL of an index fetches its set, that of a file of a GGUF split the split, and ``hf://OWNER/REPO`` a repository, of which
    ``include`` and ``exclude`` choose files by patterns.
    """
    urls = [local(one) for one in ([url] if isinstance(url, (str, os.PathLike)) else url)]
    out = local(path)
    if is_url(out):
        raise usage("fetch writes files of this machine; modelfmt.convert writes into buckets")
    for one in urls:
        if not is_url(one):
            raise usage(f"{one!r} is no URL")
    given = {**_opening.requests(requests), "policy": policy}
    told = callback(progress, "fetching")
    only, never = _list(include), _list(exclude)
    return _fetched(_modelfmt.fetch(urls, out, pin, overwrite, only, never, given, threads, told))


def _list(patterns: str | Sequence[str]) -> list[str]:
    return [patterns] if isinstance(patterns, str) else list(patterns)


def _fetched(said: Mapping[str, Any]) -> Fetched:
    sources = [FetchSource(*source) for source in said["sources"]]
    return Fetched(**{**said, "sources": sources, "files": [_fetched(file) for file in said["files"]]})
