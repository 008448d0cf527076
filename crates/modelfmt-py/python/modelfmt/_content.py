"""Models that have no path: the content of a file in memory, and files that are open already."""

from __future__ import annotations

import contextlib
import io
import mmap
import os
import stat
import tempfile
from typing import Any

from . import _fsspec, _modelfmt
from ._errors import argument, usage
from ._opening import Content, Path

# The number of bytes that are copied at once.
_PIECE = 1 << 20


def place_of(given: Any) -> str | Content:
    """The path or URL that a model is opened by, or else its content or open file."""
    if _fsspec.is_open_file(given):
        path = _fsspec.local_path(given)
        return given if path is None else path
    if isinstance(given, (bytes, bytearray, memoryview)) or (
        not isinstance(given, (str, os.PathLike)) and (hasattr(given, "read") or hasattr(given, "fileno"))
    ):
        content: Content = given
        return content
    path = path_of(given)
    return _fsspec.of_url(path, "rb") or path


def opened(content: Content, is_mapped: bool, verify: bool, given: dict[str, Any]) -> _modelfmt.Model:
    """The model in the content of a file, or in all of an open file, wherever that stands."""
    if isinstance(content, io.BytesIO):
        # Python shares these bytes, and copies them when somebody writes.
        content = content.getvalue()
    if isinstance(content, (bytes, bytearray, memoryview, mmap.mmap)):
        return _modelfmt.Model.of_content("content", content, verify, given)
    name, storage = _stored(content)
    return _modelfmt.Model.of_storage(name, storage, is_mapped, verify, given)


def _stored(file: Any) -> tuple[str, _modelfmt.Storage]:
    """An open file that is read at positions, so that nobody else's position in it matters: the file itself, or a copy."""
    if isinstance(file, io.TextIOBase):
        raise _not_bytes(file)
    if _fsspec.is_open_file(file):
        if "r" not in file.mode or "b" not in file.mode:
            raise usage(f'a file of fsspec with mode "{file.mode}" is opened: give one with mode "rb"')
        with file as opened:
            return "content", _copied(opened)
    descriptor = _descriptor(file)
    if descriptor is not None:
        # The file is copied if there is no /dev/fd, or if only the descriptor can be read and not the file.
        with contextlib.suppress(OSError):
            name = getattr(file, "name", None)
            return name if isinstance(name, str) else "content", _modelfmt.Storage.of_descriptor(descriptor)
    return "content", _copied(file)


def _descriptor(file: Any) -> int | None:
    """The descriptor of a regular file whose bytes are what reading gives. For a GzipFile, say, they are not."""
    raw = getattr(file, "raw", file)
    if hasattr(file, "read") and not (isinstance(raw, io.FileIO) and raw.readable()):
        return None
    descriptor: int = file.fileno()
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        return None
    if hasattr(file, "flush"):
        file.flush()
    return descriptor


def _copied(file: Any) -> _modelfmt.Storage:
    """A temporary copy of all that a file has; of one without positions, of what is left."""
    if not hasattr(file, "read"):
        raise usage(f"a {type(file).__name__} is opened that is no regular file and cannot be read")
    storage = _modelfmt.Storage.temporary(tempfile.gettempdir())
    if not hasattr(file, "seek") or hasattr(file, "seekable") and not file.seekable():
        _copy(file, storage)
        return storage
    place = file.tell() if hasattr(file, "tell") else 0
    file.seek(0)
    try:
        _copy(file, storage)
    finally:
        file.seek(place)
    return storage


def _copy(file: Any, storage: _modelfmt.Storage) -> None:
    while piece := file.read(_PIECE):
        if not isinstance(piece, (bytes, bytearray, memoryview)):
            raise _not_bytes(file)
        storage.write(piece)
    if piece is None:
        raise usage("the file is read without waiting, and has nothing now: give one that waits")


def _not_bytes(file: Any) -> Exception:
    return usage(f'a {type(file).__name__} gives text, and the content of a file is bytes: open the file with mode "rb"')


def path_of(given: Any) -> str:
    """A path or URL as text."""
    try:
        path: Path = os.fspath(given)
    except TypeError:
        raise argument(
            f"a model is opened by a path, a URL, the content of a file as bytes, or an open file, and not by a {type(given).__name__}"
        ) from None
    return path if isinstance(path, str) else os.fsdecode(path)


def local(given: Any) -> str:
    """The path or URL of an argument that has to have one. Of fsspec's files, those of this machine have."""
    if _fsspec.is_open_file(given):
        path = _fsspec.local_path(given)
        if path is None:
            raise argument(f"{given.full_name}: this takes a path or a URL, and no file of fsspec")
        return path
    return path_of(given)
