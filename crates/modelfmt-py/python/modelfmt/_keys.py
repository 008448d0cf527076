"""Keys and signatures."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from . import _modelfmt
from ._errors import usage
from ._opening import Key, Path, is_url
from ._progress import Progress, callback

KeyType = Literal["ed25519", "x25519", "p256", "p384", "p521"]


@dataclass(frozen=True)
class KeyPair:
    """A key that was made."""

    #: The private key, which only you may read.
    private: str
    #: The public key, for everybody who verifies.
    public: str
    #: The id of the public key.
    id: str


@dataclass(frozen=True)
class Signed:
    """A signature that was made."""

    #: Its file.
    path: str
    #: The id of the key.
    key_id: str
    #: The number of files that it is of, and their size together.
    files: int
    nbytes: int


def keygen(path: Path, key_type: KeyType) -> KeyPair:
    """Makes a key: writes the private half to ``path`` (PEM, PKCS#8, readable only by you), the public half to ``path`` + ``.pub``.

    ``p256``, ``p384`` and ``p521`` sign any file or folder; ``ed25519`` is for signatures inside APR2 files, and ``x25519`` for
    people who open encrypted ones. Neither file may exist.
    """
    public, id = _modelfmt.keygen(os.fspath(path), key_type)
    return KeyPair(os.fspath(path), public, id)


def sign(
    path: Path,
    key: Key,
    *,
    overwrite: bool = False,
    allow_symlinks: bool = False,
    trust_mtime: bool = False,
    ignore: str | Sequence[str] = (),
    progress: Progress = None,
) -> Signed:
    """Signs a file or folder with a private key of P-256, P-384 or P-521: writes ``FILE.sig`` or ``FOLDER/model.sig``, an OpenSSF
    Model Signing bundle. It covers every file of the folder but those of git, the signature itself, and those that ``ignore`` names.

    ``key`` is a path, or the PEM as ``bytes``. ``trust_mtime`` does not read files again whose size and time are as
    the existing signature says. Use it only if nobody else can write to the files, because they could set the time too.
    """
    if is_url(path):
        raise usage("files of this machine are signed; download the file first")
    ignored = [ignore] if isinstance(ignore, str) else list(ignore)
    told = callback(progress, "hashing")
    done = _modelfmt.sign(os.fspath(path), key, overwrite, allow_symlinks, trust_mtime, ignored, told)
    return Signed(**done)
