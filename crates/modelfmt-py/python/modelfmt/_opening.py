"""How models are opened: the keywords of every function that opens one."""

from __future__ import annotations

import atexit
import os
from collections.abc import Sequence
from typing import Any, Protocol, TypedDict, cast

from . import _modelfmt

Path = str | os.PathLike[str]


class Readable(Protocol):
    """An open file in binary mode: anything with ``read``. If it has ``seek`` too, all of it is read, else what is left."""

    def read(self, size: int, /) -> bytes: ...


#: The content of a file, or an open file.
Content = bytes | bytearray | memoryview | Readable
#: A path to a key, or the key itself: its PEM as ``bytes``.
Key = Path | bytes


class Requests(TypedDict, total=False):
    """Keywords of :func:`modelfmt.save` and :func:`modelfmt.fetch`: what requests to servers may do."""

    #: Ask the metadata address of the cloud that this machine runs in for credentials, if the environment has none.
    allow_instance_credentials: bool
    #: Follow redirects of servers on the internet to addresses of private networks.
    allow_private_redirects: bool


class Opening(Requests, total=False):
    """Keywords of :func:`modelfmt.open`, which :func:`modelfmt.load` and others pass on."""

    #: What the file must be: ``"b3:…"``, the BLAKE3 of the whole file, or ``"aero:…"``, that of an AERO's
    #: bytes before its payloads. Every byte that is read is checked against it.
    pin: str | None
    #: The public keys of signers that you trust. Without a good signature by one of them, the file is
    #: refused.
    keys: Key | Sequence[Key] | None
    #: How many of the keys must have signed.
    threshold: int | None
    #: Refuse a signed file whose revision is lower.
    min_revision: int | None
    #: Private keys that open an encrypted file (X25519).
    identity: Key | Sequence[Key] | None
    #: A passphrase that opens an encrypted file.
    passphrase: str | bytes | None
    #: A key of 32 bytes that opens an encrypted file.
    raw_key: bytes | None
    #: The part of a PyTorch checkpoint that is the model, such as ``"state_dict"``; dots lead to nested
    #: parts.
    root: str | None
    #: A policy (TOML): only what it allows is read. Without it, the policy that the variable
    #: ``MODELFMT_POLICY`` names applies, if it is set.
    policy: Path | None
    #: Keep what is read from URLs in ``$XDG_CACHE_HOME/modelfmt`` (or ``~/.cache/modelfmt``), and read it
    #: from there if the server says that it is unchanged. True by default.
    cache: bool


# Keywords that may hold secrets, which are left out of pickles.
_SECRETS = ("identity", "passphrase", "raw_key")


_DEFAULTS = {"cache": True, "allow_instance_credentials": False, "allow_private_redirects": False}


def is_url(path: Any) -> bool:
    """Whether a path is a URL, which has no folder and is never made absolute."""
    return isinstance(path, str) and "://" in path


def _at_exit(process: int = os.getpid()) -> None:
    # A fork must not end the uploads of its parent.
    if os.getpid() == process:
        _modelfmt.abort_uploads()


atexit.register(_at_exit)


def given(opening: Opening) -> dict[str, Any]:
    """The keywords that are not at their defaults."""
    return {name: value for name, value in opening.items() if value is not None and value is not _DEFAULTS.get(name)}


def requests(opening: Opening | Requests) -> dict[str, Any]:
    """The keywords about requests, which are also for the file that is written."""
    return {name: value for name, value in opening.items() if name.startswith("allow_") and value}


def picklable(opening: Opening) -> Opening:
    """The keywords, if none of them is a secret; paths to secrets may be pickled."""
    for name in _SECRETS:
        values = cast("dict[str, Any]", opening).get(name)
        listed = values if isinstance(values, (list, tuple)) else [values]
        if name == "passphrase" and values is not None or any(isinstance(value, bytes) for value in listed):
            raise TypeError(f"a model that was opened with {name}= is not pickled: the secret would be in the pickle")
    return opening
