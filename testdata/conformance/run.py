#!/usr/bin/env python3
"""Runs a reader over the conformance suite, and says where it does not do what the suite expects.

    python run.py --command "my-tool {}"             every format
    python run.py --format gguf --command "my-tool {}"
    python run.py --format gguf --json --command "my-tool --json {}"

The command is run once for each file, whose path replaces {}. Exit status 0 means that it reads the file, any other that it
refuses it. It must read files named y_*, refuse n_*, and may do either with i_*. A signal, a timeout, and the status 86 are
failures whatever the file: 86 is what the code in some pickles exits with where it is run.

With --json the command prints what it read, as one object; a key that it leaves out, or that is null, is not compared:

    {"tensors": [{"name": "w", "dtype": "f32", "shape": [2, 3], "sha256": "..."}], "metadata": {"key": 1}}

in the order of the file, with the names of dtypes and metadata that the manifests have, and the SHA-256 of the values,
little-endian and row-major. "unordered": true says that the reader does not tell the order of tensors.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, Optional

HERE = Path(__file__).resolve().parent
RUNS_CODE = 86


def formats() -> list[str]:
    """The names of all formats."""
    return sorted(manifest.parent.name for manifest in HERE.glob("*/manifest.json"))


def run(command: str, path: Path, timeout: float) -> tuple[str, bytes, str]:
    """What the command did (`read`, `refused` or what is wrong with it), what it printed, and its last line of errors."""
    words = [str(path) if word == "{}" else word for word in shlex.split(command)]
    if str(path) not in words:
        words.append(str(path))
    try:
        done = subprocess.run(words, capture_output=True, timeout=timeout, stdin=subprocess.DEVNULL, check=False)
    except subprocess.TimeoutExpired:
        return f"runs for more than {timeout:g} s", b"", ""
    said = done.stderr.decode(errors="replace").strip().splitlines()
    last = said[-1] if said else ""
    if done.returncode == RUNS_CODE:
        return "runs code of the file", b"", last
    if done.returncode < 0:
        return f"ends by signal {-done.returncode}", b"", last
    return ("read" if done.returncode == 0 else "refused"), done.stdout, last


def difference(entry: dict[str, Any], printed: bytes) -> Optional[str]:
    """How a reading differs from the expected one."""
    try:
        found = json.loads(printed)
    except ValueError as error:
        return f"prints no JSON: {error}"
    tensors = found.get("tensors")
    if tensors is not None:
        expected = entry["tensors"]
        if found.get("unordered"):
            tensors, expected = (sorted(list_, key=lambda tensor: tensor["name"]) for list_ in (tensors, expected))
        if len(tensors) != len(expected):
            return f"{len(tensors)} tensors, not {len(expected)}"
        for one, other in zip(tensors, expected):
            for key in ("name", "dtype", "shape", "sha256"):
                if one.get(key) is not None and one[key] != other[key]:
                    return f"{key} of {other['name']!r} is {one[key]!r}, not {other[key]!r}"
    metadata = found.get("metadata")
    if metadata is not None and metadata != entry["metadata"]:
        return f"metadata are {json.dumps(metadata)[:200]}, not {json.dumps(entry['metadata'])[:200]}"
    return None


def judge(entry: dict[str, Any], path: Path, options: argparse.Namespace) -> tuple[str, str]:
    """Whether the command did what it must (`right` or `wrong`, `read` or `refused` for a file with which it may do either), and what it did."""
    did, printed, last = run(options.command, path, options.timeout)
    if did not in ("read", "refused"):
        return "crash", did
    verdict = entry["verdict"]
    if verdict != "either" and did != verdict:
        return "wrong", f"{did}, must be {verdict}" + (f": {last}" if did == "refused" else "")
    if did == "read" and options.json and "tensors" in entry:
        differs = difference(entry, printed)
        if differs:
            return "wrong", f"read, but {differs}"
    return ("right", did) if verdict != "either" else (did, did)


def main() -> int:
    """Prints a line for each disagreement, and a summary for each format."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--format", action="append", choices=formats(), help="only this one; may be given several times")
    parser.add_argument("--command", required=True, help="what reads the file {}")
    parser.add_argument("--json", action="store_true", help="compare what the command prints with the expected reading")
    parser.add_argument("--only", default="", help="only files whose names contain this")
    parser.add_argument("--timeout", type=float, default=10, help="seconds for each file [10]")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="files at once")
    parser.add_argument("--summary", type=Path, help="write the numbers of the summary to this file, as JSON")
    options = parser.parse_args()
    summary = {}
    for name in options.format or formats():
        entries = json.loads((HERE / name / "manifest.json").read_text(encoding="utf-8"))["files"]
        entries = [entry for entry in entries if options.only in entry["file"]]
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            done = list(pool.map(lambda entry: judge(entry, HERE / name / entry["file"], options), entries))
        counts = {"files": len(entries), "y": [0, 0], "n": [0, 0], "i_read": 0, "i_refused": 0, "crashes": 0}
        for entry, (outcome, what) in zip(entries, done):
            if outcome in ("wrong", "crash"):
                print(f"{name}/{entry['file']}: {what}; {entry['rule']} ({entry['section']})")
            if outcome == "crash":
                counts["crashes"] += 1
            if entry["verdict"] == "either":
                counts["i_read"] += outcome == "read"
                counts["i_refused"] += outcome == "refused"
            else:
                counts[entry["file"][0]][0] += outcome == "right"
                counts[entry["file"][0]][1] += 1
        summary[name] = counts
        (read, reads), (refused, refuses) = counts["y"], counts["n"]
        print(
            f"{name}: {read} of {reads} y_ read, {refused} of {refuses} n_ refused, "
            f"i_: {counts['i_read']} read, {counts['i_refused']} refused; {counts['crashes']} crashes"
        )
    if options.summary:
        options.summary.write_text(json.dumps(summary), encoding="utf-8")
    return 0 if all(c["y"][0] == c["y"][1] and c["n"][0] == c["n"][1] and not c["crashes"] for c in summary.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
