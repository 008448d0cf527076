"""The Rust half of the package, which the Python half calls. This module is no interface."""

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any, final

# PyO3 makes it.
__all__ = [
    "Memory",
    "Model",
    "Plan",
    "Storage",
    "__version__",
    "abort_uploads",
    "block",
    "cast",
    "cast_of",
    "check",
    "convert",
    "convert_options",
    "decode",
    "diff",
    "edit",
    "fetch",
    "format_of_name",
    "formats",
    "keygen",
    "outboard",
    "program",
    "prove",
    "recover",
    "refuse_existing",
    "report",
    "save",
    "sign",
    "unfit",
    "verify",
    "write_oinf",
]

__version__: str

_Progress = Callable[[int, int], object] | None
_Path = str | PathLike[str]

@final
class Memory:
    @staticmethod
    def copy_of(bytes: Any) -> Memory: ...
    @property
    def nbytes(self) -> int: ...
    def tobytes(self) -> bytes: ...
    def dlpack(self, code: int, bits: int, shape: Sequence[int], version: int) -> object: ...

@final
class Storage:
    @staticmethod
    def temporary(folder: _Path) -> Storage: ...
    @staticmethod
    def of_descriptor(descriptor: int) -> Storage: ...
    def write(self, bytes: Any) -> tuple[int, int]: ...

@final
class Model:
    @staticmethod
    def open(path: _Path, mmap: bool, verify: bool, given: dict[str, Any]) -> Model: ...
    @staticmethod
    def of_content(name: str, content: Any, verify: bool, given: dict[str, Any]) -> Model: ...
    @staticmethod
    def of_storage(name: str, storage: Storage, mmap: bool, verify: bool, given: dict[str, Any]) -> Model: ...
    @staticmethod
    def merged(models: Sequence[Model], include: list[str], exclude: list[str]) -> Model: ...
    def __len__(self) -> int: ...
    @property
    def format(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def is_encrypted(self) -> bool: ...
    def pins(self) -> list[str]: ...
    @property
    def version(self) -> str | None: ...
    @property
    def file_size(self) -> int: ...
    def names(self) -> list[str]: ...
    def first(self, count: int) -> list[tuple[str, str, list[int]]]: ...
    def matching(self, patterns: Sequence[str]) -> list[int]: ...
    def position(self, name: str) -> int | None: ...
    def find(self, name: str) -> int: ...
    def found(self, name: str) -> tuple[int, str, tuple[int, ...], int]: ...
    def info(self, position: int) -> tuple[str, str, list[int], int, bool]: ...
    def location(self, position: int) -> tuple[str | None, int | None, int, str]: ...
    def quant(self, position: int) -> str | None: ...
    def metadata(self) -> str: ...
    def details(self) -> str: ...
    def values(self, position: int) -> Memory: ...
    def rows(self, position: int, rows: slice) -> tuple[Memory, tuple[int, ...], int] | None: ...
    def gather(self, position: int, ranges: Sequence[tuple[int, int]]) -> Memory: ...
    def plan(self, names: Sequence[str]) -> str: ...
    def load(
        self, positions: Sequence[int], verify: bool, threads: int | None, progress: _Progress
    ) -> tuple[list[Memory], list[str]]: ...
    def verify(self, level: str, threads: int | None, progress: _Progress) -> str: ...
    def inspect(
        self, hash: bool, tensors: Sequence[str] | None, threads: int | None, progress: _Progress
    ) -> str: ...
    def bom(
        self, spec: str, tensors: bool, epoch: str | None, threads: int | None, progress: _Progress
    ) -> str: ...
    def stats(self, position: int, threads: int | None) -> dict[str, Any]: ...
    def show(self, names: Sequence[str], threads: int | None) -> str: ...

@final
class Plan:
    def __new__(
        cls, model: Model, path: _Path, format: str, given: dict[str, Any], opening: dict[str, Any]
    ) -> Plan: ...
    def describe(self) -> tuple[str, str, list[tuple[str, int, int]]]: ...
    def begin(self) -> None: ...
    def write(self, number: int, nbytes: int, threads: int | None, progress: _Progress) -> str: ...
    def finish(self, receipts: Sequence[str], threads: int | None, progress: _Progress) -> dict[str, Any]: ...

def program(args: Sequence[str]) -> int: ...
def convert(
    model: Model,
    path: _Path,
    format: str,
    given: dict[str, Any],
    opening: dict[str, Any],
    dry_run: bool,
    threads: int | None,
    progress: _Progress,
) -> dict[str, Any]: ...
def save(
    path: _Path,
    format: str,
    tensors: Sequence[tuple[str, str, Sequence[int], Any]],
    storage: Storage | None,
    metadata: str,
    given: dict[str, Any],
    opening: dict[str, Any],
    threads: int | None,
    progress: _Progress,
) -> None: ...
def unfit(format: str, name: str, dtype: str, rank: int) -> tuple[str, str, str | None, bool] | None: ...
def refuse_existing(path: _Path) -> None: ...
def decode(dtype: str, shape: Sequence[int], bytes: Any) -> Memory: ...
def cast(name: str, dtype: str, shape: Sequence[int], bytes: Any, to: str) -> Memory: ...
def cast_of(name: str, dtype: str, shape: Sequence[int], to: str) -> tuple[str, int]: ...
def block(dtype: str) -> tuple[int, int] | None: ...
def verify(
    path: _Path,
    level: str,
    given: dict[str, Any],
    allow_symlinks: bool,
    threads: int | None,
    progress: _Progress,
) -> str: ...
def check(model: Model, threads: int | None, progress: _Progress) -> str: ...
def diff(
    a: Model,
    b: Model,
    norms: bool,
    tolerance: float | None,
    ignore_metadata: bool,
    ignore_dtype: bool,
    threads: int | None,
    progress: _Progress,
) -> str: ...
def report(
    model: Model,
    other: Model | None,
    out: _Path | None,
    overwrite: bool,
    threads: int | None,
    progress: _Progress,
) -> tuple[str, bool]: ...
def prove(
    base: Model,
    derived: Model,
    map: str | None,
    pre: str | None,
    lora: Sequence[str],
    imatrix: str | None,
    complete: bool,
    allow_added: Sequence[str],
    allow_changed: Sequence[str],
    threads: int | None,
    progress: _Progress,
) -> str: ...
def edit(
    path: _Path,
    output: _Path | None,
    set: str,
    unset: Sequence[str],
    metadata: str | None,
    rename: Sequence[tuple[str, str]],
    drop: Sequence[str],
    sign: _Path | bytes | Sequence[_Path | bytes] | None,
    revision: int | None,
    overwrite: bool,
    dry_run: bool,
    policy: _Path | None,
    progress: _Progress,
) -> dict[str, Any]: ...
def recover(path: _Path) -> bool: ...
def abort_uploads() -> None: ...
def fetch(
    urls: Sequence[str],
    out: _Path,
    pin: str | None,
    overwrite: bool,
    include: Sequence[str],
    exclude: Sequence[str],
    given: dict[str, Any],
    threads: int | None,
    progress: _Progress,
) -> dict[str, Any]: ...
def outboard(path: _Path, overwrite: bool, policy: _Path | None, progress: _Progress) -> tuple[str, str, int]: ...
def sign(
    path: _Path,
    keys: _Path | bytes | Sequence[_Path | bytes],
    given: dict[str, Any],
    opening: dict[str, Any],
    progress: _Progress,
) -> dict[str, Any]: ...
def keygen(path: _Path, key_type: str) -> tuple[str, str]: ...
def formats() -> list[tuple[str, str | None, bool]]: ...
def convert_options() -> list[tuple[str, str, list[str]]]: ...
def format_of_name(name: str) -> str | None: ...
def write_oinf(
    path: _Path,
    sizevars: Sequence[tuple[str, int]],
    metadata: Sequence[tuple[str, str, Any]],
    tensors: Sequence[tuple[str, str, Sequence[int], Any | None]],
) -> None: ...
