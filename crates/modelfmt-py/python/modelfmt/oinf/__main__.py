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
    found = _named(target)
    if not dataclasses.is_dataclass(found):
        raise usage(f"--input: {target} is no dataclass")
    if not isinstance(found, type):
        return found
    try:
        return found(**_fields(data))
    except TypeError as error:
        raise usage(f"--input: {target} cannot be made of {data or 'nothing (--json gives its fields)'}: {error}") from error


def _named(target: str) -> Any:
    """What a module has under a name."""
    module, colon, name = target.partition(":")
    if not colon:
        raise usage("--input takes MODULE:NAME")
    sys.path.insert(0, "")
    try:
        imported = importlib.import_module(module)
    except ModuleNotFoundError as error:
        # If a module that this one imports is missing, the mistake is in this module, and the traceback shows
        # where.
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise usage(f"--input: {error}") from None
    if not hasattr(imported, name):
        raise usage(f"--input: {module} has no {name}")
    return getattr(imported, name)


def _fields(data: str | None) -> dict[str, Any]:
    """What the fields hold, of a file of JSON."""
    if data is None:
        return {}
    try:
        with open(data, encoding="utf-8") as file:
            fields = json.load(file)
    except (OSError, ValueError) as error:
        raise usage(f"--json: {data}: {error}") from None
    if not isinstance(fields, dict):
        raise usage(f"--json: {data}: it has to be an object, with a key for each field")
    return fields


if __name__ == "__main__":
    main()
