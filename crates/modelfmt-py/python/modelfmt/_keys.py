"""Keys, signatures and outboards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from . import _modelfmt, _opening
from ._content import local
from ._errors import usage
from ._keywords import checked
from ._opening import Key, Path, is_url
from ._progress import Progress, callback

# A union of literals, because mypy.stubtest reports a Literal of several values as an error.
KeyType = Literal["ed25519"] | Literal["x25519"] | Literal["p256"] | Literal["p384"] | Literal["p521"]


@dataclass(frozen=True)
class KeyPair:
    """A key that was made."""

    #: The private key, which only you can read.
    private: str
    #: The public key, for everybody who verifies.
    public: str
    #: The id of the public key.
    id: str


@dataclass(frozen=True)
class Signed:
    """A signature that was made."""

    #: The file that contains the signature.
    path: str
    #: The ids of the keys.
    key_ids: list[str]
    #: The number of files that it covers, and their total size.
    files: int
    nbytes: int
    #: For a signature inside a file, the number of bytes that changed: 0 if the keys had already signed it.
    written: int | None = None
    #: Notes, such as about what a change of the file has removed.
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Outboard:
    """An outboard that was written."""

    #: Its file: the path of the hashed file, with ``.obao4`` appended.
    path: str
    #: The BLAKE3 of the hashed file, for ``pin=``.
    pin: str
    nbytes: int


@checked()
def outboard(path: Path, *, overwrite: bool = False, policy: Path | None = None, progress: Progress = None) -> Outboard:
    """Writes the outboard of a file of any kind beside it. With the outboard and the pin that is returned, any range of the file can
    be checked alone, also when it is read from a URL.
    """
    file = local(path)
    if is_url(file):
        raise usage("an outboard is written beside a file of this machine; download the file first")
    return Outboard(*_modelfmt.outboard(file, overwrite, policy, callback(progress, "hashing")))


@checked()
def keygen(path: Path, key_type: KeyType) -> KeyPair:
    """Makes a key: writes the private half to ``path`` (PEM, PKCS#8, readable only by you), the public half to ``path`` + ``.pub``.

    ``p256``, ``p384`` and ``p521`` sign any file or folder; ``ed25519`` is for signatures inside APR2 files, and ``x25519`` for
    people who open encrypted ones. Neither file may exist.
    """
    private = local(path)
    public, id = _modelfmt.keygen(private, key_type)
    return KeyPair(private, public, id)


@checked()
def sign(
    path: Path,
    key: Key | Sequence[Key],
    *,
    overwrite: bool = False,
    allow_symlinks: bool = False,
    trust_mtime: bool = False,
    ignore: str | Sequence[str] = (),
    revision: int | None = None,
    identity: Key | Sequence[Key] | None = None,
    passphrase: str | bytes | None = None,
    raw_key: bytes | None = None,
    policy: Path | None = None,
    progress: Progress = None,
) -> Signed:
    """Signs a file or folder with a private key of P-256, P-384 or P-521: writes ``FILE.sig`` or ``FOLDER/model.sig``, an OpenSSF
    Model Signing bundle. It covers every file of the folder but those of git, the signature itself, and those that ``ignore`` names.
    ``trust_mtime`` does not read files again whose size and time are as the existing signature says. Use it only if nobody else can
    write to the files, because they could set the time too.

    An APR2 file is signed inside, by one or several Ed25519 keys, in addition to the signatures that it has. All of it is verified first. A
    ``revision`` can be chosen as long as nobody has signed. ``identity``, ``passphrase`` or ``raw_key`` opens an encrypted file that has
    no signature yet.

    A key is a path, or the PEM as ``bytes``.
    """
    file = local(path)
    if is_url(file):
        raise usage("only files of this machine are signed, and no URLs; download the file first")
    given = {
        "overwrite": overwrite,
        "allow_symlinks": allow_symlinks,
        "trust_mtime": trust_mtime,
        "ignore": [ignore] if isinstance(ignore, str) else list(ignore),
        "revision": revision,
    }
    opening = _opening.given({"identity": identity, "passphrase": passphrase, "raw_key": raw_key, "policy": policy})
    told = callback(progress, "signing")
    return Signed(**_modelfmt.sign(file, key, _said(given), opening, told))


def _said(options: dict[str, Any]) -> dict[str, Any]:
    """The options that are not at their defaults."""
    return {name: value for name, value in options.items() if not (value is None or value is False or value == [])}
