"""Compares the names in the maps with those of gguf-py: prints each that differs, and how many were compared."""

import sys
import tomllib
from pathlib import Path

from gguf import MODEL_ARCH, MODEL_ARCH_NAMES, TensorNameMap

ARCHITECTURES = {name: arch for arch, name in MODEL_ARCH_NAMES.items()}


def compare(path: Path) -> int:
    """Compares one map. gguf-py has names without the suffix, and stacked experts without their numbers."""
    read = tomllib.loads(path.read_text())
    names = TensorNameMap(ARCHITECTURES[read["architecture"]], 2)
    for name, entry in read["tensors"].items():
        target = entry if isinstance(entry, str) else entry["to"]
        plain = name.replace("{i}", "1").replace(".experts.{e}.", ".experts.").replace(".norms.{e}.", ".")
        asked = [prefix + plain for prefix in read.get("prefixes", [""])]
        found = {names.get_name(one, try_suffixes=(".weight", ".bias")) for one in asked} - {None}
        if found != {target.replace("{i}", "1")}:
            print(f"{path.name}: {name} is {found}, not {target}")
    return len(read["tensors"])


print(sum(compare(path) for path in sorted(Path(sys.argv[1]).glob("*.toml"))))
