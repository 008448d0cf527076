"""Saving, converting, comparing."""

import io
import json
import os
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
from conftest import TESTDATA
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hypothesis_arrays

import modelfmt

DTYPES = ["?", "i1", "u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8"]


@settings(max_examples=60)
@given(
    st.dictionaries(
        st.text("abc.é", min_size=1, max_size=8),
        st.sampled_from(DTYPES).flatmap(
            lambda dtype: hypothesis_arrays.arrays(dtype, hypothesis_arrays.array_shapes(min_dims=0, min_side=0))
        ),
        max_size=4,
    )
)
def test_what_is_saved_is_loaded(tmp_path_factory, tensors):
    path = tmp_path_factory.mktemp("save") / "m.aero"
    modelfmt.save(tensors, path, uuid=bytes(16), tensor_hashes=True)
    loaded = modelfmt.load(path)
    assert list(loaded) == list(tensors)
    for name, array in tensors.items():
        assert loaded[name].tobytes() == array.tobytes()
        assert (loaded[name].dtype, loaded[name].shape) == (array.dtype, array.shape)


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "float4_e2m1fn"])
def test_types_of_ml_dtypes(tmp_path, name):
    array = np.array([[0.5, 1.0, 2.0, 4.0]] * 2).astype(getattr(ml_dtypes, name))
    path = tmp_path / "m.safetensors"
    modelfmt.save({"w": array}, path)
    again = modelfmt.open(path)["w"]
    assert again.dtype == array.dtype
    np.testing.assert_array_equal(again, array)
    np.testing.assert_array_equal(modelfmt.load(path, dtype="float32")["w"], array.astype(np.float32))


def test_everything_that_is_an_array(tmp_path, saved):
    class Interface:
        __array_interface__ = np.arange(3.0).__array_interface__
        keep = np.arange(3.0)

        def __init__(self):
            self.array = np.arange(3.0)
            self.__array_interface__ = self.array.__array_interface__

    class DLPack:
        array = np.arange(3.0)

        def __dlpack__(self, **options):
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    path, other = tmp_path / "m.safetensors", tmp_path / "n.safetensors"
    big_endian = np.arange(3, dtype=">i4")
    turned = np.arange(6.0).reshape(2, 3).T
    given = {"i": Interface(), "d": DLPack(), "t": modelfmt.open(saved).tensor("a"), "n": turned, "e": big_endian, "l": [1, 2]}
    modelfmt.save(given, path)
    loaded = modelfmt.load(path)
    assert loaded["i"].tolist() == loaded["d"].tolist() == [0, 1, 2]
    np.testing.assert_array_equal(loaded["n"], turned)
    np.testing.assert_array_equal(loaded["e"], big_endian)
    np.testing.assert_array_equal(loaded["t"], modelfmt.open(saved)["a"])
    with pytest.raises(modelfmt.UnsupportedError, match="str"):
        modelfmt.save({"w": "text"}, other)
    with pytest.raises(modelfmt.UnsupportedError, match="complex128"):
        modelfmt.save({"w": np.zeros(2, np.complex128)}, other)


def test_of_an_iterator_two_tensors_are_held_at_most(tmp_path):
    code = """
import sys, numpy as np, modelfmt
def most():
    # Not getrusage, which counts the process that started this one.
    return int(open("/proc/self/status").read().partition("VmHWM:")[2].split()[0]) // 1024
def tensors():
    for number in range(24):
        yield f"t{number}", np.full(2_000_000, number, dtype=np.float32)
modelfmt.save({"t": np.ones(1000)}, sys.argv[1] + "/warm.aero", tensor_hashes=True)
before = most()
for name in ("m.safetensors", "m.gguf", "m.aero", "m.mag", "m.oinf", "m.apr"):
    modelfmt.save(tensors(), sys.argv[1] + "/" + name)
with open(sys.argv[1] + "/object", "wb") as out:
    modelfmt.save(tensors(), out, "safetensors")
modelfmt.save(tensors(), sys.argv[1] + "/set.safetensors", shard_size=30_000_000)
print(most() - before)
"""
    if not os.path.exists("/proc/self/status"):
        pytest.skip("the system does not say how much memory a process had")
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for name in ("m.safetensors", "m.aero", "object", "set.safetensors.index.json"):
        loaded = modelfmt.load(tmp_path / name)
        assert len(loaded) == 24 and all((loaded[f"t{number}"] == number).all() for number in range(24))
    # Two tensors of 8 MB, and what the writers need. All tensors together are 192 MB.
    assert int(done.stdout) < 2 * 8 + 24
    assert not [path for path in tmp_path.iterdir() if path.name.startswith((".", "tmp"))]


def test_an_iterator_may_have_nothing_or_fail(tmp_path, saved):
    path = tmp_path / "m.aero"
    modelfmt.save(iter([]), path)
    modelfmt.save(iter([("e", np.zeros((0, 2)))]), path, overwrite=True)
    assert modelfmt.load(path)["e"].shape == (0, 2)

    def fails():
        yield "a", np.ones(3)
        raise RuntimeError("no more")

    def never():
        raise AssertionError("nobody asks for tensors that are not written")
        yield

    with pytest.raises(RuntimeError, match="no more"):
        modelfmt.save(fails(), tmp_path / "n.aero")
    with pytest.raises(FileExistsError):
        modelfmt.save(never(), path)
    with pytest.raises(FileNotFoundError):
        modelfmt.save(never(), tmp_path / "no folder/n.aero")
    assert {one.name for one in tmp_path.iterdir()} == {"m.aero", "model.safetensors"}
    # Tensors of a model are also read one by one.
    modelfmt.save(iter(modelfmt.open(saved).items()), tmp_path / "copy.safetensors", metadata={"license": "MIT"})
    assert (tmp_path / "copy.safetensors").read_bytes() == saved.read_bytes()


def test_what_no_file_holds_is_named_with_what_to_pass(tmp_path):
    one = np.ones(2)
    fields = np.zeros(2, [("x", "f4"), ("y", "f4")])
    for value, what, remedy in [
        (one.astype(np.complex128), "complex128", "tensors['w'].astype('complex64')"),
        (one.astype(np.longdouble), "float128|longdouble", "tensors['w'].astype('float64')"),
        (one.astype(ml_dtypes.float8_e4m3b11fnuz), "float8_e4m3b11fnuz", "tensors['w'].astype('float32')"),
        (np.array([one, None], dtype=object), "object", "numpy.asarray(tensors['w'], dtype=\"float32\")"),
        (np.array(["a", "b"]), "str", "metadata={'w': …}"),
        (np.array(["2020-01-01"], "M8[D]"), "datetime64", "tensors['w'].view(\"int64\")"),
        (fields, "void", "tensors['w']['x']"),
        ("text", "str", "metadata={'w': …}"),
        (None, "NoneType", "{name: array for name, array in tensors.items() if array is not None}"),
        ({"v": one}, "dict", "{f'w.{name}': array for name, array in tensors['w'].items()}"),
        (object(), "object", "numpy.asarray(tensors['w'], dtype=\"float32\")"),
        ([[1], [2, 3]], "list", "{f'w.{number}': row for number, row in enumerate(tensors['w'])}"),
    ]:
        for tensors in ({"v": one, "w": value}, iter([("v", one), ("w", value)])):
            with pytest.raises(modelfmt.UnsupportedError, match=f"tensor 'w'.*({what}).*pass ") as caught:
                modelfmt.save(tensors, tmp_path / "m.safetensors")
            assert caught.value.remedies == (remedy,) and remedy in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_what_a_format_does_not_hold_is_named_with_what_to_pass(tmp_path, saved):
    blocks = modelfmt.open(TESTDATA / "reference/one-shard.aero").tensor("blk.0.q4_0")
    small = modelfmt.open(saved).tensor("mask")
    for ending, name, value, remedy in [
        ("gguf", "w", np.ones((2, 32), np.uint8), "tensors['w'].astype('int16')"),
        ("gguf", "w", np.ones(2, np.uint64), "tensors['w'].astype('int64')"),
        ("gguf", "w", np.ones(2, np.complex64), "tensors['w'].view('float32')"),
        ("gguf", "w", np.ones(2, ml_dtypes.float8_e5m2), "tensors['w'].astype('float16')"),
        ("mag", "w", np.ones(2), "tensors['w'].astype('float32')"),
        ("mag", "w", np.ones(2, ml_dtypes.bfloat16), "tensors['w'].astype('float32')"),
        ("apr", "w", np.ones(2, ml_dtypes.float8_e8m0fnu), "tensors['w'].astype('float32')"),
        ("apr", "w", small, "tensors['w'].numpy().astype('uint8')"),
        ("safetensors", "w", np.ones(2, ml_dtypes.int4), "tensors['w'].astype('int8')"),
        ("safetensors", "w", blocks, "tensors['w'].dequantize()"),
        ("gguf", "w", np.ones((1, 2, 3, 4, 5, 6)), "tensors['w'].reshape(-1, *tensors['w'].shape[3:])"),
        ("gguf", "w" * 70, np.ones(2), f"{{'{'w' * 63}': tensors['{'w' * 70}']}}"),
        ("oinf", "w=é", np.ones(2), "{'w': tensors['w=é']}"),
        ("safetensors", "__metadata__", np.ones(2), "{'metadata': tensors['__metadata__']}"),
    ]:
        path = tmp_path / f"m.{ending}"
        for tensors in ({"v": np.ones(2, np.float32), name: value}, iter([(name, value)])):
            with pytest.raises(modelfmt.UnsupportedError) as caught:
                modelfmt.save(tensors, path)
            assert caught.value.remedies == (remedy,)
            assert str(caught.value).startswith(f"tensor {name!r}: ") and f"; pass {remedy}" in str(caught.value)
            assert ("if its values fit" in str(caught.value)) == (getattr(value, "dtype", None) in ("float64", "uint64") and "astype" in remedy)
        tensors = {name: value}
        passed = eval(remedy)
        modelfmt.save(passed if isinstance(passed, dict) else {name: passed}, path)
        path.unlink()
    with pytest.raises(modelfmt.UnsupportedError, match="'w' is given twice"):
        modelfmt.save([("w", np.ones(2)), ("w", np.ones(2))], tmp_path / "m.aero")


def test_to_a_file_object(tmp_path, saved, arrays):
    out = io.BytesIO()
    modelfmt.save(arrays, out, format="safetensors", metadata={"license": "MIT"})
    assert out.getvalue() == saved.read_bytes()
    modelfmt.save(modelfmt.open(saved), out := io.BytesIO(), format="safetensors", metadata={"license": "MIT"})
    assert out.getvalue() == saved.read_bytes()
    with pytest.raises(modelfmt.UsageError, match="format="):
        modelfmt.save(arrays, io.BytesIO())
    with pytest.raises(modelfmt.UsageError, match="several files"):
        modelfmt.save(arrays, io.BytesIO(), format="safetensors", shard_size=100)


def test_an_existing_file_is_replaced_whole_or_not_at_all(saved, arrays):
    before = saved.read_bytes()
    with pytest.raises(FileExistsError) as caught:
        modelfmt.save({"w": np.ones(2)}, saved)
    assert caught.value.remedies == ("overwrite=True",)
    with pytest.raises(modelfmt.UnsupportedError):
        modelfmt.save({"w": np.ones(2), "z": np.ones(2)}, saved, metadata={"number": 1}, overwrite=True)
    assert saved.read_bytes() == before and len(list(saved.parent.iterdir())) == 1
    model = modelfmt.open(saved)
    modelfmt.save({"w": np.ones(2)}, saved, overwrite=True)
    np.testing.assert_array_equal(model["a"], arrays["a"])  # the old file, which the model still has open
    assert list(modelfmt.open(saved)) == ["w"]


def test_bad_arguments(tmp_path):
    for given in ({"format": "zip"}, {"format": "apr1"}, {"align": 7, "format": "apr2"}, {"compress": "x", "format": "apr2"}):
        with pytest.raises(modelfmt.UsageError):
            modelfmt.save({"w": np.ones(2, np.float32)}, tmp_path / "m", **given)
    with pytest.raises(modelfmt.UsageError, match="extension"):
        modelfmt.save({"w": np.ones(2)}, tmp_path / "m.bin")
    with pytest.raises(modelfmt.UsageError, match="JSON"):
        modelfmt.save({"w": np.ones(2)}, tmp_path / "m.aero", metadata={"x": object()})
    with pytest.raises(TypeError):
        modelfmt.save({"w": np.ones(2)}, tmp_path / "m.aero", no_such_option=1)
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_mapping_of_names_to_arrays_is_told(tmp_path):
    class Module:
        pass

    one = np.ones(2)
    for tensors, error, text in [
        (Module(), modelfmt.UsageError, r"of type Module: .* state_dict\(\)"),
        ([1], modelfmt.UsageError, "of type int: give names and arrays"),
        (iter([one, one]), modelfmt.UsageError, "of type ndarray: give names and arrays"),
        ({1: one}, modelfmt.UsageError, "the name of a tensor is text, and 1 is not"),
        ({"model": {"w": one}}, modelfmt.UnsupportedError, "give its own names and arrays"),
        ({"w": None}, modelfmt.UnsupportedError, "tensor 'w' is a NoneType"),
    ]:
        for target in [tmp_path / "m.safetensors", io.BytesIO()]:
            with pytest.raises(error, match=text):
                modelfmt.save(tensors, target, "safetensors")
    modelfmt.save([["w", one], ("v", one)], tmp_path / "m.safetensors")
    assert set(modelfmt.open(tmp_path / "m.safetensors")) == {"w", "v"}


def test_metadata_that_safetensors_holds_only_as_text(tmp_path):
    path = tmp_path / "m.safetensors"
    with pytest.raises(modelfmt.UnsupportedError) as caught:
        modelfmt.save({"w": np.ones(2)}, path, metadata={"epoch": 3})
    assert caught.value.remedies == ("stringify=True",)
    modelfmt.save({"w": np.ones(2)}, path, metadata={"epoch": 3, "name": "x"}, stringify=True)
    assert modelfmt.open(path).metadata == {"epoch": "3", "name": "x"}


def test_other_names_of_frameworks_and_types_are_told(tmp_path):
    path = tmp_path / "m.safetensors"
    modelfmt.save({"w": np.ones(2)}, path)
    with pytest.raises(modelfmt.UsageError, match="framework='pt' .* it is 'torch' here"):
        modelfmt.load(path, framework="pt")
    with pytest.raises(modelfmt.UsageError, match="dtype='float15' is no type"):
        modelfmt.load(path, dtype="float15")


def test_convert_and_diff(tmp_path, saved, arrays):
    aero = tmp_path / "m.aero"
    told = []
    done = modelfmt.convert(saved, aero, tensor_hashes=True, progress=lambda *at: told.append(at))
    assert (done.format, done.tensors, [name for name, _ in done.files]) == ("aero", 6, [str(aero)])
    assert told[-1][0] == told[-1][1] == sum(array.nbytes for array in arrays.values())
    assert modelfmt.diff(saved, aero)["same"] and modelfmt.verify(aero)["ok"]
    with pytest.raises(FileExistsError):
        modelfmt.convert(saved, aero)
    modelfmt.convert(saved, aero, overwrite=True, cast={"a": "f16"}, exclude="b.*")
    diff = modelfmt.diff(modelfmt.open(saved), aero)
    assert [entry["name"] for entry in diff["changed"]] == ["a"] and sorted(diff["only_in_a"]) == ["b.ids", "b.weight"]
    assert modelfmt.open(aero)["a"].dtype == np.float16


def test_a_folder_of_the_hub_becomes_gguf_and_a_folder_again(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    config = {
        "model_type": "gemma",
        "hidden_size": 8,
        "num_attention_heads": 2,
        "head_dim": 4,
        "num_hidden_layers": 0,
        "intermediate_size": 16,
        "max_position_embeddings": 32,
        "vocab_size": 4,
    }
    (folder / "config.json").write_text(json.dumps(config))
    arrays = {
        "model.embed_tokens.weight": np.arange(32, dtype="f2").reshape(4, 8),
        "model.norm.weight": (np.arange(8) / 3).astype("f2"),
    }
    modelfmt.save(arrays, folder / "model.safetensors")
    modelfmt.convert(folder / "model.safetensors", tmp_path / "m.gguf")
    planned = modelfmt.convert(tmp_path / "m.gguf", tmp_path / "back", "hf", dry_run=True)
    assert (planned.format, (tmp_path / "back").exists()) == ("hf", False)
    done = modelfmt.convert(tmp_path / "m.gguf", tmp_path / "back", "hf")
    assert done.format == "hf"
    assert [os.path.relpath(path, tmp_path) for path, _ in done.files] == ["back/model.safetensors", "back/config.json"]
    assert json.loads((tmp_path / "back/config.json").read_text()) == config
    for name, array in modelfmt.load(tmp_path / "back/model.safetensors").items():
        assert array.dtype == arrays[name].dtype and array.tobytes() == arrays[name].tobytes()
    with pytest.raises(modelfmt.UnsupportedError, match="qwen2"):
        modelfmt.convert(tmp_path / "m.gguf", tmp_path / "other", "hf", map="qwen2")
    with pytest.raises(modelfmt.UsageError):
        modelfmt.convert(folder / "model.safetensors", tmp_path / "other", "hf")
    assert not (tmp_path / "other").exists()


def test_what_does_not_fit_says_what_helps(tmp_path, saved):
    with pytest.raises(modelfmt.UnsupportedError) as caught:
        modelfmt.convert(saved, tmp_path / "m.mag")
    assert 'cast="f32"' in caught.value.remedies and "lossy=True" in caught.value.remedies
    assert isinstance(caught.value, ValueError) and caught.value.code == "unsupported"
    dry = modelfmt.convert(saved, tmp_path / "m.oinf", dry_run=True, include=["a", "mask"])
    assert dry.format == "oinf" and not (tmp_path / "m.oinf").exists()
    programs = {program["tensor"]: program for program in dry.programs}
    assert sorted(programs) == ["a", "mask"] and programs["a"]["from"] == ["a"] and programs["a"]["steps"] == []
    assert sorted(dry.left_out) == sorted(set(modelfmt.open(saved)) - {"a", "mask"})
    assert modelfmt.inspect(saved)["model"]["kind"] == "other"


def test_several_models_become_one(tmp_path, saved, arrays):
    parts = [tmp_path / "a.safetensors", tmp_path / "rest.aero"]
    modelfmt.select(saved, parts[0], "a")
    modelfmt.select(modelfmt.open(saved), parts[1], ["*"], exclude="a")
    assert [sorted(modelfmt.open(part)) for part in parts] == [["a"], sorted(arrays.keys() - {"a"})]
    dry = modelfmt.convert(parts, tmp_path / "dry.safetensors", dry_run=True)
    assert dry.tensors == len(arrays) and not (tmp_path / "dry.safetensors").exists()
    modelfmt.convert([parts[0], modelfmt.open(parts[1], mmap=True)], tmp_path / "both.safetensors")
    both = modelfmt.open(tmp_path / "both.safetensors")
    assert sorted(both) == sorted(arrays)
    for name in both:
        np.testing.assert_array_equal(both[name], arrays[name])
    with pytest.raises(modelfmt.UsageError, match="a.safetensors"):
        modelfmt.convert([parts[0], parts[0]], tmp_path / "twice.safetensors")
    with pytest.raises(modelfmt.UsageError):
        modelfmt.convert([], tmp_path / "none.safetensors")
    for nothing in ("z*", "", []):
        with pytest.raises(modelfmt.UsageError):
            modelfmt.select(saved, tmp_path / "z.safetensors", nothing)


def test_damage_is_not_laundered(tmp_path, saved):
    aero = tmp_path / "m.aero"
    modelfmt.convert(saved, aero, tensor_hashes=True)
    content = bytearray(aero.read_bytes())
    offset = modelfmt.open(aero).info("a").offset
    content[offset + 1] ^= 1
    aero.write_bytes(content)
    with pytest.raises(modelfmt.VerifyError) as caught:
        modelfmt.convert(aero, tmp_path / "n.aero")
    assert caught.value.remedies == ("verify=False",) and not (tmp_path / "n.aero").exists()
    with pytest.raises(modelfmt.VerifyError):
        modelfmt.load(aero)
    with pytest.raises(modelfmt.VerifyError) as caught:
        modelfmt.open(aero, verify=True)
    assert caught.value.report["errors"] and isinstance(caught.value, ValueError)
    assert not modelfmt.verify(aero)["ok"] and not modelfmt.open(aero).verify()["ok"]
    assert len(modelfmt.load(aero, verify=False)) == 6
    modelfmt.convert(aero, tmp_path / "n.aero", verify=False)


def test_load(saved, arrays):
    told = []
    loaded = modelfmt.load(saved, progress=lambda *at: told.append(at))
    assert list(loaded) == list(modelfmt.open(saved))
    assert told[-1] == (sum(array.nbytes for array in arrays.values()),) * 2
    assert list(modelfmt.load(saved, include="b.*")) == modelfmt.open(saved).glob("b.*")
    assert modelfmt.load(saved, dtype="f16")["a"].dtype == np.float16
    assert modelfmt.load(saved, dtype=np.float16)["b.ids"].dtype == np.int64  # ids do not survive rounding
    assert isinstance(modelfmt.load(saved, framework="tensor")["a"], modelfmt.Tensor)
    into = {"a": np.zeros((16, 8), np.float64), "mask": np.zeros(3, bool)}
    assert modelfmt.load(saved, into=into)["a"] is into["a"]
    np.testing.assert_array_equal(into["a"], arrays["a"])
    with pytest.raises(modelfmt.UsageError, match="shape"):
        modelfmt.load(saved, into={"a": np.zeros(3)})
    with pytest.raises(KeyError):
        modelfmt.load(saved, into={"z": np.zeros(3)})
    with pytest.raises(modelfmt.UsageError):
        modelfmt.load(saved, include="z*")
    with pytest.raises(modelfmt.UsageError):
        modelfmt.load(saved, framework="caffe")


def test_statistics_and_text(saved, arrays):
    stats = modelfmt.stats(saved, "a")
    assert stats["count"] == 128 and stats["max"] == arrays["a"].max() and abs(stats["mean"] - arrays["a"].mean()) < 1e-6
    assert sum(count for _, _, count in stats["histogram"]) == 128
    assert modelfmt.open(saved).stats("b.ids")["max"] == arrays["b.ids"].max()
    assert modelfmt.show(saved, "mask").startswith("mask: bool[3] = { true, false, true }")
    assert modelfmt.formats()["safetensors"] == ".safetensors" and "apr1" not in modelfmt.formats()


def test_the_program_is_there(saved):
    run = subprocess.run([sys.executable, "-m", "modelfmt", "verify", saved], capture_output=True, text=True)
    assert run.returncode == 0 and run.stdout.startswith("ok ")
    run = subprocess.run([sys.executable, "-m", "modelfmt", "verify", "/nonexistent"], capture_output=True, text=True)
    assert run.returncode == 1 and "No such file" in run.stdout
    assert subprocess.run([sys.executable, "-m", "modelfmt", "nonsense"], capture_output=True).returncode == 2
