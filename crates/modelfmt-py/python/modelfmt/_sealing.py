"""Keywords of writing: the keys that can open a file, and those that sign it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ._errors import usage
from ._keywords import checked
from ._opening import Key


@dataclass(frozen=True)
class Seal:
    """Who can open an encrypted APR2 file. Each way that you give opens it by itself."""

    #: The public keys of people who can open it (X25519).
    recipients: Key | Sequence[Key] | None = None
    #: A passphrase that opens it.
    passphrase: str | bytes | None = field(default=None, repr=False)
    #: A key of 32 bytes that opens it, and an id that the file shows, such as the key's name in a key
    #: service.
    raw_key: bytes | None = field(default=None, repr=False)
    key_id: str | None = None
    #: Encrypt names, shapes and metadata too. The number of tensors and their sizes stay visible.
    hide_index: bool = False


# The dataclass makes the constructor, which takes keywords like any function.
setattr(Seal, "__init__", checked()(Seal.__init__))


def sealing(seal: Seal | None, sign: Key | Sequence[Key] | None, revision: int | None) -> dict[str, Any] | None:
    """The keywords of sealing, as the library takes them."""
    if revision is not None and sign is None:
        raise usage("revision is what a signer vouches for: give sign= too")
    given: dict[str, Any] = {"sign": sign, "revision": revision}
    if seal is not None:
        if seal.recipients is None and seal.passphrase is None and seal.raw_key is None:
            raise usage("nobody could open the file: give recipients=, passphrase= or raw_key=")
        if seal.key_id is not None and seal.raw_key is None:
            raise usage("key_id is the name of a raw_key: give raw_key= too")
        given |= {name: getattr(seal, name) for name in seal.__dataclass_fields__}
    return given if seal is not None or sign is not None else None
