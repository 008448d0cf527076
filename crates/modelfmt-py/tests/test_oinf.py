"""OINF from dataclasses: the bytes of openinfer-oinf 0.1.1, and back."""

import dataclasses
import json
import subprocess
import sys
from dataclasses import dataclass, field
from typing import Annotated, Any, Optional

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import modelfmt
from modelfmt import oinf
from modelfmt.oinf import Bitset, ScalarValue, SizeVar, TensorSpec, UninitializedTensor, read_oinf, write_oinf

upstream = pytest.importorskip("dataclass_to_oinf")


@dataclass
class Minimal:
    B: int
    a: TensorSpec


@dataclass
class Example:
    D: int
    B: int
    a: TensorSpec
    x: TensorSpec
    W_0: TensorSpec
    mode: str
    y: UninitializedTensor
    kernel: TensorSpec


def minimal():
    random = np.random.default_rng(1)
    return Minimal(B=1024, a=TensorSpec(random.uniform(-1.0, 1.0, size=1024).astype(np.float32)))


def example():
    random = np.random.default_rng(0)
    a = random.normal(size=1024).astype(np.float16)
    w0 = random.normal(size=128).astype(np.float32)
    kernel = random.integers(0, 256, size=(128, 128), dtype=np.uint8)
    return Example(
        D=128,
        B=1024,
        a=TensorSpec(a),
        x=TensorSpec(np.array(10.35, dtype=np.float32)),
        W_0=TensorSpec(w0, name="W.0"),
        mode="clamp_up",
        y=UninitializedTensor(dtype="i16", shape=()),
        kernel=TensorSpec(kernel),
    )


OURS = {TensorSpec: "TensorSpec", UninitializedTensor: "UninitializedTensor", ScalarValue: "ScalarValue"}
OURS |= {Bitset: "Bitset", SizeVar: "SizeVar"}


def theirs(value: Any) -> Any:
    """The same value of upstream's classes."""
    if isinstance(value, TensorSpec):
        return upstream.TensorSpec(value.data, dtype=value.dtype, name=value.name)
    if isinstance(value, UninitializedTensor):
        return upstream.UninitializedTensor(value.dtype, value.shape, name=value.name)
    if isinstance(value, ScalarValue):
        return upstream.ScalarValue(value.value, dtype=value.dtype)
    if isinstance(value, SizeVar):
        return upstream.SizeVar(value.value)
    if isinstance(value, Bitset):
        return upstream.Bitset(value.bits)
    if isinstance(value, dict):
        return {key: theirs(one) for key, one in value.items()}
    return value


def their_bytes(instance):
    """What upstream writes of the same dataclass."""
    fields = []
    for one in dataclasses.fields(instance):
        kind = getattr(upstream, OURS[one.type]) if one.type in OURS else one.type
        fields.append((one.name, kind, field(metadata=dict(one.metadata))))
    cls = dataclasses.make_dataclass("Theirs", fields)
    return upstream.dataclass_to_oinf(cls(*(theirs(getattr(instance, one.name)) for one in dataclasses.fields(instance))))


@pytest.mark.parametrize("make", [minimal, example])
def test_the_published_examples(tmp_path, make):
    path = tmp_path / "m.oinf"
    write_oinf(make(), path)
    assert path.read_bytes() == their_bytes(make())
    again = read_oinf(path, type(make()))
    write_oinf(again, tmp_path / "again.oinf")
    assert (tmp_path / "again.oinf").read_bytes() == path.read_bytes()
    assert modelfmt.verify(path)["ok"]


def test_a_name_that_is_no_identifier(tmp_path):
    path = tmp_path / "m.oinf"
    write_oinf(example(), path)
    again = read_oinf(path, Example)
    assert again.W_0.name == "W.0" and again.y == UninitializedTensor("i16", ()) and again.mode == "clamp_up"
    np.testing.assert_array_equal(again.W_0.data, example().W_0.data)

    @dataclass
    class Wrong:
        nothing: str

    with pytest.raises(modelfmt.UsageError, match="nothing for nothing"):
        read_oinf(path, Wrong)


NAMES = st.from_regex("[a-z][a-zA-Z0-9_]{0,6}", fullmatch=True).filter(
    lambda name: name not in ("sizevars", "metadata", "tensors") and not __import__("keyword").iskeyword(name)
)
STORED = st.from_regex("[A-Za-z0-9._-]{1,9}", fullmatch=True)
PLAIN = ["?", "i1", "u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8"]
SHAPES = arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5)
PLAIN_ARRAYS = st.sampled_from(PLAIN).flatmap(lambda dtype: arrays.arrays(dtype, SHAPES))
FLOATS = arrays.arrays(np.float32, SHAPES, elements=st.floats(width=32, allow_nan=False))
RANGES = {"i4": (-8, 7), "i2": (-2, 1), "i1": (-1, 0), "u4": (0, 15), "u2": (0, 3), "u1": (0, 1), "t2": (-1, 1)}
PACKED = st.sampled_from(sorted(RANGES)).flatmap(
    lambda dtype: st.tuples(arrays.arrays(np.int8, SHAPES, elements=st.integers(*RANGES[dtype])), st.just(dtype))
)
TERNARY = arrays.arrays(np.int8, SHAPES, elements=st.sampled_from([-1, 1])).map(lambda data: (data, "t1"))
TYPED = PACKED | TERNARY | st.tuples(FLOATS, st.sampled_from(["bf16", "f8", "f8e5m2", "f16", "f64"]))
TENSORS = st.one_of(
    PLAIN_ARRAYS.map(TensorSpec),
    TYPED.map(lambda pair: TensorSpec(*pair)),
    st.builds(UninitializedTensor, st.sampled_from(["i16", "f32", "bf16", "u4"]), st.lists(st.integers(0, 9), max_size=3)),
)
TEXT = st.from_regex("[A-Za-z0-9._-]{1,20}", fullmatch=True)
NUMBERS = st.integers(-(2**63), 2**64 - 1)
FLOAT = st.floats(width=32, allow_nan=False)
SCALARS = st.one_of(
    st.builds(ScalarValue, st.integers(0, 100), st.sampled_from(["i8", "u16", "i64", "f32", "f16", "bf16", "f8", None])),
    st.builds(ScalarValue, FLOAT, st.sampled_from(["f32", "f64", "bf16", "f8", None])),
    st.builds(ScalarValue, st.integers(0, 1), st.sampled_from(["u4", "u2", "u1", "i4", "i2"])),
)
FIELDS = st.one_of(
    st.tuples(st.just(int), st.integers(0, 2**64 - 1)),
    st.tuples(st.just(SizeVar), st.integers(0, 2**64 - 1).map(SizeVar)),
    st.tuples(st.just(TensorSpec), TENSORS.filter(lambda one: isinstance(one, TensorSpec))),
    st.tuples(st.just(UninitializedTensor), TENSORS.filter(lambda one: isinstance(one, UninitializedTensor))),
    st.tuples(st.just(np.ndarray), PLAIN_ARRAYS),
    st.tuples(st.just(str), TEXT),
    st.tuples(st.just(bool), st.booleans()),
    st.tuples(st.just(float), FLOAT | st.integers(-9, 9)),
    st.tuples(st.just(Any), NUMBERS),
    st.tuples(st.just(ScalarValue), SCALARS),
    st.tuples(st.just(Bitset), st.lists(st.booleans(), max_size=20).map(Bitset)),
    st.tuples(st.just(list), st.lists(st.integers(-(2**40), 2**40), max_size=5)),
    st.tuples(st.just(list), st.lists(FLOAT, max_size=5) | st.lists(st.booleans(), min_size=1, max_size=5)),
)


@settings(max_examples=150)
@given(st.data(), st.dictionaries(NAMES, FIELDS, max_size=8))
def test_random_dataclasses(tmp_path_factory, data, fields):
    stored = iter(data.draw(st.lists(STORED, min_size=len(fields), max_size=len(fields), unique=True)))
    values = []
    for _, value in fields.values():
        name = next(stored)
        if isinstance(value, (TensorSpec, UninitializedTensor)) and name not in fields and data.draw(st.booleans()):
            value = dataclasses.replace(value, name=name)
        values.append(value)
    cls = dataclasses.make_dataclass("Model", [(name, kind) for name, (kind, _) in fields.items()])
    instance = cls(*values)
    folder = tmp_path_factory.mktemp("oinf")
    write_oinf(instance, folder / "m.oinf")
    with np.errstate(all="ignore"):
        assert (folder / "m.oinf").read_bytes() == their_bytes(instance)
    if not any(isinstance(value, Bitset) and not value.bits for value in values):
        assert modelfmt.verify(folder / "m.oinf")["ok"]
    readable = dataclasses.make_dataclass("Again", [(name, kind) for name, (kind, _) in fields.items()])
    if all(getattr(value, "name", None) is None for value in values):
        write_oinf(read_oinf(folder / "m.oinf", readable), folder / "again.oinf")
        # A number has a type of its own when it is read, unless the field keeps the original one.
        if not any(kind in (Any, list, float) for kind, _ in fields.values()):
            assert (folder / "again.oinf").read_bytes() == (folder / "m.oinf").read_bytes()


def test_every_float_of_8_and_of_16_bits(tmp_path):
    random = np.random.default_rng(3)
    bits = random.integers(0, 2**32, 20_000, dtype=np.uint64).astype(np.uint32)
    exponents = (np.arange(256, dtype=np.uint32) << 23)[:, None] | np.arange(0, 1 << 23, 1 << 18, dtype=np.uint32)
    floats = np.concatenate((bits, exponents.reshape(-1), [0x80000000, 0x7F800000, 0xFF800000])).astype(np.uint32)
    floats = floats.view(np.float32)
    floats = floats[~np.isnan(floats)]

    @dataclass
    class Model:
        f8: TensorSpec
        bf16: TensorSpec

    instance = Model(TensorSpec(floats, dtype="f8"), TensorSpec(floats, dtype="bf16"))
    write_oinf(instance, tmp_path / "m.oinf")
    with np.errstate(all="ignore"):
        assert (tmp_path / "m.oinf").read_bytes() == their_bytes(instance)


def test_dicts_and_annotations(tmp_path):
    @dataclass
    class Model:
        w: Annotated[list, {"dtype": "f16"}]
        n: Annotated[Any, "sizevar"]
        later: Optional[np.ndarray] = field(default=None, metadata={"tensor": True, "dtype": "bf16", "shape": (2, 3)})
        sizevars: dict = field(default_factory=lambda: {"a.b": 3})
        metadata: dict = field(default_factory=lambda: {"k-1": 0.5, "bits": Bitset([1, 0])})
        tensors: dict = field(default_factory=lambda: {"W.0": np.arange(3), "W.1": TensorSpec([1, -1], "t1")})

    path = tmp_path / "m.oinf"
    write_oinf(Model(w=[0.5, 1], n=7), path)
    model = modelfmt.open(path)
    assert model.details["sizevars"] == {"a.b": 3, "n": 7}
    assert model["w"].tolist() == [0.5, 1] and model.info("later").dtype == "bf16" and not model.info("later").has_data
    again = read_oinf(path, Model)
    assert again.sizevars == {"a.b": 3} and again.metadata["bits"] == Bitset([True, False])
    assert again.tensors["W.1"].data.tolist() == [1, -1]
    write_oinf(again, tmp_path / "again.oinf")


@pytest.mark.parametrize(
    "value",
    [
        TensorSpec([9], "i4"),
        TensorSpec([0], "t1"),
        TensorSpec([1], "f99"),
        TensorSpec([[1], [1, 2]]),
        TensorSpec([1], name="no blanks"),
        TensorSpec(np.zeros(1, complex)),
        ScalarValue(300, "u8"),
        "two words",
        2**64,
        object(),
    ],
)
def test_what_cannot_be_written(tmp_path, value):
    @dataclass
    class Model:
        x: Any

    with pytest.raises(modelfmt.ModelfmtError):
        write_oinf(Model(value), tmp_path / "m.oinf")
    assert not (tmp_path / "m.oinf").exists()


def test_the_command_line(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from dataclasses import dataclass\nfrom modelfmt.oinf import TensorSpec\n"
        "@dataclass\nclass Model:\n    D: int\n    mode: str\n    w: TensorSpec\n"
    )
    (tmp_path / "data.json").write_text(json.dumps({"D": 2, "mode": "x", "w": {"data": [0.5, 1], "dtype": "f32"}}))

    def run(*args):
        return subprocess.run([sys.executable, "-m", "modelfmt.oinf", *args], capture_output=True, text=True, cwd=tmp_path)

    done = run("--input", "mine:Model", "--json", "data.json", "--output", "m.oinf")
    assert done.returncode == 0, done.stderr
    done = run("verify", "m.oinf")
    assert done.returncode == 0 and done.stdout == modelfmt.show(tmp_path / "m.oinf")
    assert done.stdout.startswith('D := 2\n\nmode: str = "x"\n\nw: f32[2] = { 0.5, 1 }\n')
    content = bytearray((tmp_path / "m.oinf").read_bytes())
    content[6] = 9
    (tmp_path / "bad.oinf").write_bytes(content)
    assert run("verify", "bad.oinf").returncode == 1
    mistakes = {
        ("--input", "mine"): "MODULE:NAME",
        ("--input", "none:Model"): "No module named 'none'",
        ("--input", "mine:None"): "mine has no None",
        ("--input", "mine:dataclass"): "no dataclass",
        ("--input", "mine:Model"): "--json gives its fields",
        ("--input", "mine:Model", "--json", "none.json"): "No such file",
        ("--input", "mine:Model", "--json", "mine.py"): "mine.py: Expecting value",
    }
    for args, expected in mistakes.items():
        done = run(*args, "--output", "m.oinf")
        assert done.returncode == 1 and expected in done.stderr and "Traceback" not in done.stderr, done.stderr


def test_a_file_that_cannot_be_written_is_an_error_of_the_system(tmp_path):
    @dataclasses.dataclass
    class Model:
        D: int

    with pytest.raises(FileNotFoundError, match="No such file"):
        write_oinf(Model(1), tmp_path / "none" / "m.oinf")
    with pytest.raises(IsADirectoryError) as caught:
        write_oinf(Model(1), tmp_path)
    assert caught.value.filename == str(tmp_path)


def test_names_are_exported():
    assert set(oinf.__all__) >= {"TensorSpec", "UninitializedTensor", "ScalarValue", "Bitset", "write_oinf", "read_oinf"}
