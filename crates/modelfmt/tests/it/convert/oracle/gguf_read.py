"""Prints what gguf-py's reader finds in each GGUF file of a folder, as JSON by file name."""

import json
import pathlib
import sys

from gguf import GGUFReader, GGUFValueType

found = {}
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.gguf")):
    reader = GGUFReader(path)
    metadata = []
    for key, field in reader.fields.items():
        if not key.startswith("GGUF."):
            kinds = [kind.name.lower() for kind in field.types]
            empty = field.types[0] is GGUFValueType.ARRAY and not field.data
            metadata.append([key, kinds, [] if empty else field.contents()])
    tensors = []
    for tensor in reader.tensors:
        values = tensor.data.tobytes().hex()
        shape = [int(dim) for dim in reversed(tensor.shape)]
        tensors.append([tensor.name, tensor.tensor_type.name.lower(), shape, values])
    found[path.name] = {"metadata": metadata, "tensors": tensors, "alignment": int(reader.alignment)}
json.dump(found, sys.stdout, ensure_ascii=False)
