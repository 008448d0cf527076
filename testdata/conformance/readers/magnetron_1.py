"""Reads the metadata of a file of version 1 with magnetron 0.1, whose list of tensors is empty whatever the file has."""

import importlib.metadata
import json
import math
import sys

from magnetron.io import StorageArchive

if "--version" in sys.argv:
    print(importlib.metadata.version("magnetron"))
    sys.exit()


def plain(value: object) -> object:
    """A number as the manifests have it."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


with StorageArchive(sys.argv[1], "r") as archive:
    metadata = {key: plain(value) for key, value in archive.metadata().items()}
print(json.dumps({"metadata": metadata}))
