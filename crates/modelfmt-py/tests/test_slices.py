"""Slices read what numpy's slices have, and no more than they need."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import modelfmt
from modelfmt import _slices


@st.composite
def keys(draw, shape):
    """A key that numpy takes, too, in which any dimension may have a number, and one a list of indices or a mask."""
    one = []
    listed = draw(st.integers(0, len(shape)))
    for axis, size in enumerate(shape):
        kind = draw(st.sampled_from(["list", "mask"] if axis == listed else ["slice"] + ["int", "int64"] * (size > 0)))
        if kind == "slice":
            one.append(draw(st.slices(size)))
        elif kind == "mask":
            mask = draw(st.lists(st.booleans(), min_size=size, max_size=size))
            one.append(np.array(mask, dtype=bool))
        elif kind == "list":
            index = st.integers(-size, size - 1) if size else st.nothing()
            one.append(draw(st.lists(index, max_size=4)) if size else [])
        else:
            number = draw(st.integers(-size, size - 1))
            one.append(np.int64(number) if kind == "int64" else number)
    if draw(st.booleans()):
        # An ellipsis replaces some dimensions, or none.
        at = draw(st.integers(0, len(one)))
        one[at : draw(st.integers(at, len(one)))] = [...]
    elif draw(st.booleans()):
        del one[draw(st.integers(0, len(one))) :]
    return one[0] if len(one) == 1 and draw(st.booleans()) else tuple(one)


SHAPE = arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=6)


@settings(max_examples=300)
@given(st.data(), SHAPE, st.sampled_from(["u1", "<f4", "<f8"]))
def test_slices_are_those_of_numpy(tmp_path_factory, data, shape, dtype):
    array = np.arange(int(np.prod(shape))).astype(dtype).reshape(shape)
    path = tmp_path_factory.mktemp("slices") / "m.safetensors"
    modelfmt.save({"w": array}, path)
    key = data.draw(keys(shape))
    part = modelfmt.open(path).tensor("w")[key]
    expected = array[key]
    np.testing.assert_array_equal(part.numpy(), expected)
    assert part.shape == expected.shape
    in_memory = modelfmt.open(path).tensor("w")
    in_memory.numpy()
    np.testing.assert_array_equal(in_memory[key].numpy(), expected)


def test_a_list_beside_numbers_goes_where_numpy_puts_it(tmp_path):
    array = np.arange(3 * 4 * 5 * 6).reshape(3, 4, 5, 6)
    modelfmt.save({"w": array}, tmp_path / "m.safetensors")
    tensor = modelfmt.open(tmp_path / "m.safetensors").tensor("w")
    for key, shape in [
        (np.s_[0, :, [1, 3]], (2, 4, 6)),
        (np.s_[:, 0, :, [1, 3]], (2, 3, 5)),
        (np.s_[[1, 2], :, 0], (2, 4, 6)),
        (np.s_[:, 0, [1, 3]], (3, 2, 6)),
        (np.s_[..., [1, 3], 0], (3, 4, 2)),
        (np.s_[0, ..., [1, 3]], (2, 4, 5)),
        (np.s_[:, :, 0, ..., [1, 3]], (2, 3, 4)),
        (np.s_[0, :, [], 0], (0, 4)),
    ]:
        assert tensor[key].shape == shape
        np.testing.assert_array_equal(tensor[key].numpy(), array[key])


@settings(max_examples=300)
@given(st.data(), SHAPE)
def test_one_run_is_what_stands_together(data, shape):
    array = np.arange(int(np.prod(shape))).reshape(shape)
    key = data.draw(keys(shape))
    run = _slices.one_run(key, shape)
    if run is not None:
        first, last, result = run
        np.testing.assert_array_equal(array.reshape(-1)[first:last].reshape(result), array[key])


def test_plain_slices_are_one_run():
    shape = (3, 4, 5)
    runs = [(1, (20, 40)), (np.s_[1:3], (20, 60)), (np.s_[0, 2], (10, 15)), (np.s_[-1, -1, 1:3], (56, 58)), ((), (0, 60))]
    for key, expected in runs:
        assert _slices.one_run(key, shape)[:2] == expected
    for key in (np.s_[:, 1], np.s_[::2], np.s_[1:1], np.s_[True], [0], np.s_[3], np.s_[0, 0, 0, 0], ...):
        assert _slices.one_run(key, shape) is None


def planned(shape, unit, key):
    return _slices.plan(_slices.resolve(key, shape), shape, unit)


def test_only_the_ranges_are_read():
    rows = planned((1000, 5000), 4, np.s_[10:20])
    assert rows.ranges == [(10 * 20_000, 20 * 20_000)]
    column = planned((1000, 5000), 4, np.s_[:, 7])
    assert len(column.ranges) == 1000 and sum(end - start for start, end in column.ranges) == 4000
    # Small gaps are read together with their neighbours.
    assert planned((1000, 8), 4, np.s_[:, 7]).ranges == [(0, 32_000)]
    scattered = planned((1_000_000,), 8, [999_999, 0, 0])
    assert scattered.ranges == [(0, 8), (7_999_992, 8_000_000)]
    assert planned((1000, 5000), 4, np.s_[:1:-1]).ranges == [(40_000, 20_000_000)]
    assert planned((10, 0, 5), 4, ...).ranges == []


def test_slices_of_slices(saved, arrays):
    part = modelfmt.open(saved).tensor("a")[2:9][::-1][1:3, -2:]
    np.testing.assert_array_equal(part.numpy(), arrays["a"][2:9][::-1][1:3, -2:])


def test_masks(saved, arrays):
    mask = arrays["a"][:, 0] > 0
    np.testing.assert_array_equal(modelfmt.open(saved).tensor("a")[mask].numpy(), arrays["a"][mask])


@pytest.mark.parametrize("key", [16, -17, (0, 0, 0), ([0, 16],), (slice(None), 8)])
def test_outside_is_an_index_error(saved, key):
    with pytest.raises(IndexError):
        modelfmt.open(saved).tensor("a")[key]


@pytest.mark.parametrize("key", [None, 1.5, "a", True, (..., ...), ([0], [1]), [0.5]])
def test_what_is_no_slice(saved, key):
    with pytest.raises(ValueError):
        modelfmt.open(saved).tensor("a")[key]


@settings(max_examples=60)
@given(st.sampled_from(["int4", "uint4", "int2", "uint2"]), arrays.array_shapes(max_dims=2, max_side=7), st.data())
def test_packed_types_slice_by_elements(name, shape, data):
    import ml_dtypes

    low, high = {"int4": (-8, 7), "uint4": (0, 15), "int2": (-2, 1), "uint2": (0, 3)}[name]
    values = data.draw(arrays.arrays(np.int8, shape, elements=st.integers(low, high)))
    from modelfmt import Tensor, _dtypes, _modelfmt

    packed = _dtypes.of_numpy(np.dtype(getattr(ml_dtypes, name)))
    memory = _modelfmt.Memory.copy_of(_dtypes.pack(packed, values))
    tensor = Tensor("w", packed, shape, memory.nbytes, memory=memory)
    np.testing.assert_array_equal(tensor.numpy().astype(np.int8), values)
    key = data.draw(keys(shape))
    np.testing.assert_array_equal(tensor[key].numpy().astype(np.int8), values[key])
    assert tensor.dequantize().tolist() == values.tolist()


def test_a_slice_leaves_the_memory_of_others_alone(tmp_path):
    """Memory that an array has let go of is used again, and none that somebody still looks at."""
    array = np.arange(64 * 2048, dtype=np.float32).reshape(64, 2048)
    modelfmt.save({"w": array}, tmp_path / "m.safetensors")
    model = modelfmt.open(tmp_path / "m.safetensors")
    held = {}
    for turn, row in enumerate([*range(64), *range(63, -1, -1)]):
        part = model.tensor("w")[row : row + 1]
        if turn % 3 == 0:
            held[row] = part.numpy()
        elif turn % 3 == 1:
            held[row] = np.from_dlpack(part)[:, 5:]
    assert len({one.ctypes.data for one in held.values()}) == len(held)
    for row, one in held.items():
        np.testing.assert_array_equal(one, array[row : row + 1, -one.shape[1] :])
