"""Does one thing with another package and prints the seconds that it took: python3 growth.py WHAT FILE MORE"""

import importlib
import sys
import time

what, path, *more = sys.argv[1:]


def safetensors_open():
    with safe_open(path, "np") as file:
        return file.get_tensor(more[0])


def gguf_open():
    return next(tensor.data for tensor in GGUFReader(path).tensors if tensor.name == more[0])


def ztensor_open():
    with ztensor.open(path) as source:
        return bytes(source[more[0]])


def ztensor_convert():
    ztensor.convert(path, more[0])
    with ztensor.open(more[0]) as source:
        return list(source)


def ztensor_verify():
    verified, without = ztensor.verify(path, deep=True)
    return verified and not without


# Importing packages is not measured. safetensors imports numpy when it makes the first array.
importlib.import_module("numpy")
if what == "safetensors_open":
    safe_open = importlib.import_module("safetensors").safe_open
elif what == "gguf_open":
    GGUFReader = importlib.import_module("gguf").GGUFReader
else:
    ztensor = importlib.import_module("ztensor")
begin = time.perf_counter()
result = globals()[what]()
seconds = time.perf_counter() - begin
if result is None or result is False:
    sys.exit(f"{what} found nothing")
print(seconds)
