"""Quantizes the matrices of a safetensors model to MXFP4 with gguf-py, and decodes them again.

Usage: python3 mxfp4_model.py MODEL OUT.gguf OUT.safetensors
"""

import sys

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter, quants
from safetensors.numpy import load_file, save_file

model, blocks, numbers = sys.argv[1:]
MXFP4 = GGMLQuantizationType.MXFP4
writer = GGUFWriter(blocks, "bert")
decoded = {}
for name, values in load_file(model).items():
    if values.dtype == np.float32 and values.ndim == 2 and values.shape[1] % 32 == 0:
        encoded = quants.quantize(values, MXFP4)
        writer.add_tensor(name, encoded, raw_dtype=MXFP4)
        decoded[name] = quants.dequantize(encoded, MXFP4)
    else:
        writer.add_tensor(name, values)
        decoded[name] = values
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
save_file(decoded, numbers, metadata={"general.architecture": "bert"})
