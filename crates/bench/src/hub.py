"""Prints the seconds that llama.cpp takes to quantize a GGUF and flush it: python3 hub.py SOURCE OUT FTYPE THREADS"""

import ctypes
import os
import sys
import time

import llama_cpp


class Params(ctypes.Structure):
    """The first fields of `llama_model_quantize_params`, and more room than the others take."""

    _fields_ = [("nthread", ctypes.c_int32), ("ftype", ctypes.c_int32), ("others", ctypes.c_uint8 * 248)]


llama = llama_cpp.load()
llama.llama_model_quantize_default_params.restype = Params
llama.llama_model_quantize.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(Params)]
llama.llama_model_quantize.restype = ctypes.c_uint32
source, out, ftype, threads = sys.argv[1:]
params = llama.llama_model_quantize_default_params()
params.ftype, params.nthread = int(ftype), int(threads)
begin = time.perf_counter()
if llama.llama_model_quantize(source.encode(), out.encode(), params):
    sys.exit("llama.cpp does not quantize it: " + "".join(llama_cpp.messages[-4:]))
with open(out, "rb") as file:
    os.fsync(file.fileno())
print(time.perf_counter() - begin)
