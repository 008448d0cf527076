"""Prints the values that openinfer-oinf's verifier reads in the files of a folder, each as the bits of its f32."""

import contextlib
import io
import struct
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
import oinf_verify


def word(value):
    value = float(value)
    if np.isnan(value):
        return "nan"
    return "inf" if np.isinf(value) else struct.pack(">f", value).hex()


# The verifier prints values through these functions, and statistics that do not matter here.
oinf_verify.format_scalar = word
oinf_verify.format_values = lambda values: " ".join(word(value) for value in values.flatten())
oinf_verify.histogram_string = lambda values: ""
oinf_verify._tensor_stats = lambda values: defaultdict(float)

for path in sorted(Path(sys.argv[1]).glob("*.oinf")):
    with contextlib.redirect_stdout(io.StringIO()) as text:
        oinf_verify.parse_file(str(path))
    print(f"== {path.name}")
    lines = (line for line in text.getvalue().splitlines() if line and not line.startswith("- "))
    print("".join(f"{line}\n" for line in lines), end="")
