"""Keywords that a function does not have."""

import inspect

import numpy as np
import pytest

import modelfmt
import modelfmt.oinf


@pytest.mark.parametrize(
    ("call", "wrong", "meant"),
    [
        (modelfmt.open, "key", "keys"),
        (modelfmt.open, "password", "passphrase"),
        (modelfmt.open, "memory_map", "mmap"),
        (modelfmt.Model, "verfy", "verify"),
        (modelfmt.load, "torch_dtype", "dtype"),
        (modelfmt.load, "map_location", "device"),
        (modelfmt.save, "force", "overwrite"),
        (modelfmt.save, "max_shard_size", "shard_size"),
        (modelfmt.save, "meta", "metadata"),
        (modelfmt.convert, "force", "overwrite"),
        (modelfmt.convert, "key", "keys"),
        (modelfmt.convert, "dryrun", "dry_run"),
        (modelfmt.convert, "quantise", "quantize"),
        (modelfmt.select, "skip", "exclude"),
        (modelfmt.select, "force", "overwrite"),
        (modelfmt.verify, "key", "keys"),
        (modelfmt.check, "jobs", "threads"),
        (modelfmt.inspect, "hashes", "hash"),
        (modelfmt.diff, "tolerence", "tolerance"),
        (modelfmt.stats, "num_threads", "threads"),
        (modelfmt.show, "key", "keys"),
        (modelfmt.edit, "delete", "drop"),
        (modelfmt.edit, "key", "sign"),
        (modelfmt.sign, "keys", "key"),
        (modelfmt.sign, "force", "overwrite"),
        (modelfmt.keygen, "type", "key_type"),
        (modelfmt.outboard, "force", "overwrite"),
        (modelfmt.plan_convert, "force", "overwrite"),
        (modelfmt.seal, "recipient", "recipients"),
        (modelfmt.seal, "password", "passphrase"),
        (modelfmt.unseal, "key", "keys"),
        (modelfmt.unseal, "force", "overwrite"),
        (modelfmt.Seal, "password", "passphrase"),
        (modelfmt.Model.verify, "progres", "progress"),
    ],
)
def test_a_near_miss_is_told(call, wrong, meant):
    with pytest.raises(TypeError, match=rf"{call.__name__}\(\) has no keyword {wrong}=; did you mean {meant}=\?$") as caught:
        call(**{wrong: 1})
    assert isinstance(caught.value, modelfmt.UsageError)
    assert (caught.value.code, caught.value.remedies) == ("usage", (f"{meant}=",))


FUNCTIONS = [getattr(modelfmt, name) for name in modelfmt.__all__]


MORE = [modelfmt.Model, modelfmt.Seal, modelfmt.oinf.write_oinf, modelfmt.oinf.read_oinf]


@pytest.mark.parametrize("call", [it for it in FUNCTIONS if inspect.isfunction(it)] + MORE)
def test_every_function_says_what_it_has(call):
    known = inspect.signature(call).parameters.values()
    own = [it.name for it in known if it.kind in (it.KEYWORD_ONLY, it.POSITIONAL_OR_KEYWORD)]
    with pytest.raises(modelfmt.UsageError, match="has no keyword xyzzyxyzzy=; it has") as caught:
        call(xyzzyxyzzy=1)
    assert caught.value.remedies == () and all(name in str(caught.value) for name in own)


def test_other_mistakes_are_those_of_python(tmp_path, saved):
    for mistake in (lambda: modelfmt.open(), lambda: modelfmt.open(saved, path=saved), lambda: modelfmt.diff(saved)):
        with pytest.raises(TypeError) as caught:
            mistake()
        assert not isinstance(caught.value, modelfmt.ModelfmtError)
    with pytest.raises(modelfmt.UsageError, match="keys="):
        modelfmt.open(modelfmt.__file__, key=1)
    modelfmt.save(tensors={"w": np.ones(2)}, path=tmp_path / "m.aero", format="aero")
