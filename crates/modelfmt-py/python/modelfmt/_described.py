"""What each keyword is, for ``help()``: a list of arguments below the text of each function."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

#: Keywords that mean the same everywhere.
COMMON = {
    # What is read, and where it goes.
    "source": "the model: a path or URL, the content of a file, an open file, or a `Model`; a list of models becomes one",
    "path": "the file, a path or URL; where a model is read, also its content, an open file or a `Model`",
    "format": "the format's name, such as 'gguf' or 'mag@0.3'; by default the extension of the path decides",
    "tensors": "names and arrays: a mapping, pairs, an iterator of pairs, or a `Model`",
    "name": "the name of the tensor",
    "names": "names of tensors; all, if there is none",
    "level": "'header', 'control' or 'full': how much of the file is read",
    "overwrite": "replace what is there",
    "dry_run": "do everything but write, and say what would be done",
    "threads": "the most threads; by default one for each core, at most 8",
    "progress": "a function that gets the bytes done and the total, or True for a bar of tqdm",
    "verify": "check values against the hashes and checksums of their file",
    "mmap": "map the file instead of reading it",
    "hash": "add the BLAKE3 of each tensor",
    "allow_symlinks": "follow symbolic links to files, if the signer did",
    "strict": "whether names that are missing or not expected are an error",
    # How a model is opened.
    "pin": "what the file must be: 'b3:…', the BLAKE3 of all of it, or 'aero:…'; every byte that is read is checked",
    "keys": "public keys of signers that you trust, as paths or PEM; without a good signature the file is refused",
    "threshold": "how many of the keys must have signed",
    "min_revision": "refuse a signed file whose revision is lower",
    "identity": "private keys that open an encrypted file (X25519), as paths or PEM",
    "passphrase": "a passphrase that opens an encrypted file",
    "raw_key": "a key of 32 bytes that opens an encrypted file",
    "root": "the part of a PyTorch checkpoint that is the model, such as 'state_dict'; dots go deeper",
    "policy": "a policy (TOML): only what it allows is read; by default the file that MODELFMT_POLICY names",
    "cache": "keep what is read from URLs in the user's cache",
    "allow_instance_credentials": "ask the metadata address of the cloud that this machine runs in for credentials",
    "allow_private_redirects": "follow redirects of servers on the internet to private addresses",
    # What is written.
    "widen": "change types that the format lacks to larger ones that hold every value",
    "cast": "a type for all floats, or a mapping of patterns to types: {'*.weight': 'f16'}; each number is rounded once",
    "dequantize": "'f32', 'f16' or 'bf16' for what is quantized, or a mapping of patterns to one of them",
    "quantize": "a block type such as 'q4_k' or a preset such as 'q4_k_m', or a mapping of patterns to types",
    "rules": "the three above as a list in an order of your own: ['quantize q4_k', 'cast *embed*=f16']",
    "imatrix": "for quantize: the path of an importance matrix of llama.cpp",
    "scales": "for dequantize: names of weights to names of the tensors that hold their scales",
    "include": "patterns of names: only these",
    "exclude": "patterns of names: all but these",
    "rename": "old names to new ones; * stands for any text",
    "allow_ties": "write each tensor that shares its bytes with another separately, however large that is",
    "map": "how a folder of the hub becomes a GGUF: a family, the path of a map, or 'none' for names as they are",
    "lora": "adapters (LoRA) to merge: a path, several, or a mapping of paths to scales; sums are of f32, rounded once",
    "base": "the folder of the hub with the base of an adapter, if the adapter does not name one here",
    "pre": "llama.cpp's name of the pre-tokenizer, if tokenizer.json does not tell it",
    "dedupe": "AERO: tensors with equal values share their bytes",
    "lossy": "drop metadata that the format cannot hold, and list it",
    "stringify": "turn metadata that the format can hold only as text into JSON text",
    "metadata": "keys and values, which replace those of the same keys",
    "model_name": "the model's name (AERO, APR2)",
    "architecture": "the architecture (AERO, APR2)",
    "model_type": "the model type (APR2)",
    "sizevars": "OINF: size variables to add, names to numbers",
    "declare": "OINF: tensors without values to add, names to (dtype, shape)",
    "shard_size": "the most bytes of a file: safetensors, GGUF and APR2 become sets",
    "shards": "safetensors, GGUF and APR2 become a set of so many files, about equally large",
    "control_hash": "AERO: add the hash of header, table of contents and names",
    "page_hashes": "AERO: add the hash of every page of the weights, of so many bytes",
    "tensor_hashes": "AERO: add the hash of every tensor",
    "uuid": "AERO: the file's identity, 16 bytes; random by default",
    "no_zstd": "AERO: do not compress metadata",
    "compress": "APR2: 'lz4' or 'none'",
    "align": "alignment of tensors in bytes (APR2: 32 or 64; GGUF: a power of two)",
    "checksum": "MAG: 'crc32' or 'crc32c'",
    "allow_extended_types": "OINF 1: also write bf16, f8_e5m2 and packed integers, which its document lacks",
    "reserve": "bytes to leave in the header, so that later edits can be made in place",
    "outboard": "also write the outboard, which lets any range be verified against the file's BLAKE3",
    "sign": "private keys that sign the result, as paths or PEM",
    "revision": "a number that readers can demand as the lowest; signers vouch for it",
    "seal": "a `Seal`: who can open the encrypted file (APR2)",
    "recipients": "public keys of people who can open the file (X25519), as paths or PEM",
    "key_id": "what the file shows of raw_key, such as its name in a key service",
    "hide_index": "encrypt names, shapes and metadata too",
    # Arrays of frameworks.
    "device": "where torch puts the tensors",
    "module": "the torch.nn.Module",
    "assign": "the tensors of the file become the module's, with their types, instead of being copied into those it has",
}

_WRITTEN = "where to write: a path, the URL of an object in a bucket, an open file, or an `OpenFile` of fsspec"

#: Keywords of a single function, by its name.
_OWN: dict[str, dict[str, str]] = {
    "bom": {
        "spec": "'cyclonedx' (1.6) or 'spdx' (3.0.1)",
        "tensors": "list each tensor too",
    },
    "diff": {
        "a": "the first model: a path or URL, content, an open file or a `Model`",
        "b": "the second model",
        "norms": "add rmse, cosine and rel_norm of each changed tensor",
        "tolerance": "values that differ by no more than this count as the same",
        "ignore_metadata": "leave the metadata out",
        "ignore_dtype": "compare values across types",
    },
    "edit": {
        "path": "the file to change, on this machine",
        "set": "keys of the metadata and their values",
        "unset": "keys to remove, by name or pattern",
        "drop": "patterns of names: tensors to remove",
        "output": "write another file, and leave this one as it is",
    },
    "fetch": {
        "url": "the URL, or several mirrors of one file",
        "path": "the file to write, or a folder",
        "pin": "what the file must be: 'b3:…', the BLAKE3 of all of it",
        "include": "patterns of a repository's files: only these",
        "exclude": "patterns of a repository's files: all but these",
    },
    "inspect": {"tensors": "patterns of names: list only these"},
    "keygen": {
        "path": "the file for the private half; the public half goes to it + '.pub'",
        "key_type": "'p256', 'p384' or 'p521' to sign anything, 'ed25519' to sign APR2 files, 'x25519' to open encrypted ones",
    },
    "report": {
        "other": "a second model: the page shows how it differs",
        "out": "where to write the page; by default it is only returned",
    },
    "load": {
        "dtype": "floats and blocks become this type: of numpy, of the framework, or by name, such as 'f16'",
        "framework": "'numpy', 'torch', 'jax', 'mlx', or 'tensor' for `Tensor`",
        "into": "a mapping of names to arrays of the right shape, which are filled; only these are read",
    },
    **dict.fromkeys(("convert", "save", "save_file", "save_model", "seal", "select", "unseal"), {"path": _WRITTEN}),
    "merge": {"path": _WRITTEN, "adapters": "the adapters (LoRA): a path, several, or a mapping of paths to scales"},
    "outboard": {"path": "the file, of any kind, on this machine"},
    "plan_convert": {"path": "the index of the set: a path or URL that every worker reaches", "begin": "check that the set can be written; only one process does"},
    "ConversionPlan.finish": {"receipts": "what writing the parts returned, in any order"},
    "ConversionPlan.keep": {"number": "the number of the part", "receipt": "what writing it returned"},
    "ConversionPlan.part": {"number": "the number of the part, from 0 on"},
    "prove": {
        "base": "the model that the other is made of: a path or URL, content, an open file or a `Model`",
        "derived": "the model that is made of it",
        "complete": "demand everything of the base",
        "allow_added": "patterns of tensors and keys that the base lacks",
        "allow_changed": "patterns of tensors and keys that differ",
    },
    "sign": {
        "path": "the file or folder, on this machine",
        "key": "the private key, or several, as paths or PEM",
        "trust_mtime": "do not read files again whose size and time are as the existing signature says",
        "ignore": "patterns of files that the signature does not cover",
        "identity": "private keys that open an encrypted file that has no signature yet (X25519)",
    },
    "plan": {"names": "names of tensors, or patterns; all, if there is none"},
    "iter_weights": {"dtype": "floats and blocks become this type, such as torch.bfloat16; blocks are their bytes without it"},
    "load_file": {"dtype": "floats and blocks become this type"},
    "load_model": {"device": "where tensors go that are on torch's device meta, or that are assigned; by default where they were"},
    "Model.glob": {"patterns": "patterns of names, such as '*.weight'"},
    "Tensor.numpy": {"dtype": "the type of the array: of numpy, or by name, such as 'f16'; blocks are decoded"},
    "Tensor.to": {"dtype": "the type: a name such as 'f16', or a type of numpy, ml_dtypes or torch"},
    "read_oinf": {"path": "the file: a path or URL, content, or an open file", "cls": "the dataclass"},
    "write_oinf": {"instance": "an instance of a dataclass", "path": "the file to write"},
}


def described(function: F, more: Iterable[str] = ()) -> F:
    """Adds a list of its arguments to the text of a function. ``more`` are those that its ``**`` takes."""
    qualified = function.__qualname__.removesuffix(".__init__")
    # A method takes the descriptions of the function with the same name.
    own = _OWN.get(qualified) or _OWN.get(qualified.rpartition(".")[2], {})
    known = {one: own.get(one) or COMMON.get(one) for one in (*arguments(function), *more)}
    lines = [f"    {one}: {text}" for one, text in known.items() if text is not None]
    text = inspect.cleandoc(function.__doc__ or "")
    function.__doc__ = "\n".join([*([text, ""] if text else []), "Args:", *lines]) if lines else text
    return function


def arguments(function: Callable[..., Any]) -> list[str]:
    """The names of a function's arguments, but for `self` and the ``**``."""
    parameters = inspect.signature(function).parameters.values()
    return [one.name for one in parameters if one.name != "self" and one.kind is not inspect.Parameter.VAR_KEYWORD]
