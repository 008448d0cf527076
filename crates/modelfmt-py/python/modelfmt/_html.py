"""Models as notebooks show them."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._model import Model

# How much is shown, so that a large model takes little time.
_ROWS = 100
_HISTOGRAMS = 20
_ELEMENTS = 1 << 20


def table(model: Model) -> str:
    """The tensors in a table, with histograms of the first ones that are small."""
    rows = []
    histograms = 0
    count = len(model)
    for number, tensor in enumerate(model.tensors()):
        if number == _ROWS:
            rows.append(f'<tr><td colspan="5">… and {count - _ROWS:,} more</td></tr>')
            break
        picture = ""
        if histograms < _HISTOGRAMS and 1 < tensor.size <= _ELEMENTS and model.info(tensor.name).has_data:
            picture = _histogram(model, tensor.name)
            histograms += 1
        shape = " × ".join(map(str, tensor.shape)) or "scalar"
        cells = (html.escape(tensor.name), tensor.dtype, shape, f"{tensor.nbytes:,}")
        rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + f"<td>{picture}</td></tr>")
    where = html.escape(model.path or "from content")
    head = "".join(f"<th>{name}</th>" for name in ("name", "dtype", "shape", "bytes", "values"))
    return (
        f"<p><b>{where}</b>: {model.format}, {count:,} tensor{'' if count == 1 else 's'}</p>"
        f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    )


def _histogram(model: Model, name: str) -> str:
    """Bars, with the range beside them; ``""`` for values that are not numbers."""
    try:
        stats = model.stats(name)
    except ValueError:
        return ""
    bins = stats["histogram"]
    most = max((count for _, _, count in bins), default=0)
    if most == 0:
        return ""
    width = max(1, 80 // len(bins))
    bars = "".join(
        f'<rect x="{place * width}" y="{20 - 20 * count / most:.1f}" width="{max(1, width - 1)}" '
        f'height="{20 * count / most:.1f}" fill="currentColor"/>'
        for place, (_, _, count) in enumerate(bins)
    )
    text = f"{stats['min']:.4g} … {stats['max']:.4g}"
    size = f'width="{width * len(bins)}" height="20"'
    return f'<svg {size} role="img" aria-label="{text}">{bars}</svg> <small>{text}</small>'
