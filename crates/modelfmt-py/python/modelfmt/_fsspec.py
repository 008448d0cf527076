"""Files of fsspec. It is imported only for a URL that nothing else here reads; an ``OpenFile`` is known by what it has."""

from __future__ import annotations

import os
from typing import Any

from ._errors import usage

#: The kinds of URLs that the package reads itself.
_OWN = ("s3", "gs", "az", "http", "https", "hf", "file")


def is_open_file(given: Any) -> bool:
    """Whether this is an ``OpenFile``: a file system and a path, which become a file in a ``with``."""
    has_all = all(hasattr(given, name) for name in ("fs", "path", "mode", "__enter__"))
    return has_all and not hasattr(given, "read") and not isinstance(given, (str, os.PathLike))


def of_url(text: str, mode: str) -> Any | None:
    """The file at a URL that only fsspec can reach, such as ``memory://a`` or ``simplecache::s3://b/c``; ``None`` for all others."""
    scheme, is_url, _ = text.partition("://")
    first = scheme.partition("::")[0]
    is_scheme = len(first) > 1 and first[0].isalpha() and all(sign.isalnum() or sign in "+-." for sign in first)
    if not is_url or not is_scheme or ("::" not in scheme and first.lower() in _OWN) or os.path.exists(text):
        return None
    try:
        import fsspec
    except ImportError:
        raise usage(
            f"{first}://… is a URL of a kind that only fsspec may know: install it with `pip install fsspec`; "
            f"{', '.join(_OWN)} need nothing"
        ) from None
    try:
        return fsspec.open(text, mode)
    except (ValueError, ImportError) as error:
        # The text of the URL may be secret, and so may the error.
        raise usage(f"fsspec cannot open a URL of the kind {first}://…: {type(error).__name__}") from None


def local_path(file: Any) -> str | None:
    """The path of a file of this machine that fsspec would read as it is."""
    protocol = getattr(file.fs, "protocol", ())
    is_local = "file" in ((protocol,) if isinstance(protocol, str) else protocol)
    return str(file.path) if is_local and getattr(file, "compression", None) is None else None


def name_of(file: Any) -> str:
    """The last part of the path, whose extension names a format."""
    return os.path.basename(str(file.path).rstrip("/"))
