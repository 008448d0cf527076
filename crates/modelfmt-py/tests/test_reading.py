"""Opening a model and reading its tensors."""

import copy
import json
import pickle
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from conftest import TESTDATA, golden

import modelfmt


def test_a_model_is_a_mapping_in_file_order(saved, arrays):
    with modelfmt.open(saved) as model:
        assert list(model) == list(model.keys()) == [name for name, _ in model.items()]
        assert set(model) == set(arrays) and len(model) == len(arrays)
        assert "a" in model and "z" not in model and 3 not in model
        for name, array in model.items():
            np.testing.assert_array_equal(array, arrays[name], strict=True)
        assert model.format == "safetensors" and model.metadata == {"license": "MIT"}
        assert model.glob("b.*") == ["b.weight", "b.ids"] or model.glob("b.*") == ["b.ids", "b.weight"]
        assert model.details == json.loads(json.dumps(model.inspect()["details"]))


def test_info_is_what_inspect_says(saved):
    model = modelfmt.open(saved)
    for entry in model.inspect()["tensors"]:
        info = model.info(entry["name"])
        for key in ("dtype", "nbytes", "has_data", "file", "offset", "stored_nbytes", "encoding"):
            assert getattr(info, key) == entry[key]
        assert list(info.shape) == entry["shape"] and info.quant is None


def test_content_is_content_and_never_a_name(saved, arrays):
    for content in (saved.read_bytes(), bytearray(saved.read_bytes()), memoryview(saved.read_bytes())):
        np.testing.assert_array_equal(modelfmt.open(content)["a"], arrays["a"])
    with pytest.raises(modelfmt.FormatError):
        modelfmt.open(bytes(saved))


@pytest.mark.parametrize("mmap", [False, True])
def test_arrays_outlive_the_model_and_may_be_written(saved, arrays, mmap):
    model = modelfmt.open(saved, mmap=mmap)
    array = model["a"]
    tensor = model.tensor("a")
    assert np.shares_memory(np.asarray(tensor), np.asarray(tensor))
    model.close()
    np.testing.assert_array_equal(array, arrays["a"])
    array[0, 0] = 7
    assert modelfmt.open(saved)["a"][0, 0] == arrays["a"][0, 0]
    with pytest.raises(modelfmt.UsageError, match="closed"):
        model["a"]
    assert repr(model) == "<Model, closed>"


def test_a_mapped_array_is_the_map(saved):
    model = modelfmt.open(saved, mmap=True)
    first, second = model["a"], model["a"]
    assert first.ctypes.data == second.ctypes.data
    first[0, 0] = 7
    assert second[0, 0] == 7  # within the process: the map is one
    assert first.ctypes.data != modelfmt.open(saved)["a"].ctypes.data


def test_read_arrays_are_aligned(saved):
    assert modelfmt.open(saved)["a"].ctypes.data % 64 == 0
    assert all(array.ctypes.data % 64 == 0 for array in modelfmt.load(saved).values() if array.size)


def test_numpy_takes_a_tensor_in_every_way(saved, arrays):
    tensor = modelfmt.open(saved).tensor("a")
    assert (tensor.shape, tensor.dtype, tensor.ndim, tensor.size, len(tensor)) == ((16, 8), "f32", 2, 128, 16)
    for array in (np.asarray(tensor), np.from_dlpack(tensor), tensor.numpy()):
        np.testing.assert_array_equal(array, arrays["a"], strict=True)
        assert array.ctypes.data == tensor.numpy().ctypes.data
    assert tensor.__dlpack_device__() == (1, 0)
    assert tensor.__array_interface__["shape"] == (16, 8)
    assert np.asarray(tensor, dtype=np.float64).dtype == np.float64
    assert tensor.tobytes() == arrays["a"].tobytes()
    copied = np.from_dlpack(tensor, copy=True)
    assert copied.ctypes.data != tensor.numpy().ctypes.data
    with pytest.raises(BufferError):
        tensor.__dlpack__(dl_device=(2, 0))


@pytest.mark.parametrize("version", [None, (0, 8), (1, 0), (1, 3)])
def test_capsules_of_both_kinds(saved, version):
    capsule = modelfmt.open(saved).tensor("a").__dlpack__(max_version=version)
    assert ("dltensor_versioned" in repr(capsule)) == (version is not None and version[0] >= 1)
    del capsule  # nobody consumed it


def test_pickling_is_by_path(saved, arrays):
    for model in (modelfmt.open(saved), modelfmt.open(saved, mmap=True)):
        for again in (pickle.loads(pickle.dumps(model)), copy.copy(model)):
            np.testing.assert_array_equal(again["a"], arrays["a"])
    with pytest.raises(TypeError, match="no path"):
        pickle.dumps(modelfmt.open(saved.read_bytes()))


def test_it_shows_itself(saved):
    model = modelfmt.open(saved)
    names = list(model)
    lines = repr(model).splitlines()
    assert lines[0] == f"<Model safetensors {str(saved)!r}: 6 tensors"
    assert [line.split(": ")[0] for line in lines[1:]] == [f"  {name!r}" for name in names]
    assert {"  'a': f32[16, 8]", "  'scalar': f64[]"} <= {line.removesuffix(">") for line in lines} and lines[-1].endswith(">")
    html = model._repr_html_()
    assert "b.weight" in html and "16 × 8" in html and "<svg" in html
    assert repr(model.tensor("a")) == "Tensor('a', f32[16, 8])"


def test_it_shows_the_first_of_many_tensors(tmp_path):
    path = tmp_path / "m.aero"
    modelfmt.save({"\n\x1b[31m" + "long" * 100: np.ones(2), **{f"layer.{n}": np.ones((n, 2)) for n in range(2000)}}, path)
    lines = repr(modelfmt.open(path)).splitlines()
    assert lines[0].endswith(": 2001 tensors") and lines[-1] == "  … 1,993 more>" and len(lines) == 10
    assert lines[1].startswith("  '\\n\\x1b[31mlong") and lines[1].endswith("…: f64[2]") and len(lines[1]) < 120
    assert lines[2:4] == ["  'layer.0': f64[0, 2]", "  'layer.1': f64[1, 2]"]
    modelfmt.save({"w": np.ones(2)}, tmp_path / "one.aero")
    assert repr(modelfmt.open((tmp_path / "one.aero").read_bytes())) == "<Model aero: 1 tensor\n  'w': f64[2]>"
    # A set shows what it can, whichever files are missing.
    modelfmt.save({f"t{n}": np.ones(9) for n in range(3)}, tmp_path / "set.safetensors", shard_size=100)
    model = modelfmt.open(tmp_path / "set.safetensors.index.json")
    assert "'t0': f64[9]" in repr(model)
    next(tmp_path.glob("set-*")).unlink()
    assert repr(modelfmt.open(tmp_path / "set.safetensors.index.json")).startswith("<Model safetensors-sharded")


def test_names_are_escaped_in_html(tmp_path):
    path = tmp_path / "model.safetensors"
    modelfmt.save({"<script>": np.ones(2)}, path)
    assert "<script>" not in modelfmt.open(path)._repr_html_()


def test_every_golden_file_reads_as_the_program_reads_it():
    seen = 0
    for path in golden():
        try:
            model = modelfmt.open(path)
            inspected = model.inspect(hash=True)
        except modelfmt.ModelfmtError:
            continue  # damaged on purpose, or a file of a set
        for entry in inspected["tensors"]:
            tensor = model.tensor(entry["name"])
            assert (tensor.dtype, list(tensor.shape)) == (entry["dtype"], entry["shape"])
            if not entry["has_data"]:
                with pytest.raises(modelfmt.UnsupportedError):
                    tensor.numpy()
                continue
            assert tensor.raw().nbytes == entry["nbytes"]
            seen += 1
    assert seen > 300


def test_big_files_read_alike_mapped_and_not(tmp_path):
    path = tmp_path / "big.safetensors"
    big = np.arange(2_500_003, dtype=np.float64)  # beyond what is read at once
    modelfmt.save({"small": np.ones(3), "big": big}, path)
    for mmap in (False, True):
        np.testing.assert_array_equal(modelfmt.open(path, mmap=mmap)["big"], big)
    np.testing.assert_array_equal(modelfmt.load(path)["big"], big)
    np.testing.assert_array_equal(modelfmt.open(path).tensor("big")[3:2_400_000].numpy(), big[3:2_400_000])


def test_a_set_is_one_model(tmp_path, arrays):
    path = tmp_path / "model.safetensors"
    modelfmt.save(arrays, path, shard_size=300)
    index = tmp_path / "model.safetensors.index.json"
    assert len(list(tmp_path.iterdir())) > 2
    for mmap in (False, True):
        with modelfmt.open(index, mmap=mmap) as model:
            for name, array in arrays.items():
                np.testing.assert_array_equal(model[name], array, strict=True)
    assert modelfmt.open(tmp_path).format == "safetensors-sharded"
    missing = next(path for path in tmp_path.iterdir() if "-of-" in path.name)
    missing.unlink()
    with pytest.raises((FileNotFoundError, modelfmt.FormatError)):
        list(modelfmt.open(index))


def test_importing_imports_no_framework():
    code = "import sys, modelfmt; print([name for name in ('torch', 'jax', 'mlx', 'ml_dtypes', 'tqdm') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_blocks_are_bytes_or_decoded():
    model = modelfmt.open(TESTDATA / "reference/one-shard.aero")
    blocks = model.tensor("blk.0.q4_0")
    assert blocks.numpy().dtype == np.uint8 and blocks.numpy().shape == (2, 18)
    decoded = blocks.dequantize()
    assert decoded.dtype == np.float32 and decoded.shape == blocks.shape
    np.testing.assert_array_equal(blocks[1:].dequantize(), decoded[1:])
    np.testing.assert_array_equal(blocks[[1, 0], :].dequantize(), decoded[[1, 0]])
    # A slice that cuts blocks is decoded.
    np.testing.assert_array_equal(blocks[0, list(range(31, -1, -1))].numpy(), decoded[0, ::-1])
    np.testing.assert_array_equal(blocks[:, :3].numpy(), decoded[:, :3])


def test_no_ml_dtypes_is_a_clear_error(monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    tensor = modelfmt.open(TESTDATA / "reference/one-shard.aero").tensor("brain")
    with pytest.raises(modelfmt.UnsupportedError) as caught:
        tensor.numpy()
    first, *more = str(caught.value).splitlines()
    assert not more and "install it with `pip install ml_dtypes`, or ask for `.numpy(dtype=\"f32\")`" in first
    np.testing.assert_array_equal(tensor.numpy(dtype="float32"), tensor.dequantize(), strict=True)
    np.testing.assert_array_equal(tensor.to("f32").numpy(), tensor.dequantize(), strict=True)
    assert caught.value.remedies == ('dtype="f32"', "pip install ml_dtypes")
    assert tensor.raw().nbytes == 14


def test_numbers_of_numpys_own_types_need_no_ml_dtypes(tmp_path, monkeypatch):
    """What ml_dtypes would have given, for every type that it has and several wanted types."""
    import ml_dtypes

    values = np.array([[-1, 0, 1, 1]] * 2, dtype=np.float32)
    path, expected = tmp_path / "m.oinf", {}
    for name in ("bfloat16", "float8_e5m2", "int4", "uint4", "int2"):
        expected[name] = np.abs(values).astype(np.int8) if name == "uint4" else values
        expected[name] = expected[name].astype(getattr(ml_dtypes, name))
    modelfmt.save(expected, path, "oinf@2")
    small = ("float8_e4m3fn", "float4_e2m1fn", "float6_e2m3fn", "float8_e8m0fnu")
    others = {name: np.abs(values + 2).astype(getattr(ml_dtypes, name)) for name in small}
    modelfmt.save(others, tmp_path / "n.safetensors")
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    for wanted in ("f32", "f16", "float64", np.float32):
        loaded = modelfmt.load(path, dtype=wanted) | modelfmt.load(tmp_path / "n.safetensors", dtype=wanted)
        for name, array in (expected | others).items():
            as_numpy = np.dtype({"f32": "f4", "f16": "f2"}.get(wanted, wanted))
            np.testing.assert_array_equal(loaded[name], array.astype(as_numpy), strict=True)
    into = {name: np.zeros((2, 4), np.float16) for name in expected}
    modelfmt.load(path, into=into)
    for name, array in expected.items():
        np.testing.assert_array_equal(into[name], array.astype(np.float16))
    with pytest.raises(modelfmt.UnsupportedError, match="numpy has no type for .* `dtype=\"f32\"`") as caught:
        modelfmt.load(path)
    assert caught.value.remedies == ('dtype="f32"', "pip install ml_dtypes")


def test_arrays_of_ml_dtypes_keep_every_bit(tmp_path):
    import ml_dtypes

    path = tmp_path / "m.safetensors"
    # These include NaN with every payload.
    every = np.arange(1 << 16, dtype=np.uint16).view(ml_dtypes.bfloat16)
    modelfmt.save({"w": every}, path)
    for dtype in (None, "bf16", "bfloat16", ml_dtypes.bfloat16):
        assert modelfmt.load(path, dtype=dtype)["w"].tobytes() == every.tobytes()
    into = {"w": np.zeros(1 << 16, ml_dtypes.bfloat16)}
    assert modelfmt.load(path, into=into)["w"].tobytes() == every.tobytes()


def test_blocks_become_numbers_for_jax_too(monkeypatch):
    """A stand-in for jax, which need not be installed: its arrays are those of numpy."""
    jax = types.ModuleType("jax")
    jax.numpy = types.ModuleType("jax.numpy")
    jax.numpy.asarray = np.asarray
    monkeypatch.setitem(sys.modules, "jax", jax)
    monkeypatch.setitem(sys.modules, "jax.numpy", jax.numpy)
    path = TESTDATA / "reference/one-shard.aero"
    loaded = modelfmt.load(path, framework="jax", dtype="f16", include="blk.0.q4_0")["blk.0.q4_0"]
    np.testing.assert_array_equal(loaded, modelfmt.open(path).tensor("blk.0.q4_0").dequantize().astype(np.float16))


def test_files_are_told_by_content(saved, tmp_path):
    other = tmp_path / "model.gguf"
    other.write_bytes(saved.read_bytes())
    assert modelfmt.open(other).format == "safetensors"
    assert isinstance(modelfmt.open(str(other)).path, str) and Path(modelfmt.open(other).path) == other
