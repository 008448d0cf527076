"""The program ``modelfmt``, which the wheel carries."""

from __future__ import annotations

import sys

from . import _modelfmt


def main() -> None:
    """Runs the program with the arguments of this process."""
    sys.exit(_modelfmt.program(["modelfmt", *sys.argv[1:]]))
