"""Reads a file with ggml's gguf.cpp, which is what llama.cpp loads models with. The folder of libggml-base.so is in GGML_FOLDER."""

import ctypes
import hashlib
import json
import math
import os
import sys
from ctypes import POINTER, Structure, byref, c_bool, c_char_p, c_int, c_int64, c_size_t, c_void_p
from pathlib import Path

if "--version" in sys.argv:
    print("libllama " + next(Path(os.environ["GGML_FOLDER"]).glob("libllama.v*.so")).name[10:-3])
    sys.exit()


class Params(Structure):
    """`gguf_init_params`."""

    _fields_ = [("no_alloc", c_bool), ("ctx", POINTER(c_void_p))]


ggml = ctypes.CDLL(str(Path(os.environ["GGML_FOLDER"]) / "libggml-base.so"))
for name, result, arguments in [
    ("gguf_init_from_file", c_void_p, [c_char_p, Params]),
    ("gguf_get_n_kv", c_int64, [c_void_p]),
    ("gguf_get_key", c_char_p, [c_void_p, c_int64]),
    ("gguf_get_kv_type", c_int, [c_void_p, c_int64]),
    ("gguf_get_arr_type", c_int, [c_void_p, c_int64]),
    ("gguf_get_arr_n", c_size_t, [c_void_p, c_int64]),
    ("gguf_get_arr_data", c_void_p, [c_void_p, c_int64]),
    ("gguf_get_arr_str", c_char_p, [c_void_p, c_int64, c_size_t]),
    ("gguf_get_val_data", c_void_p, [c_void_p, c_int64]),
    ("gguf_get_val_str", c_char_p, [c_void_p, c_int64]),
    ("gguf_get_n_tensors", c_int64, [c_void_p]),
    ("gguf_get_tensor_name", c_char_p, [c_void_p, c_int64]),
    ("ggml_get_tensor", c_void_p, [c_void_p, c_char_p]),
    ("ggml_get_data", c_void_p, [c_void_p]),
    ("ggml_nbytes", c_size_t, [c_void_p]),
    ("ggml_type_name", c_char_p, [c_int]),
]:
    getattr(ggml, name).restype, getattr(ggml, name).argtypes = result, arguments

STRING, ARRAY = 8, 9
NUMBERS = {
    0: ctypes.c_uint8,
    1: ctypes.c_int8,
    2: ctypes.c_uint16,
    3: ctypes.c_int16,
    4: ctypes.c_uint32,
    5: ctypes.c_int32,
    6: ctypes.c_float,
    7: ctypes.c_bool,
    10: ctypes.c_uint64,
    11: ctypes.c_int64,
    12: ctypes.c_double,
}


def plain(value: object) -> object:
    """A number as the manifests have it."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def entry(number: int) -> object:
    """A value of the metadata. Texts end at a NUL here, whatever the file says."""
    kind = ggml.gguf_get_kv_type(gguf, number)
    if kind == STRING:
        return ggml.gguf_get_val_str(gguf, number).decode()
    if kind != ARRAY:
        return plain(NUMBERS[kind].from_address(ggml.gguf_get_val_data(gguf, number)).value)
    kind, count = ggml.gguf_get_arr_type(gguf, number), ggml.gguf_get_arr_n(gguf, number)
    if kind == STRING:
        return [ggml.gguf_get_arr_str(gguf, number, member).decode() for member in range(count)]
    return [plain(x) for x in (NUMBERS[kind] * count).from_address(ggml.gguf_get_arr_data(gguf, number))] if count else []


context = c_void_p()
gguf = ggml.gguf_init_from_file(os.fsencode(sys.argv[1]), Params(False, ctypes.pointer(context)))
if not gguf:
    sys.exit(1)
tensors = []
for number in range(ggml.gguf_get_n_tensors(gguf)):
    name = ggml.gguf_get_tensor_name(gguf, number)
    tensor = ggml.ggml_get_tensor(context, name)
    values = ctypes.string_at(ggml.ggml_get_data(tensor), ggml.ggml_nbytes(tensor))
    # `ggml_tensor` begins with its type. It has four dimensions whatever the file says.
    kind = ggml.ggml_type_name(c_int.from_address(tensor).value).decode().lower()
    tensors.append({"name": name.decode(), "dtype": kind, "sha256": hashlib.sha256(values).hexdigest()})
metadata = {ggml.gguf_get_key(gguf, n).decode(): entry(n) for n in range(ggml.gguf_get_n_kv(gguf))}
print(json.dumps({"tensors": tensors, "metadata": metadata}))
