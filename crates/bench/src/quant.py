"""Prints the seconds that ggml's C takes to encode values: python3 quant.py LIBRARY FUNCTION VALUES"""

import ctypes
import pathlib
import sys
import time

function = getattr(ctypes.CDLL(sys.argv[1]), sys.argv[2])
values = ctypes.create_string_buffer(pathlib.Path(sys.argv[3]).read_bytes())
elements = (len(values) - 1) // 4
blocks = ctypes.create_string_buffer(b"\1" * elements)  # longer than any type asks for; warm memory
columns = 4096
function.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]
function.restype = ctypes.c_size_t
begin = time.perf_counter()
if not function(values, blocks, elements // columns, columns, None):
    sys.exit("nothing was encoded")
print(time.perf_counter() - begin)
