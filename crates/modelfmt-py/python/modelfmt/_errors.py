"""The errors of this package."""

from __future__ import annotations

import builtins
import errno as _errno
from typing import Any

__all__ = [
    "FileError",
    "FormatError",
    "ModelfmtError",
    "TensorNotFoundError",
    "UnsupportedError",
    "UsageError",
    "VerifyError",
]


class ModelfmtError(Exception):
    """Any error of this package.

    ``code`` is a name for its kind that does not change with the wording. ``remedies`` are keywords that would help, such as
    ``"widen=True"``.
    """

    code: str = "error"
    remedies: tuple[str, ...] = ()

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class FormatError(ModelfmtError, ValueError):
    """A file is broken, or is not a model."""


class VerifyError(FormatError):
    """The bytes of a file do not match the file's own hashes or checksums, or its pin, or break a rule of its format.

    ``report`` is what :func:`modelfmt.verify` returns, if the whole file was verified.
    """

    report: dict[str, Any] | None = None


class UnsupportedError(ModelfmtError, ValueError):
    """The format or the type does not allow what was asked for; ``remedies`` are keywords that help."""


class UsageError(ModelfmtError, ValueError):
    """An argument is wrong, whatever the file holds."""


class ArgumentError(UsageError, TypeError):
    """An argument is of another type than it must be, or a function has no keyword of its name; then ``remedies`` is the one that was
    meant.
    """


class TensorNotFoundError(ModelfmtError, KeyError):
    """No tensor has the name."""


class FileError(ModelfmtError, OSError):
    """A file cannot be read or written."""

    _text: str = ""

    def __str__(self) -> str:
        return self._text

    def __reduce__(self) -> tuple[Any, ...]:
        # pickle cannot find its class by name.
        return (_file_error, (self._text, self.errno, self.filename), self.__dict__)


class _NotFound(FileError, FileNotFoundError):
    pass


class _Exists(FileError, FileExistsError):
    pass


class _Permission(FileError, PermissionError):
    pass


class _IsFolder(FileError, IsADirectoryError):
    pass


def _rename(error: type[FileError], name: str) -> None:
    """Has a class shown by the name of Python's own."""
    error.__name__ = error.__qualname__ = name


_rename(_NotFound, "FileNotFoundError")
_rename(_Exists, "FileExistsError")
_rename(_Permission, "PermissionError")
_rename(_IsFolder, "IsADirectoryError")

_BY_ERRNO: dict[int, type[FileError]] = {
    _errno.ENOENT: _NotFound,
    _errno.EEXIST: _Exists,
    _errno.EACCES: _Permission,
    _errno.EPERM: _Permission,
    _errno.EISDIR: _IsFolder,
}

_BY_CODE: dict[str, type[ModelfmtError]] = {
    "broken-file": FormatError,
    "unknown-format": FormatError,
    "no-model": FormatError,
    "limit": FormatError,
    "damaged": VerifyError,
    "no-hash": VerifyError,
    "signature": VerifyError,
    "not-sealable": VerifyError,
    "policy": VerifyError,
    "refused": UnsupportedError,
    "unsupported": UnsupportedError,
    "values": UnsupportedError,
    "no-data": UnsupportedError,
    "no-tensors": UnsupportedError,
    "unmapped": UnsupportedError,
    "no-hub-folder": UnsupportedError,
    "not-enabled": UnsupportedError,
    "not-extractable": UnsupportedError,
    "not-editable": UnsupportedError,
    "unpinnable": UnsupportedError,
    "no-such-key": UsageError,
    "key": UsageError,
    "usage": UsageError,
    "name-twice": UsageError,
    "nothing-selected": UsageError,
    "no-match": UsageError,
    "out-of-range": UsageError,
    "no-such-tensor": TensorNotFoundError,
    "not-found": TensorNotFoundError,
}

_FILE_CODES = ("cannot-open", "cannot-read", "cannot-write", "changed", "exists", "interrupted", "output")


def make(
    code: str,
    text: str,
    remedies: list[str],
    errno: int | None,
    path: str | None,
    name: str | None,
) -> builtins.BaseException:
    """The exception for an error of the library."""
    error: ModelfmtError
    if code in _FILE_CODES:
        error = _file_error(text, _errno.EEXIST if code == "exists" else errno, path)
    else:
        error = _BY_CODE.get(code, ModelfmtError)(text)
        if name is not None:
            error.args = (text, name)
    error.code = code
    error.remedies = tuple(remedies)
    return error


def _file_error(text: str, errno: int | None, path: str | None) -> FileError:
    errno = _errno.EIO if errno is None else errno
    error = _BY_ERRNO.get(errno, FileError)(errno, text, path)
    error._text = text
    return error


def unsupported(text: str, *remedies: str) -> UnsupportedError:
    """An :class:`UnsupportedError` that the Python code raises."""
    error = UnsupportedError(text)
    error.code = "unsupported"
    error.remedies = remedies
    return error


def usage(text: str) -> UsageError:
    """A :class:`UsageError` that the Python code raises."""
    error = UsageError(text)
    error.code = "usage"
    return error


def argument(text: str, *remedies: str) -> ArgumentError:
    """An :class:`ArgumentError`, for which Python itself would raise a ``TypeError``."""
    error = ArgumentError(text)
    error.code = "usage"
    error.remedies = remedies
    return error
