"""Keywords that a function does not have: an error that says which one was meant."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection
from typing import Any, ParamSpec, TypeVar

from ._described import described
from ._errors import ArgumentError, argument

P = ParamSpec("P")
R = TypeVar("R")

# Other words for keywords, from the program and other packages.
_WORDS = {
    "overwrite": "force replace clobber override exist_ok allow_overwrite",
    "keys": "key public_key public_keys trusted_keys signer signers",
    "key": "keys private_key sign",
    "sign": "key keys private_key",
    "identity": "identities private_key private_keys decrypt_with",
    "recipients": "recipient to_keys encrypt_for public_key",
    "passphrase": "password passwd pass_phrase secret",
    "threads": "jobs workers num_threads n_threads nthreads num_workers max_workers",
    "format": "to fmt type file_format filetype target",
    "path": "file filename file_name out output dest destination target src source input model url",
    "output": "out dest destination target path_out",
    "source": "src input model path file filename",
    "include": "names name patterns pattern only select keep tensors filter",
    "exclude": "skip ignore without drop remove",
    "drop": "delete remove exclude",
    "unset": "delete remove",
    "dtype": "torch_dtype type as_type to",
    "device": "map_location",
    "framework": "backend library return_type",
    "verify": "no_verify skip_verify check strict verification",
    "dry_run": "dry simulate preview",
    "progress": "callback bar tqdm verbose progress_bar show_progress",
    "metadata": "meta attrs attributes",
    "mmap": "memory_map memmap mmap_mode",
    "root": "subtree prefix part",
    "pin": "sha256 digest hash blake3 expected_hash",
    "cache": "no_cache use_cache cache_dir",
    "shard_size": "max_shard_size split shard",
    "shards": "num_shards n_shards parts",
    "allow_instance_credentials": "instance_credentials",
    "allow_private_redirects": "private_redirects",
    "into": "out buffers state_dict",
    "level": "mode depth",
}


def checked(*more: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Has a function refuse keywords that it does not have, with the nearest that it has. ``more`` are those that its ``**`` takes."""

    def wrapped(function: Callable[P, R]) -> Callable[P, R]:
        own = _own(function)
        names = tuple(dict.fromkeys((*own, *more)))
        known = frozenset(names)

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            if not known.issuperset(kwargs):
                wrong = next(name for name in kwargs if name not in known)
                raise unknown(function.__qualname__, wrong, known)
            return function(*args, **kwargs)

        _KNOWN[call] = names
        return described(call, names[len(own) :])

    return wrapped


# The keywords of each function, for functions that pass them on.
_KNOWN: dict[Callable[..., Any], tuple[str, ...]] = {}


def names_of(function: Callable[..., Any]) -> tuple[str, ...]:
    """The keywords of a function that is checked."""
    return _KNOWN[function]


def _own(function: Callable[..., Any]) -> list[str]:
    """The names of the parameters that may be given by name."""
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = inspect.signature(function).parameters.values()
    return [parameter.name for parameter in parameters if parameter.kind in by_name and parameter.name != "self"]


def unknown(function: str, wrong: str, known: Collection[str]) -> ArgumentError:
    """The error for a keyword that a function does not have."""
    name = function.removesuffix(".__init__")
    meant = _nearest(wrong, known)
    hint = f"did you mean {meant}=?" if meant is not None else f"it has {', '.join(sorted(known)) or 'none'}"
    return argument(f"{name}() has no keyword {wrong}=; {hint}", *([] if meant is None else [f"{meant}="]))


def _nearest(wrong: str, known: Collection[str]) -> str | None:
    """The keyword that was meant: another word for the same, or nearly the same letters."""
    import difflib

    word = wrong.lower().replace("-", "_")
    near = difflib.get_close_matches(word, sorted(known), 1, 0.8)
    near = near or [name for name, others in _WORDS.items() if name in known and word in others.split()]
    near = near or difflib.get_close_matches(word, sorted(known), 1, 0.6)
    return near[0] if near else None
