"""Prints the seconds that a loader takes for a safetensors file that is in the page cache: load_file.py LOADER FILE.

Without FILE it only says, by its exit status, whether the loader is installed.
"""

import sys
import time


def safetensors():
    from safetensors.numpy import load_file

    return lambda path: list(load_file(path).values())


def fastsafetensors():
    from fastsafetensors import fastsafe_open

    def load(path):
        with fastsafe_open(filenames=[path], nogds=True, device="cpu") as file:
            # Its tensors become invalid when the file is closed.
            return [file.get_tensor(name).clone() for name in file.keys()]

    return load


def runai():
    from runai_model_streamer import SafetensorsStreamer

    def load(path):
        with SafetensorsStreamer() as streamer:
            streamer.stream_file(path)
            # The memory of one tensor is reused for the next.
            return [tensor.clone() for _, tensor in streamer.get_tensors()]

    return load


def main(loader, path=None):
    load = {"safetensors": safetensors, "fastsafetensors": fastsafetensors, "runai": runai}[loader]()
    if path is None:
        return
    begin = time.perf_counter()
    tensors = load(path)
    seconds = time.perf_counter() - begin
    assert sum(tensor.nbytes if loader == "safetensors" else tensor.numel() for tensor in tensors) > 0
    print(seconds)


main(*sys.argv[1:])
