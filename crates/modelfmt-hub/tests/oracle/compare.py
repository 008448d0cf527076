"""Compares llama.cpp's ids with those in `expected.json`, for each folder of argument 1 that has a `model.gguf`.

Prints a JSON object: for each folder the texts that differ, each with the expected ids and those of llama.cpp.
"""

import json
import sys
from pathlib import Path

from llama_cpp import Model

found = {}
for path in sorted(Path(sys.argv[1]).glob("*/model.gguf")):
    model = Model(path, vocab_only=True)
    expected = json.loads((path.parent / "expected.json").read_text())
    ids = [(text, wanted, model.tokenize(text)) for text, wanted in expected]
    found[path.parent.name] = [one for one in ids if one[1] != one[2]]
print(json.dumps(found))
