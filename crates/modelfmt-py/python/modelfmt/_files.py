"""Whole files: convert, save, verify, inspect, compare."""

from __future__ import annotations

import json
import os
import tempfile
import urllib.parse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Unpack
from typing import cast as typed

from . import _content, _given, _modelfmt, _opening, _outputs
from ._errors import usage
from ._keywords import checked, names_of
from ._model import Level, Model, Spec, json_object, opened
from ._opening import Content, Key, Opening, Path, Requests
from ._outputs import Output
from ._progress import Progress, callback
from ._report import Report
from ._sealing import Seal, sealing

Rules = str | Mapping[str, str] | Sequence[str]
#: Adapters (LoRA): a path or several, each as ``PATH`` or ``PATH=SCALE``, or a mapping of paths to scales.
Adapters = Path | Sequence[Path] | Mapping[Any, float]


@dataclass(frozen=True)
class Converted:
    """What a conversion did, or would do if it was a ``dry_run``."""

    format: str
    tensors: int
    #: The files that were written, with their sizes in bytes.
    files: list[tuple[str, int]]
    #: The tensors that got another type: name, old and new type.
    changed: list[tuple[str, str, str]]
    #: Notes, such as which names changed.
    notes: list[str]
    #: Possible mistakes, one per line: rules without an effect, the share of values that a cast did not keep.
    warnings: list[str]
    #: Tensors some of whose values became infinite or the end of the range of their new type, or many of
    #: whose values became 0.
    clipped: list[str]
    #: Metadata that was dropped, because ``lossy`` allowed it.
    dropped: list[str]
    #: For a dry run, the total size that the tensors would have, in bytes.
    nbytes: int | None = None
    #: For a dry run, how each tensor would be made: ``programs`` of ``modelfmt convert --dry-run --json``.
    programs: list[dict[str, Any]] | None = None
    #: For a dry run, the names of tensors that would not be used.
    left_out: list[str] | None = None


@checked(*Opening.__annotations__)
def convert(
    source: Path | Content | Model | Sequence[Path | Model],
    path: Output,
    format: str | None = None,
    *,
    widen: bool = False,
    cast: Rules = (),
    dequantize: Rules = (),
    quantize: Rules = (),
    rules: Sequence[str] = (),
    imatrix: Path | None = None,
    scales: Mapping[str, str] | None = None,
    include: str | Sequence[str] = (),
    exclude: str | Sequence[str] = (),
    rename: Mapping[str, str] | None = None,
    allow_ties: bool = False,
    map: Path | None = None,
    lora: Adapters = (),
    base: Path | None = None,
    pre: str | None = None,
    dedupe: bool = False,
    lossy: bool = False,
    stringify: bool = False,
    metadata: Mapping[str, Any] | None = None,
    model_name: str | None = None,
    architecture: str | None = None,
    model_type: str | None = None,
    sizevars: Mapping[str, int] | None = None,
    declare: Mapping[str, tuple[str, Sequence[int]]] | None = None,
    shard_size: int | None = None,
    shards: int | None = None,
    control_hash: bool = False,
    page_hashes: int | None = None,
    tensor_hashes: bool = False,
    uuid: bytes | None = None,
    no_zstd: bool = False,
    compress: str | None = None,
    align: int | None = None,
    checksum: str | None = None,
    allow_extended_types: bool = False,
    reserve: int | None = None,
    outboard: bool = False,
    sign: Key | Sequence[Key] | None = None,
    revision: int | None = None,
    seal: Seal | None = None,
    verify: bool = True,
    overwrite: bool = False,
    dry_run: bool = False,
    threads: int | None = None,
    progress: Progress = None,
    **opening: Unpack[Opening],
) -> Converted:
    """Converts a model to another format, losing nothing silently. The keywords are the options of ``modelfmt convert``, and those
    of :func:`open`. Source and ``path`` may be URLs; ``path`` can be in a bucket: ``s3://``, ``gs://`` or ``az://``.

    A list of models becomes one: the tensors of each follow those of the one before, and no two may have the same name.

    The file extension of ``path`` chooses the format, or ``format`` does, which may name a version: ``"mag@0.3"``. If something
    does not fit, an :class:`UnsupportedError` is raised, whose ``remedies`` are keywords of this function.

    ``rename`` maps old names of tensors to new ones; ``*`` stands for any text. ``cast``, ``dequantize`` and ``quantize``
    take a type for all tensors, or a mapping of patterns to types: ``cast={"*.weight": "f16"}``. For each tensor the last rule that
    matches decides. Those for all tensors count as first, then those with patterns, ``cast`` before ``dequantize`` before ``quantize``.
    ``rules`` is a list in an order of your own, and comes after them: ``rules=["quantize q4_k", "cast *embed*=f16"]``.

    A folder of the hub with a ``config.json`` becomes a GGUF that llama.cpp loads: ``map`` is the name of a family or the path of a
    map instead of the one for its ``model_type``, or ``"none"`` for names as they are; ``pre`` is llama.cpp's name of the
    pre-tokenizer, where ``tokenizer.json`` does not tell it. With ``format="hf"`` a GGUF becomes such a folder, at ``path``, again: the
    weights as safetensors, ``config.json`` and the files of the tokenizer, each as it was. What a GGUF of others does not say exactly
    is an :class:`UnsupportedError`, unless ``lossy`` takes the best that follows from it.

    Values are checked against the hashes and checksums of their file, unless ``verify`` is false.

    An APR2 file is signed by the private keys of ``sign`` (Ed25519), with a ``revision`` that readers can demand as the lowest,
    and encrypted as ``seal`` says.
    """
    given = conversion(locals())
    model = _merged(source, opening, verify, given["include"], given["exclude"])
    told = callback(progress, "converting")
    requests = _opening.requests(opening)
    with _outputs.target(path, format, overwrite, is_dry=dry_run) as target:
        name = format_of(format, target.path)
        done = _modelfmt.convert(model, target.path, name, given, requests, dry_run, threads, told)
    if target.name is not None and not dry_run:
        done["files"] = [(target.name, nbytes) for _, nbytes in done["files"]]
    if dry_run:
        return Converted(
            done["format"],
            len(model),
            [],
            done["changed"],
            [],
            done["warnings"],
            [],
            [],
            done["nbytes"],
            done["programs"],
            done["left_out"],
        )
    return Converted(**done)


def _merged(
    source: Path | Content | Model | Sequence[Path | Model],
    opening: Opening,
    verify: bool,
    include: list[str],
    exclude: list[str],
) -> _modelfmt.Model:
    if isinstance(source, (list, tuple)):
        models = [opened(one, opening, verify=verify).native() for one in source]
        return _modelfmt.Model.merged(models, include, exclude)
    return opened(typed("Path | Content | Model", source), opening, verify=verify).native()


@checked(*names_of(convert))
def select(
    source: Path | Content | Model | Sequence[Path | Model],
    path: Output,
    include: str | Sequence[str],
    format: str | None = None,
    **options: Any,
) -> Converted:
    """Writes the tensors whose names match one of the patterns into a file of their own, with the metadata of the model.

    >>> modelfmt.select("model.safetensors", "norms.safetensors", "*norm*")

    The keywords are those of :func:`convert`; ``exclude`` leaves out some of what ``include`` matches.
    """
    if not include:
        raise usage("select takes a pattern of names, or several")
    return convert(source, path, format, include=include, **options)


@checked(*(name for name in names_of(convert) if name != "lora"))
def merge(
    source: Path | Content | Model | Sequence[Path | Model],
    adapters: Adapters,
    path: Output,
    format: str | None = None,
    **options: Any,
) -> Converted:
    """Merges adapters (LoRA) into a model: folders of PEFT, or GGUF files of llama.cpp.

    >>> modelfmt.merge("base/", "adapter/", "merged.safetensors")
    >>> modelfmt.merge("base/", {"adapter/": 0.5}, "merged.gguf", quantize="q8_0")

    Sums are of f32, and rounded once to the types of the model. The keywords are those of :func:`convert`.
    """
    if not adapters:
        raise usage("merge takes an adapter, or several")
    return convert(source, path, format, lora=adapters, **options)


def conversion(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a conversion among all given keywords, as the library takes them."""

    def of(name: str, empty: Any) -> Any:
        value = given.get(name)
        return empty if value is None else value

    metadata = given.get("metadata")
    return {
        **{name: given.get(name) for name in _PLAIN},
        **{name: _rules(of(name, ())) for name in ("cast", "dequantize", "quantize")},
        **{name: _list(of(name, ())) for name in ("include", "exclude", "rules")},
        "lora": adapters(of("lora", ())),
        "scales": [f"{weight}={scale}" for weight, scale in of("scales", {}).items()],
        "rename": list(of("rename", {}).items()),
        "declare": [(name, dtype, list(shape)) for name, (dtype, shape) in of("declare", {}).items()],
        "metadata": None if metadata is None else dumps(metadata),
        **{name: None if given.get(name) is None else _content.path_of(given[name]) for name in ("map", "base", "imatrix")},
        "seal": sealing(given.get("seal"), given.get("sign"), given.get("revision")),
        **_layout(given),
    }


_PLAIN = (
    "widen",
    "allow_ties",
    "dedupe",
    "lossy",
    "stringify",
    "pre",
    "allow_extended_types",
    "reserve",
    "outboard",
    "shards",
    "verify",
)

_LAYOUT = (
    "model_name",
    "architecture",
    "model_type",
    "shard_size",
    "control_hash",
    "page_hashes",
    "tensor_hashes",
    "uuid",
    "no_zstd",
    "compress",
    "align",
    "checksum",
    "overwrite",
)


def _layout(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of the file that is written, among all given keywords."""
    return {
        **{name: given.get(name) for name in _LAYOUT},
        "sizevars": list((given.get("sizevars") or {}).items()),
    }


@checked(*Requests.__annotations__)
def save(
    tensors: Mapping[str, Any] | Iterable[tuple[str, Any]],
    path: Output,
    format: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    *,
    model_name: str | None = None,
    architecture: str | None = None,
    model_type: str | None = None,
    sizevars: Mapping[str, int] | None = None,
    shard_size: int | None = None,
    control_hash: bool = False,
    page_hashes: int | None = None,
    tensor_hashes: bool = False,
    uuid: bytes | None = None,
    no_zstd: bool = False,
    compress: str | None = None,
    align: int | None = None,
    checksum: str | None = None,
    stringify: bool = False,
    overwrite: bool = False,
    threads: int | None = None,
    progress: Progress = None,
    **requests: Unpack[Requests],
) -> None:
    """Writes tensors to a file: arrays of numpy and torch, :class:`Tensor`, and anything with DLPack or the array interface. ``path``
    may be the URL of an object in a bucket: ``s3://``, ``gs://`` or ``az://``.

    The file extension of ``path`` chooses the format, or ``format`` does. The file appears when it is complete. One that exists is
    replaced only with ``overwrite``. A mapping or a list is written straight from its memory. The tensors of an iterator are taken
    one at a time, and their bytes wait in a temporary file until all are there: beside the target, or for a bucket in the folder for
    temporary files. So memory holds two of them at most, the one that is written and the one that the iterator makes.

    ``stringify`` turns metadata that the format can hold only as text (safetensors) into JSON text.
    """
    text = dumps(metadata or {})
    given = {**_layout(locals()), "stringify": stringify}
    told = callback(progress, "saving")
    opening = _opening.requests(requests)
    with _outputs.target(path, format, overwrite) as target:
        name = format_of(format, target.path)
        if not (overwrite or shard_size or _opening.is_url(target.path)):
            # Checked before an iterator makes its tensors, which may take long. The write checks again.
            _modelfmt.refuse_existing(target.path)
        is_far = _opening.is_url(target.path)
        folder = tempfile.gettempdir() if is_far else os.path.dirname(target.path) or "."
        pairs: Any
        if isinstance(tensors, Model):
            pairs = [(tensor.name, tensor) for tensor in tensors.tensors()]
        else:
            pairs = _given.pairs(tensors)
        ready = _given.prepared(pairs, name, folder)
        _modelfmt.save(target.path, name, ready.tensors, ready.storage, text, given, opening, threads, told)


@checked(*Opening.__annotations__)
def verify(
    path: Path | Content | Model,
    level: Level = "full",
    *,
    allow_symlinks: bool = False,
    threads: int | None = None,
    progress: Progress = None,
    **opening: Unpack[Opening],
) -> dict[str, Any]:
    """What verification finds, as ``modelfmt verify --json`` prints it. A file that cannot be opened is reported, too.

    With ``keys``, an APR2 file must be signed by them; any other file or folder, model or not, is verified by the signature beside
    it. ``allow_symlinks`` follows symbolic links to files, if the signer did so too.
    """
    if isinstance(path, Model):
        return opened(path, opening).verify(level, threads=threads, progress=progress)
    place = _content.place_of(path)
    if not isinstance(place, str):
        return Model(place, verify=False, **opening).verify(level, threads=threads, progress=progress)
    given = _opening.given(opening)
    told = callback(progress, "verifying")
    report = _modelfmt.verify(place, level, given, allow_symlinks, threads, told)
    return json_object(report)


@checked(*Opening.__annotations__)
def check(
    path: Path | Content | Model,
    *,
    threads: int | None = None,
    progress: Progress = None,
    **opening: Unpack[Opening],
) -> dict[str, Any]:
    """What is wrong with the values: :meth:`Model.check`."""
    return opened(path, opening).check(threads=threads, progress=progress)


@checked(*Opening.__annotations__)
def inspect(
    path: Path | Content | Model,
    *,
    hash: bool = False,
    tensors: str | list[str] | None = None,
    **opening: Unpack[Opening],
) -> dict[str, Any]:
    """What ``modelfmt inspect --json`` prints."""
    return opened(path, opening).inspect(hash=hash, tensors=tensors)


@checked()
def diff(
    a: Path | Content | Model,
    b: Path | Content | Model,
    *,
    norms: bool = False,
    tolerance: float | None = None,
    ignore_metadata: bool = False,
    ignore_dtype: bool = False,
    threads: int | None = None,
    progress: Progress = None,
) -> dict[str, Any]:
    """What differs between two models, as ``modelfmt diff --json`` prints it.

    ``norms`` adds how much each changed tensor differs overall: ``rmse``, ``cosine`` and ``rel_norm``; the tensors that changed
    most come first. Values that differ by no more than ``tolerance`` count as the same. ``ignore_dtype`` compares values across
    types. To open one of the two with a pin or keys, pass the open model.
    """
    first, second = opened(a, {}).native(), opened(b, {}).native()
    told = callback(progress, "comparing")
    report = _modelfmt.diff(first, second, norms, tolerance, ignore_metadata, ignore_dtype, threads, told)
    return json_object(report)


@checked()
def prove(
    base: Path | Content | Model,
    derived: Path | Content | Model,
    *,
    map: Path | None = None,
    pre: str | None = None,
    lora: Adapters = (),
    imatrix: Path | None = None,
    complete: bool = False,
    allow_added: str | Sequence[str] = (),
    allow_changed: str | Sequence[str] = (),
    threads: int | None = None,
    progress: Progress = None,
) -> dict[str, Any]:
    """Whether one model is made of another and of nothing else, as ``modelfmt prove --json`` prints it: ``ok``, ``tensors`` and
    ``metadata``.

    The tensors of ``derived`` are derived from ``base`` again and compared. ``map``, ``pre``, ``lora`` and ``imatrix`` are
    those of :func:`convert`. ``complete`` demands everything of ``base``; the patterns ``allow_added`` and ``allow_changed`` excuse names of
    tensors and keys. To open one of the two with a pin or keys, pass the open model.
    """
    first, second = opened(base, {}).native(), opened(derived, {}).native()
    chosen, matrix = (None if path is None else _content.path_of(path) for path in (map, imatrix))
    excused = _list(allow_added), _list(allow_changed)
    told = callback(progress, "proving")
    proof = _modelfmt.prove(first, second, chosen, pre, adapters(lora), matrix, complete, *excused, threads, told)
    return json_object(proof)


@checked(*Opening.__annotations__)
def report(
    path: Path | Content | Model,
    other: Path | Content | Model | None = None,
    *,
    out: Path | None = None,
    overwrite: bool = False,
    threads: int | None = None,
    progress: Progress = None,
    **opening: Unpack[Opening],
) -> Report:
    """A page about a model, or about two and how they differ: :meth:`Model.report`."""
    model = opened(path, opening)
    return model.report(other, out=out, overwrite=overwrite, threads=threads, progress=progress)


@checked(*Opening.__annotations__)
def bom(
    path: Path | Content | Model,
    *,
    spec: Spec = "cyclonedx",
    tensors: bool = False,
    threads: int | None = None,
    progress: Progress = None,
    **opening: Unpack[Opening],
) -> str:
    """A bill of materials: :meth:`Model.bom`."""
    return opened(path, opening).bom(spec=spec, tensors=tensors, threads=threads, progress=progress)


@checked(*Opening.__annotations__)
def stats(
    path: Path | Content | Model, name: str, *, threads: int | None = None, **opening: Unpack[Opening]
) -> dict[str, Any]:
    """Statistics of a tensor's values: :meth:`Model.stats`."""
    return opened(path, opening).stats(name, threads=threads)


@checked(*Opening.__annotations__)
def show(path: Path | Content | Model, *names: str, **opening: Unpack[Opening]) -> str:
    """What ``modelfmt show`` prints."""
    return opened(path, opening).show(*names)


@checked(*Opening.__annotations__)
def plan(path: Path | Content | Model, *names: str, **opening: Unpack[Opening]) -> dict[str, Any]:
    """Which ranges of which files have to be read for some tensors: :meth:`Model.plan`."""
    return opened(path, opening).plan(*names)


@checked()
def formats() -> dict[str, str | None]:
    """The formats that are written, each with its file extension."""
    return {name: ending for name, ending, is_written in _modelfmt.formats() if is_written}


def format_of(format: str | None, path: Path) -> str:
    if format is not None:
        return format
    path = _content.path_of(path)
    name = os.path.basename(urllib.parse.urlsplit(path).path if _opening.is_url(path) else path)
    found = _modelfmt.format_of_name(name)
    if found is None:
        raise usage(f"the extension of {name!r} names no format that is written: give format=")
    return found


def _rules(rules: Rules) -> list[str]:
    if isinstance(rules, str):
        return [rules]
    if isinstance(rules, Mapping):
        return [f"{pattern}={dtype}" for pattern, dtype in rules.items()]
    return list(rules)


def adapters(given: Adapters) -> list[str]:
    """Adapters as the program takes them."""
    if isinstance(given, Mapping):
        return [f"{_content.path_of(path)}={scale}" for path, scale in given.items()]
    listed = [given] if isinstance(given, (str, os.PathLike)) else given
    return [_content.path_of(path) for path in listed]


def _list(texts: str | Sequence[str]) -> list[str]:
    return [texts] if isinstance(texts, str) else list(texts)


def dumps(metadata: Mapping[str, Any]) -> str:
    """Text of JSON, or an error that says what it cannot hold."""
    try:
        return json.dumps(dict(metadata), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise usage(f"metadata has to be what JSON can hold: {error}") from None
