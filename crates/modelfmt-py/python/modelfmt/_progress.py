"""Progress: callbacks, and bars of tqdm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Callback = Callable[[int, int], object]
#: A callback that gets the number of bytes done and the total; ``True`` for a tqdm bar.
Progress = Callback | bool | None


def callback(progress: Progress, what: str) -> Callback | None:
    """The callback for a ``progress=``."""
    if callable(progress):
        return progress
    return _bar(what) if progress else None


def _bar(what: str) -> Callback:
    try:
        from tqdm.auto import tqdm
    except ImportError:
        raise ModuleNotFoundError("progress=True needs tqdm, which is not installed: install it, or give a callback") from None
    bar: Any = tqdm(desc=what, unit="B", unit_scale=True)

    def tell(done: int, total: int) -> None:
        bar.total = total
        bar.update(done - bar.n)
        if done == total:
            bar.close()

    return tell
