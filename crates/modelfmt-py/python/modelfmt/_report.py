"""Reports: pages about models."""

from __future__ import annotations

import html as _html
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Report:
    """A page about a model, or about two and how they differ. A notebook shows it."""

    #: The page: HTML that needs no other files.
    html: str = field(repr=False)
    #: Whether neither ``check`` nor ``verify`` has found a fault.
    ok: bool

    def _repr_html_(self) -> str:
        # In a frame, the page keeps its own style and policy, and nothing in it can reach the notebook.
        page = _html.escape(self.html)
        return (
            f'<iframe sandbox="" srcdoc="{page}" width="100%" height="640" style="border:0" '
            'title="Report about a model"></iframe>'
        )
