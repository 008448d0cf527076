"""Runs openinfer-oinf's verifier on the files of a folder. Ends with an error at the first file that it refuses."""

import contextlib
import io
import sys
import warnings
from pathlib import Path

import oinf_verify

warnings.simplefilter("ignore")  # statistics of infinities

folder, histograms = sys.argv[1:]
if histograms == "without":
    # Histograms fail on booleans of rank 2 and on infinities, which says nothing about the file.
    oinf_verify.histogram_string = lambda values: ""

for path in sorted(Path(folder).glob("*.oinf")):
    try:
        with contextlib.redirect_stdout(io.StringIO()) as text:
            oinf_verify.parse_file(str(path))
    except Exception as error:
        raise SystemExit(f"{path.name}: {error!r}")
    print(f"== {path.name}")
    print(text.getvalue(), end="")
