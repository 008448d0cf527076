"""Encryption: conversions into and out of sealed APR2 files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from ._errors import usage
from ._files import Converted, convert
from ._keywords import checked
from ._model import Model, opened
from ._opening import Content, Key, Opening, Path
from ._progress import Progress
from ._sealing import Seal


@checked()
def seal(
    source: Path | Content | Model,
    path: Path,
    *,
    recipients: Key | Sequence[Key] | None = None,
    passphrase: str | bytes | None = None,
    raw_key: bytes | None = None,
    key_id: str | None = None,
    hide_index: bool = False,
    sign: Key | Sequence[Key] | None = None,
    revision: int | None = None,
    shard_size: int | None = None,
    lossy: bool = False,
    overwrite: bool = False,
    threads: int | None = None,
    progress: Progress = None,
) -> Converted:
    """Encrypts a model of any format into an APR2 file. If the source is encrypted itself, pass it as an open model. For other
    options of a conversion, :func:`convert` takes ``seal=Seal(…)``.
    """
    how = Seal(recipients, passphrase, raw_key, key_id, hide_index)
    return convert(
        source,
        path,
        "apr2",
        seal=how,
        sign=sign,
        revision=revision,
        shard_size=shard_size,
        lossy=lossy,
        overwrite=overwrite,
        threads=threads,
        progress=progress,
    )


@checked(*Opening.__annotations__)
def unseal(
    source: Path | Content | Model,
    path: Path,
    format: str | None = None,
    *,
    lossy: bool = False,
    overwrite: bool = False,
    threads: int | None = None,
    progress: Progress = None,
    **opening: Unpack[Opening],
) -> Converted:
    """Decrypts a model and writes it in any format. ``identity``, ``passphrase`` or ``raw_key`` opens it."""
    model = opened(source, opening)
    if not model.is_encrypted:
        raise usage(f"{model.path or 'the content'} is not encrypted; modelfmt.convert writes it in another format")
    return convert(model, path, format, lossy=lossy, overwrite=overwrite, threads=threads, progress=progress)
