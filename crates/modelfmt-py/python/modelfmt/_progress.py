"""Who is told of progress."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Callback = Callable[[int, int], object]
#: A callback that is given the bytes that are done and those of the whole; ``True`` for a bar of tqdm.
Progress = Callback | bool | None


def callback(progress: Progress, what: str) -> Callback | None:
    """The callback that is meant."""
    if callable(progress):
        return progress
    return _bar(what) if progress else None


def _bar(what: str) -> Callback:
    try:
        from tqdm.auto import tqdm
    except ImportError:
        raise ModuleNotFoundError("progress=True takes tqdm, which is not installed: give a callback") from None
    bar: Any = tqdm(desc=what, unit="B", unit_scale=True)

    def tell(done: int, total: int) -> None:
        bar.total = total
        bar.update(done - bar.n)
        if done == total:
            bar.close()

    return tell
