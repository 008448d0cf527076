"""Files of model weights: AERO, MAG, OINF, APR2, safetensors, GGUF. Read, check, convert and write them.

>>> import modelfmt
>>> model = modelfmt.open("model.safetensors")      # any format, detected by its content
>>> weights = model["w"]                            # an array of numpy
>>> rows = model.tensor("w")[:16]                   # reads 16 rows
>>> modelfmt.convert("model.safetensors", "model.aero")
"""

from __future__ import annotations

from ._edit import Edited, edit
from ._errors import (
    FileError,
    FormatError,
    ModelfmtError,
    TensorNotFoundError,
    UnsupportedError,
    UsageError,
    VerifyError,
)
from ._fetch import Fetched, FetchSource, fetch
from ._files import (
    Converted,
    bom,
    check,
    convert,
    diff,
    formats,
    inspect,
    merge,
    plan,
    prove,
    report,
    save,
    select,
    show,
    stats,
    verify,
)
from ._keys import KeyPair, Outboard, Signed, keygen, outboard, sign
from ._load import load
from ._model import Model, TensorInfo, open
from ._modelfmt import __version__
from ._opening import Opening, Requests
from ._plan import ConversionPlan, Converting, PlannedPart, plan_convert
from ._report import Report
from ._seal import seal, unseal
from ._sealing import Seal
from ._tensor import Tensor

__all__ = [
    "ConversionPlan",
    "Converted",
    "Converting",
    "Edited",
    "FetchSource",
    "Fetched",
    "FileError",
    "FormatError",
    "KeyPair",
    "Model",
    "ModelfmtError",
    "Opening",
    "Outboard",
    "PlannedPart",
    "Report",
    "Requests",
    "Seal",
    "Signed",
    "Tensor",
    "TensorInfo",
    "TensorNotFoundError",
    "UnsupportedError",
    "UsageError",
    "VerifyError",
    "__version__",
    "bom",
    "check",
    "convert",
    "diff",
    "edit",
    "fetch",
    "formats",
    "inspect",
    "keygen",
    "load",
    "merge",
    "open",
    "outboard",
    "plan",
    "plan_convert",
    "prove",
    "report",
    "save",
    "seal",
    "select",
    "show",
    "sign",
    "stats",
    "unseal",
    "verify",
]
