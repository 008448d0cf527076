"""Compares the speed of the package with safetensors, gguf-py, ztensor and numpy. Each row runs both in turn; the result is the median of the ratios.

`cargo xtask bench --python` runs it over a release build, and puts the table into docs/PERFORMANCE.md with `--write`.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors
import safetensors.numpy

import modelfmt

Job = Callable[[], Any]


class Sizes(NamedTuple):
    many: int
    layers: int
    nbytes: int
    rounds: int


FULL = Sizes(many=100_000, layers=32, nbytes=8 << 20, rounds=15)
QUICK = Sizes(many=200, layers=3, nbytes=1 << 12, rounds=1)


class Row(NamedTuple):
    """What is measured: ours, theirs, whose they are, and how many times as fast ours is to be."""

    name: str
    other: str
    goal: float
    ours: Job
    theirs: Job
    same: Callable[[Any, Any], bool]
    #: How often each runs in a round.
    times: int = 1


def times(row: Row, rounds: int) -> tuple[list[float], list[float]]:
    """The times of ours and of the other's, in turn. The results are compared first."""
    ours, theirs = row.ours(), row.theirs()
    assert row.same(ours, theirs), row.name
    del ours, theirs
    taken: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for job, into in zip((row.ours, row.theirs), taken, strict=True):
            gc.collect()
            begin = time.perf_counter()
            for _ in range(row.times):
                result = job()
            into.append((time.perf_counter() - begin) / row.times)
            del result
    return taken


def line(row: Row, rounds: int) -> str:
    ours, theirs = times(row, rounds)
    ratios = sorted(their / our for our, their in zip(ours, theirs, strict=True))
    middle = statistics.median(ratios)
    cells = [
        row.name,
        row.other,
        shown(statistics.median(ours)),
        shown(statistics.median(theirs)),
        f"{middle:.2f} × ({ratios[0]:.2f} to {ratios[-1]:.2f})",
        f"≥ {row.goal:g} ×",
        "yes" if middle >= row.goal else "**no**",
    ]
    return f"| {' | '.join(cells)} |"


def shown(seconds: float) -> str:
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if seconds * factor >= 1 or unit == "µs":
            return f"{seconds * factor:.3g} {unit}"
    raise AssertionError


def equal(ours: dict[str, Any], theirs: dict[str, Any]) -> bool:
    return ours.keys() == theirs.keys() and all(np.array_equal(ours[name], theirs[name]) for name in ours)


def rows(folder: Path, sizes: Sizes) -> Iterator[Row | Memory]:
    many, many_gguf = str(folder / "many.safetensors"), str(folder / "many.gguf")
    small = {f"model.layers.{n}.weight": np.full(4, n, np.float32) for n in range(sizes.many)}
    modelfmt.save(small, many)
    modelfmt.save(small, many_gguf)
    names = list(small)
    open_ours = lambda: list(modelfmt.open(many))  # noqa: E731
    what = f"open and list {sizes.many:,} tensors"
    same_names = lambda a, b: sorted(a) == sorted(b)  # noqa: E731
    yield Row(what, "safetensors", 1, open_ours, lambda: list(safetensors.safe_open(many, "np").keys()), same_names)
    ztensor = imported("ztensor")
    if ztensor is not None:
        yield Row(what, "ztensor", 1, open_ours, lambda: list(ztensor.open(many)), same_names)
    gguf = gguf_reader()
    if gguf is not None:
        theirs = lambda: [tensor.name for tensor in gguf(many_gguf).tensors]  # noqa: E731
        yield Row(f"{what}, GGUF", "gguf-py", 50, lambda: list(modelfmt.open(many_gguf)), theirs, same_names)
    first = lambda: modelfmt.open(many)[names[0]]  # noqa: E731
    their_first = lambda: safetensors.safe_open(many, "np").get_tensor(names[0])  # noqa: E731
    yield Row(f"open, and the first of {sizes.many:,} tensors", "safetensors", 1, first, their_first, np.array_equal)
    load_small = lambda: modelfmt.load(many)  # noqa: E731
    yield Row(
        f"all of {sizes.many:,} tensors of 16 bytes", "safetensors", 1, load_small,
        lambda: safetensors.numpy.load_file(many), equal,
    )  # fmt: skip

    large = str(folder / "large.safetensors")
    random = np.random.default_rng(0)
    width = 1024
    shape = (max(1, sizes.nbytes // 4 // width), width)
    matrices = {f"layers.{n}.weight": random.standard_normal(shape, np.float32) for n in range(sizes.layers)}
    modelfmt.save(matrices, large)
    total = f"{sizes.layers * sizes.nbytes >> 20} MiB" if sizes is FULL else "few bytes"
    their_load = lambda: safetensors.numpy.load_file(large)  # noqa: E731
    yield Row(f"all tensors, {total}, copied", "safetensors", 1.3, lambda: modelfmt.load(large), their_load, equal)
    mapped = lambda: dict(modelfmt.open(large, mmap=True))  # noqa: E731
    yield Row(f"all tensors, {total}, without a copy", "safetensors", 10, mapped, their_load, equal)
    ztensor_numpy = imported("ztensor.numpy")
    if ztensor_numpy is not None:
        theirs_mapped = lambda: ztensor_numpy.load_file(large)  # noqa: E731
        yield Row(f"all tensors, {total}, without a copy", "ztensor", 1, mapped, theirs_mapped, equal)
    archive = str(folder / "large.npz")
    np.savez(archive, **matrices)
    yield Row(
        f"all arrays of an .npz, {total}, copied", "numpy", 1, lambda: modelfmt.load(archive),
        lambda: dict(np.load(archive)), equal,
    )  # fmt: skip
    rows_of = max(1, shape[0] // 100)
    name = next(iter(matrices))
    ours = modelfmt.open(large)
    theirs = safetensors.safe_open(large, "np")
    part = lambda: ours.tensor(name)[:rows_of].numpy()  # noqa: E731
    yield Row(
        "a slice of 1 % of a tensor, file open", "safetensors", 1, part,
        lambda: theirs.get_slice(name)[:rows_of], np.array_equal, times=200,
    )  # fmt: skip
    if HAS_PEAKS:
        yield memory(folder, sizes)


def torch_rows(folder: Path, sizes: Sizes) -> Iterator[Row | Memory]:
    import safetensors.torch
    import torch

    path = str(folder / "bf16.safetensors")
    shape = (max(1, sizes.nbytes // 2 // 1024), 1024)
    tensors = {f"layers.{n}.weight": torch.randn(shape).to(torch.bfloat16) for n in range(sizes.layers)}
    modelfmt.save(tensors, path)
    same = lambda a, b: a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)  # noqa: E731
    ours = lambda: modelfmt.load(path, framework="torch")  # noqa: E731
    # Their tensors are parts of a map. What we copy is compared with copies of those.
    cloned = lambda: {name: tensor.clone() for name, tensor in safetensors.torch.load_file(path).items()}  # noqa: E731
    yield Row("all tensors, bf16 to torch, copied", "safetensors, and clone", 1.3, ours, cloned, same)
    mapped = lambda: {tensor.name: tensor.torch() for tensor in modelfmt.open(path, mmap=True).tensors()}  # noqa: E731
    theirs = lambda: safetensors.torch.load_file(path)  # noqa: E731
    yield Row("all tensors, bf16 to torch, without a copy", "safetensors", 1, mapped, theirs, same)
    checkpoint = str(folder / "model.bin")
    torch.save(tensors, checkpoint)
    opened = lambda: modelfmt.load(checkpoint, framework="torch")  # noqa: E731
    safely = {"weights_only": True} if "weights_only" in torch.load.__code__.co_varnames else {}
    loaded = lambda: torch.load(checkpoint, map_location="cpu", **safely)  # noqa: E731
    yield Row("all tensors of a checkpoint, bf16 to torch, copied", "torch.load", 1, opened, loaded, same)
    if HAS_PEAKS:
        yield torch_memory(folder, sizes)


def imported(module: str) -> Any:
    """A module, or None if it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError:
        return None


def gguf_reader() -> Any:
    gguf = imported("gguf")
    return None if gguf is None else gguf.GGUFReader


class Memory(NamedTuple):
    """The memory that a process of its own takes for an expression, beyond what it took before: ours, and the other's."""

    name: str
    other: str
    #: The import and the expression of each side.
    ours: tuple[str, str]
    theirs: tuple[str, str]
    #: The size of the result in bytes.
    nbytes: int


def memory(folder: Path, sizes: Sizes) -> Memory:
    path = str(folder / "large.safetensors")
    ours = ("modelfmt", f"modelfmt.load({path!r})")
    theirs = ("safetensors.numpy", f"safetensors.numpy.load_file({path!r})")
    return Memory(f"{PEAK}, numpy", "safetensors", ours, theirs, sizes.layers * sizes.nbytes)


def torch_memory(folder: Path, sizes: Sizes) -> Memory:
    path = str(folder / "bf16.safetensors")
    ours = ("modelfmt, torch", f"modelfmt.load({path!r}, framework='torch')")
    theirs = ("safetensors.torch", f"{{n: t.clone() for n, t in safetensors.torch.load_file({path!r}).items()}}")
    return Memory(f"{PEAK}, bf16 to torch", "safetensors, and clone", ours, theirs, sizes.layers * sizes.nbytes)


PEAK = "peak of the resident memory while all tensors are loaded and copied"
#: The memory that may be used in addition to the tensors, in MiB.
BEYOND = 64

#: Linux reports the peak of a process.
HAS_PEAKS = Path("/proc/self/status").exists()

# VmHWM instead of ru_maxrss, because a process starts with the ru_maxrss of its parent.
SCRIPT = """
import numpy, {module}
def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))
before = peak()
loaded = {expression}
print(peak() - before)
"""


def memory_line(row: Memory, runs: int) -> str:
    ours, theirs = (statistics.median(peak(*job) for _ in range(runs)) for job in (row.ours, row.theirs))
    nbytes = row.nbytes / 2**20
    # The kernel's counters lag behind by a few pages for each thread.
    if min(ours, theirs) < nbytes - 2:
        raise AssertionError(f"{row.name}: {nbytes:.0f} MiB were loaded into {ours:.1f} and {theirs:.1f} MiB")
    cells = [
        row.name,
        row.other,
        f"{ours:.0f} MiB",
        f"{theirs:.0f} MiB",
        f"{theirs / max(ours, 0.01):.2f} × ({ours - nbytes:.0f} MiB beyond the tensors)",
        f"≥ 1 ×, and ≤ {BEYOND} MiB beyond",
        "yes" if ours <= theirs and ours - nbytes <= BEYOND else "**no**",
    ]
    return f"| {' | '.join(cells)} |"


def peak(module: str, expression: str) -> float:
    """The memory in MiB."""
    code = SCRIPT.format(module=module, expression=expression)
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return int(done.stdout) / 1024


HEAD = """| work | beside | ours | theirs | ours is better by | goal | reached |
| --- | --- | --- | --- | --- | --- | --- |
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="tiny sizes and one round: that the measurements work")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--torch", action="store_true", help="the rows with torch, and no others")
    parser.add_argument("--only", default="", help="rows whose names contain this")
    parser.add_argument("--table", type=Path, help="where the lines of the table go, without its head")
    args = parser.parse_args()
    sizes = QUICK if args.quick else FULL
    rounds = args.rounds or sizes.rounds
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    print(f"{os.cpu_count()} cores, load {load}; modelfmt {modelfmt.__version__}, safetensors {safetensors.__version__}")
    print(HEAD, end="")
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for row in (torch_rows if args.torch else rows)(Path(folder), sizes):
            if args.only in row.name:
                lines.append(memory_line(row, min(rounds, 3)) if isinstance(row, Memory) else line(row, rounds))
                print(lines[-1], flush=True)
    if args.table:
        args.table.write_text("".join(f"{one}\n" for one in lines))


if __name__ == "__main__":
    main()
