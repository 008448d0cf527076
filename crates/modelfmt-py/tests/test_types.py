"""Values as other types, and slices of blocks."""

import numpy as np
import pytest
from conftest import golden
from hypothesis import given, settings
from hypothesis import strategies as st
from test_slices import keys

import modelfmt
from modelfmt import _dtypes, _modelfmt

FLOATS = ["f16", "bf16", "f32", "f64", "f8_e4m3", "f8_e5m2"]


def blocks():
    """Tensors of blocks that can be decoded, one of each type and rank."""
    found = {}
    for path in golden():
        try:
            model = modelfmt.open(path)
        except modelfmt.ModelfmtError:
            continue
        for tensor in model.tensors():
            is_block = tensor.dtype not in _dtypes.SIZES and tensor.dtype not in _dtypes.PACKED
            if not is_block or not tensor.size or tensor.size > 1 << 16 or not model.info(tensor.name).has_data:
                continue
            try:
                tensor.dequantize()
            except modelfmt.ModelfmtError:
                continue
            found.setdefault((tensor.dtype, len(tensor.shape)), (path, tensor.name))
    return found


BLOCKS = blocks()


def test_there_are_blocks_of_many_types():
    assert len({dtype for dtype, _ in BLOCKS}) >= 10 and {rank for _, rank in BLOCKS} >= {1, 2}


@pytest.mark.parametrize("which", BLOCKS, ids=lambda which: f"{which[0]}-{which[1]}")
@settings(max_examples=40)
@given(st.data())
def test_slices_of_blocks_are_those_of_the_decoded_tensor(which, data):
    path, name = BLOCKS[which]
    tensor = modelfmt.open(path).tensor(name)
    key = data.draw(keys(tensor.shape))
    whole = modelfmt.open(path).tensor(name).dequantize()
    for part in (tensor[key], modelfmt.open(path, mmap=True).tensor(name)[key]):
        np.testing.assert_array_equal(part.dequantize(), whole[key], strict=True)
        assert part.shape == whole[key].shape and part.dtype in ("f32", tensor.dtype)


class Counting:
    """The open model of a tensor, which notes the ranges that are read."""

    is_remote = False

    def __init__(self, model):
        self.model, self.ranges = model, []

    def native(self):
        return self

    def gather(self, position, ranges):
        self.ranges += ranges
        return self.model.native().gather(position, ranges)


def test_a_slice_of_blocks_reads_the_blocks_that_it_cuts(tmp_path):
    values = np.random.default_rng(1).standard_normal((64, 16384)).astype(np.float32)
    modelfmt.save({"w": values}, tmp_path / "m.safetensors")
    modelfmt.convert(tmp_path / "m.safetensors", tmp_path / "m.gguf", quantize="q4_k")
    model = modelfmt.open(tmp_path / "m.gguf")
    whole, tensor, source = model.tensor("w").dequantize(), model.tensor("w"), Counting(model)
    assert tensor.dtype == "q4_k"
    tensor._source = source
    part = tensor[0:3, 5:400]
    # A block of 256 elements is 144 bytes long.
    assert source.ranges == [(row * 64 * 144, row * 64 * 144 + 2 * 144) for row in range(3)]
    assert part.dtype == "f32" and part.numpy().dtype == np.float32
    np.testing.assert_array_equal(part.numpy(), whole[0:3, 5:400])
    source.ranges.clear()
    assert tensor[5, 300].numpy() == whole[5, 300] and source.ranges == [(5 * 64 * 144 + 144, 5 * 64 * 144 + 288)]
    source.ranges.clear()
    rows = tensor[10:20]
    assert rows.dtype == "q4_k" and source.ranges == [(10 * 64 * 144, 20 * 64 * 144)]
    np.testing.assert_array_equal(rows.dequantize(), whole[10:20])
    assert tensor[:, :0].numpy().shape == (64, 0)
    with pytest.raises(IndexError):
        tensor[0, 16384]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("to", FLOATS)
def test_numbers_are_rounded_once_to_the_nearest(tmp_path, dtype, to):
    import ml_dtypes

    def type_of(name):
        return np.dtype(getattr(ml_dtypes, _dtypes.EXTENDED[name].ml_dtype) if name in _dtypes.EXTENDED else _dtypes.NUMPY[name])

    values = np.random.default_rng(2).standard_normal(500).astype(type_of(dtype))
    modelfmt.save({"w": values}, tmp_path / "m.safetensors")
    tensor = modelfmt.open(tmp_path / "m.safetensors").tensor("w")
    cast = tensor.to(to)
    assert (cast.dtype, cast.shape, cast.name) == (to, (500,), "w") and cast.nbytes == 500 * type_of(to).itemsize
    if (dtype, to) == ("f64", "f16"):
        expected = values.astype(np.float16)
    else:
        # In two steps; the first is exact, except for f64.
        expected = values.astype(np.float32).astype(type_of(to)) if dtype != "f64" else values.astype(type_of(to))
    same = cast.numpy().view(np.uint8) == expected.view(np.uint8)
    # ml_dtypes rounds f64 to f32 first.
    assert same.all() or dtype == "f64" and np.mean(same) > 0.99
    np.testing.assert_array_equal(tensor.numpy(dtype=type_of(to)), cast.numpy(), strict=True)
    np.testing.assert_array_equal(tensor.numpy(dtype=to), cast.numpy(), strict=True)
    np.testing.assert_array_equal(cast[3:9].numpy(), cast.numpy()[3:9], strict=True)


def test_the_rules_of_rounding(tmp_path):
    # Ties go to even, numbers that are too large become infinite, and integers are truncated and clamped to
    # their range.
    modelfmt.save({"w": np.array([2049.0, 2051.0, 70000.0, -1.7, 300.0])}, tmp_path / "m.safetensors")
    tensor = modelfmt.open(tmp_path / "m.safetensors").tensor("w")
    assert tensor.to("f16").numpy().tolist() == [2048, 2052, np.inf, -1.7001953125, 300]
    assert tensor.to("u8").numpy().tolist() == [255, 255, 255, 0, 255]
    assert tensor.to("i32").numpy().tolist() == [2049, 2051, 70000, -1, 300]
    for other in ("float16", "half", np.float16, np.dtype("<f2")):
        assert tensor.to(other).dtype == "f16"
    assert tensor.to("f64") is tensor
    modelfmt.save({"n": np.array([np.nan])}, tmp_path / "n.safetensors")
    with pytest.raises(modelfmt.UnsupportedError, match="f64 cannot be cast to i8: .*NaN"):
        modelfmt.open(tmp_path / "n.safetensors").tensor("n").to("i8").numpy()


def test_a_cast_is_lazy_and_can_be_saved(tmp_path, saved, arrays):
    model = modelfmt.open(saved)
    cast = model.tensor("a").to("bf16")
    assert cast._memory is None and cast[2:4]._origin is not None
    modelfmt.save({"a": cast}, tmp_path / "small.safetensors")
    modelfmt.convert(saved, tmp_path / "other.safetensors", cast="bf16", include="a")
    assert modelfmt.diff(tmp_path / "small.safetensors", tmp_path / "other.safetensors", ignore_metadata=True)["same"]
    assert np.asarray(model.tensor("a").to("f16")).dtype == np.float16
    assert np.from_dlpack(model.tensor("a").to("f64")).dtype == np.float64


def test_blocks_are_decoded_for_a_type(tmp_path):
    values = np.random.default_rng(3).standard_normal((4, 64)).astype(np.float32)
    modelfmt.save({"w": values}, tmp_path / "m.safetensors")
    modelfmt.convert(tmp_path / "m.safetensors", tmp_path / "m.gguf", quantize="q8_0")
    tensor = modelfmt.open(tmp_path / "m.gguf").tensor("w")
    decoded = tensor.dequantize()
    np.testing.assert_array_equal(tensor.numpy(dtype=np.float32), decoded, strict=True)
    np.testing.assert_array_equal(tensor.numpy(dtype="float32"), decoded, strict=True)
    np.testing.assert_array_equal(tensor.to("f16").numpy(), decoded.astype(np.float16), strict=True)
    np.testing.assert_array_equal(tensor.to("f16")[1:3, 7:40].numpy(), decoded.astype(np.float16)[1:3, 7:40], strict=True)
    assert tensor.numpy().dtype == np.uint8


def test_names_whose_digits_numpy_takes_for_bytes_are_refused(tmp_path):
    path, values = tmp_path / "m.safetensors", np.array([1 << 40, -5])
    modelfmt.save({"n": values}, path)
    tensor = modelfmt.open(path).tensor("n")
    names = {"i8": '"int8" or "int64"', "u8": '"uint8" or "uint64"', "i4": '"int32"', "u2": '"uint16"', "i1": '"int8"'}
    for name, meant in names.items():
        for call in (lambda: tensor.numpy(name), lambda: modelfmt.load(path, dtype=name)):
            with pytest.raises(modelfmt.UsageError, match=f'dtype="{name}" .*: give {meant}$'):
                call()
    for name in ("int64", "i64", "<i8", np.int64):
        np.testing.assert_array_equal(tensor.numpy(name), values, strict=True)
    assert tensor.to("i8").numpy().tolist() == tensor.numpy("int8").tolist() == [127, -5]


def test_what_no_file_has_is_numpys_own(saved, arrays):
    tensor = modelfmt.open(saved).tensor("a")
    assert tensor.numpy(dtype=np.complex128).dtype == np.complex128
    np.testing.assert_array_equal(modelfmt.open(saved).tensor("mask").numpy(dtype=np.float32), [1, 0, 1])
    np.testing.assert_array_equal(modelfmt.open(saved).tensor("a").numpy(dtype=bool), arrays["a"].astype(bool))
    np.testing.assert_array_equal(tensor.numpy(dtype=">f8"), arrays["a"].astype(">f8"))
    for wrong in ("q4_k", "c64", "t1"):
        with pytest.raises(modelfmt.UnsupportedError, match=f"f32 cannot be cast to {wrong}"):
            tensor.to(wrong)
    for wrong in ("float17", object(), None):
        with pytest.raises(modelfmt.UsageError):
            tensor.to(wrong)


def test_a_view_without_a_cast_costs_nothing(saved):
    tensor = modelfmt.open(saved).tensor("a")
    assert tensor.numpy(dtype="f32").ctypes.data == tensor.numpy().ctypes.data


def test_blocks_of_a_type():
    assert _modelfmt.block("q4_k") == (256, 144) and _modelfmt.block("f32") == (1, 4) and _modelfmt.block("apr_q8") is None
