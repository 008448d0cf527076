"""How long `torch.load` takes, for `cargo xtask bench`: prints seconds, without Python's own start. Without a path it says whether torch is there."""

import sys
import time

import torch

if len(sys.argv) > 1:
    names = torch.load.__code__.co_varnames
    options = {name: True for name in ("weights_only", "mmap") if name in names}
    begin = time.perf_counter()
    loaded = torch.load(sys.argv[1], map_location="cpu", **options)
    print(time.perf_counter() - begin)
    assert len(loaded) > 0
