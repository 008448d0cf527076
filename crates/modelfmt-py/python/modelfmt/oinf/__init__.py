"""OINF from Python objects: a dataclass becomes a file, and a file a dataclass.

>>> @dataclass
... class Model:
...     D: int                      # a size variable
...     mode: str                   # metadata
...     W_0: TensorSpec             # a tensor
>>> write_oinf(Model(D=2, mode="clamp_up", W_0=TensorSpec([0.5, 1.0], dtype="f32", name="W.0")), "model.oinf")
>>> read_oinf("model.oinf", Model).W_0.data

The bytes are those of the package ``openinfer-oinf`` 0.1.1. ``python -m modelfmt.oinf`` does the same from a shell.
"""

from __future__ import annotations

from ._fields import Bitset, ScalarValue, SizeVar, TensorSpec, UninitializedTensor
from ._read import read_oinf
from ._write import write_oinf

__all__ = [
    "Bitset",
    "ScalarValue",
    "SizeVar",
    "TensorSpec",
    "UninitializedTensor",
    "read_oinf",
    "write_oinf",
]
