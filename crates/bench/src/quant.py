"""Prints the seconds that ggml's C takes to encode values: python3 quant.py LIBRARY FUNCTION VALUES"""

import ctypes
import pathlib
import sys
import time

function = getattr(ctypes.CDLL(sys.argv[1]), sys.argv[2])
values = ctypes.create_string_buffer(pathlib.Path(sys.argv[3]).read_bytes())
elements = (len(values) - 1) // 4
blocks = ctypes.create_string_buffer(b"\1" * elements)  # longer than any type asks for; warm memory
begin = time.perf_counter()
function(values, blocks, ctypes.c_int64(elements))
print(time.perf_counter() - begin)
