"""The error of safetensors."""


class SafetensorError(Exception):
    """Any error of reading and slicing, but for a file that is not there."""


SafetensorError.__module__ = "modelfmt.compat.safetensors"
