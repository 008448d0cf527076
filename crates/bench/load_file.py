"""Prints the seconds that safetensors' load_file takes for a file that is in the page cache."""

import sys
import time

from safetensors.numpy import load_file

begin = time.perf_counter()
tensors = load_file(sys.argv[1])
seconds = time.perf_counter() - begin
assert sum(tensor.nbytes for tensor in tensors.values()) > 0
print(seconds)
