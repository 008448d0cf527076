"""Files that are written: by a path or URL, or into an open file."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from typing import IO, Any, NamedTuple

from . import _content, _errors, _fsspec
from ._errors import usage
from ._opening import Path

#: The outputs that files are written to: a path, a URL, a file that is open for writing, or an ``OpenFile``
#: of fsspec.
Output = Path | IO[bytes]

# The number of bytes that are copied at once.
_PIECE = 1 << 20


class Target(NamedTuple):
    """Where a file is written."""

    #: Its path or URL, or those of a temporary file that replaces it.
    path: str
    #: The open file that gets the content of a temporary one; ``None`` without a temporary file.
    out: Any | None

    @property
    def name(self) -> str | None:
        """The name that the caller knows a temporary file by; ``None`` if there is none."""
        if self.out is None:
            return None
        name = getattr(self.out, "full_name", getattr(self.out, "name", None))
        return name if isinstance(name, str) else "content"


def of_path(given: Any) -> Any:
    """What is written to: a path or URL as text, an open file, or an ``OpenFile`` of another machine's file."""
    if _fsspec.is_open_file(given):
        return _fsspec.local_path(given) or given
    if not isinstance(given, (str, os.PathLike)) and hasattr(given, "write"):
        return given
    path = _content.path_of(given)
    return _fsspec.of_url(path, "wb") or path


@contextlib.contextmanager
def target(given: Any, format: str | None, overwrite: bool, *, is_dry: bool = False) -> Iterator[Target]:
    """The place to write to. An open file gets its content when all of it is there: no format is written from the first byte to the last."""
    out = of_path(given)
    if isinstance(out, str):
        yield Target(out, None)
        return
    is_lazy = _fsspec.is_open_file(out)
    name = _fsspec.name_of(out) if is_lazy else "model"
    if format is None and not is_lazy:
        raise usage("a file object has no extension that says which format: give format=")
    if is_lazy and not overwrite and out.fs.exists(out.path):
        raise _errors.make("exists", f"{out.full_name} exists", ["overwrite=True"], None, out.full_name, None)
    with tempfile.TemporaryDirectory() as folder:
        yield Target(os.path.join(folder, name), out)
        if is_dry:
            return
        if os.listdir(folder) != [name]:
            raise usage("this format is several files, and a file object takes one: give a path")
        with open(os.path.join(folder, name), "rb") as file:
            if not is_lazy:
                shutil.copyfileobj(file, out, _PIECE)
                return
            if "w" not in out.mode or "b" not in out.mode:
                raise usage(f'a file of fsspec with mode "{out.mode}" is written: give one with mode "wb"')
            with out as opened:
                shutil.copyfileobj(file, opened, _PIECE)
