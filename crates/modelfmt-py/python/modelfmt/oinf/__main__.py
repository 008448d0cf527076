"""``python -m modelfmt.oinf``: a dataclass becomes a file, and a file text."""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import sys
from typing import Any

from .. import _files
from .._errors import ModelfmtError, usage
from ._write import write_oinf


def main() -> None:
    """The command line."""
    try:
        sys.exit(_verify() if sys.argv[1:2] == ["verify"] else _write())
    except ModelfmtError as error:
        sys.exit(f"error: {error}")


def _verify() -> int:
    parser = argparse.ArgumentParser("python -m modelfmt.oinf verify", description="Check an OINF file, and print it")
    parser.add_argument("file", help="the OINF file")
    args = parser.parse_args(sys.argv[2:])
    report = _files.verify(args.file)
    for finding in report["errors"]:
        print(f"error: {args.file}: {finding}", file=sys.stderr)
    if report["ok"]:
        print(_files.show(args.file), end="")
    return 0 if report["ok"] else 1


def _write() -> int:
    parser = argparse.ArgumentParser(
        "python -m modelfmt.oinf",
        description="Write a dataclass to an OINF file",
        epilog="python -m modelfmt.oinf verify FILE checks and prints a file",
    )
    parser.add_argument("--input", required=True, metavar="MODULE:NAME", help="a dataclass, or an instance of one")
    parser.add_argument("--json", metavar="FILE", help="what its fields hold, as a JSON object")
    parser.add_argument("--output", required=True, metavar="FILE", help="the OINF file to write")
    args = parser.parse_args()
    write_oinf(_instance(args.input, args.json), args.output)
    return 0


def _instance(target: str, data: str | None) -> Any:
    module, colon, name = target.partition(":")
    if not colon:
        raise usage("--input takes MODULE:NAME")
    sys.path.insert(0, "")
    found = getattr(importlib.import_module(module), name, None)
    if not dataclasses.is_dataclass(found):
        raise usage(f"{target} is no dataclass")
    if not isinstance(found, type):
        return found
    if data is None:
        return found()
    with open(data, encoding="utf-8") as file:
        return found(**json.load(file))


if __name__ == "__main__":
    main()
