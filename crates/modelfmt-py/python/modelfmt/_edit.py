"""Changes the metadata and names of a file without its values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import _modelfmt
from ._content import local
from ._errors import usage
from ._files import dumps
from ._keywords import checked
from ._opening import Key, Path, is_url
from ._progress import Progress, callback


@dataclass(frozen=True)
class Edited:
    """What an edit did, or would do if it was a ``dry_run``."""

    #: The file that was written or changed.
    path: str
    #: ``"in place"``, by a ``"new file"`` with the values copied, ``"written"`` anew, or ``"unchanged"``.
    how: str
    #: Its length in bytes.
    nbytes: int
    #: The numbers of metadata keys that were set and removed, and of tensors that were renamed and dropped.
    set: int = 0
    unset: int = 0
    renamed: int = 0
    dropped: int = 0
    notes: list[str] = field(default_factory=list)


@checked()
def edit(
    path: Path,
    *,
    set: Mapping[str, Any] | None = None,
    unset: str | Sequence[str] = (),
    metadata: Mapping[str, Any] | None = None,
    rename: Mapping[str, str] | None = None,
    drop: str | Sequence[str] = (),
    sign: Key | Sequence[Key] | None = None,
    revision: int | None = None,
    output: Path | None = None,
    overwrite: bool = False,
    dry_run: bool = False,
    policy: Path | None = None,
    progress: Progress = None,
) -> Edited:
    """Changes the metadata and the names of a file's tensors, without touching the values.

    If the values can stay where they are, the file is changed in place; otherwise a new file replaces it. With ``output`` the
    old file stays. A crash leaves the old file, the new one, or a journal from which the next edit restores the old file.

    ``set`` sets keys of the metadata, ``metadata`` sets all keys of an object, and ``unset`` removes keys, by patterns too. ``rename`` maps old
    names to new ones, where ``*`` stands for any text. ``drop`` removes tensors, by patterns.

    An edit removes the signatures inside an APR2 file, and leaves a signature beside a file as it is; ``notes`` say so. The private
    keys of ``sign`` sign the result: Ed25519 keys inside an APR2 file, with a ``revision`` that stays as it is if you give none; one
    P-256, P-384 or P-521 key beside a file of another format. What is to be signed is verified first.

    A ``dry_run`` does all of this and writes nothing, so that it raises what the edit would raise.
    """
    file, target = local(path), None if output is None else local(output)
    if is_url(file) or is_url(target):
        raise usage("only files of this machine are edited, and no URLs; download the file first")
    done = _modelfmt.edit(
        file,
        target,
        dumps(set or {}),
        [unset] if isinstance(unset, str) else list(unset),
        None if metadata is None else dumps(metadata),
        list((rename or {}).items()),
        [drop] if isinstance(drop, str) else list(drop),
        sign,
        revision,
        overwrite,
        dry_run,
        policy,
        callback(progress, "copying"),
    )
    return Edited(**done)

