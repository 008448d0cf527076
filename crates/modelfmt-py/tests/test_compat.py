"""modelfmt.compat.safetensors: the tests of safetensors itself, from its source package, and the same calls over other formats."""

import os
import subprocess
import sys
import tarfile
import textwrap
from pathlib import Path

import numpy as np
import pytest

import modelfmt
from modelfmt.compat import safetensors as compat
from modelfmt.compat.safetensors import numpy as compat_numpy

# The tests that do not pass, and why.
EXCEPTIONS: dict[str, str] = {}
FILES = ["test_simple.py", "test_pt_comparison.py", "test_multithreaded.py", "test_pt_model.py", "test_pread_backend.py"]
FILES_LEFT_OUT = {
    "test_handle.py": "_safe_open_handle, which takes an open file, is private to safetensors",
    "test_threadable.py": "writes 800 MB to see that others run beside it, which test_robust.py sees in less",
    "test_flax_comparison.py": "another framework",
    "test_mlx_comparison.py": "another framework",
    "test_paddle_comparison.py": "another framework",
    "test_tf_comparison.py": "another framework",
}

# Replaces the package in its own tests.
SHIM = {
    "__init__.py": "from modelfmt.compat.safetensors import *\n",
    "numpy.py": "from modelfmt.compat.safetensors.numpy import *\n",
    "torch.py": "from modelfmt.compat.safetensors.torch import *\n"
    "from modelfmt.compat.safetensors._shared import end_ptr as _end_ptr, is_complete as _is_complete\n"
    "from modelfmt.compat.safetensors._shared import find_shared as _find_shared_tensors, duplicates as _remove_duplicate_names\n",
}


@pytest.fixture
def upstream(tmp_path):
    """The tests of safetensors, and a package of its name that is ours."""
    folder = Path(os.environ.get("MODELFMT_SAFETENSORS_TESTS", ""))
    archives = list(folder.glob("safetensors-*.tar.gz")) if str(folder) != "." else []
    if not archives:
        pytest.skip("the source package of safetensors is not there: `cargo xtask python` fetches it")
    with tarfile.open(archives[0]) as archive:
        for member in archive.getmembers():
            _, _, name = member.name.partition("/bindings/python/tests/")
            if member.isfile() and name:
                content = archive.extractfile(member)
                target = tmp_path / "tests" / name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content.read())
    for name, text in SHIM.items():
        path = tmp_path / "shim/safetensors" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_the_tests_of_safetensors_pass(upstream):
    pytest.importorskip("torch")
    assert sorted(path.name for path in upstream.glob("tests/*.py")) == sorted([*FILES, *FILES_LEFT_OUT])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore"]
    command += [f"tests/{name}" for name in FILES]
    for name in EXCEPTIONS:
        command += ["--deselect", f"tests/{name}"]
    paths = [str(upstream / "shim"), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(command, cwd=upstream, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout and (f"{len(EXCEPTIONS)} deselected" in done.stdout) == bool(EXCEPTIONS)


def test_the_bytes_are_those_of_safetensors(tmp_path, arrays):
    theirs = pytest.importorskip("safetensors.numpy")
    random = np.random.default_rng(1)
    types = ["?", "u1", "i1", "<i2", "<u2", "<f2", "<i4", "<u4", "<f4", "<c8", "<f8", "<i8", "<u8"]
    for number in range(20):
        names = random.permutation([f"t{n}" for n in range(9)])
        tensors = {
            str(name): random.integers(0, 2, random.integers(0, 4, 2)).astype(random.choice(types)) for name in names
        }
        metadata = {"b": "é", "a": "x"} if number % 2 else None
        assert compat_numpy.save(tensors, metadata)[:200] == theirs.save(tensors, metadata)[:200] or number % 2
        again = compat_numpy.load(theirs.save(tensors, metadata))
        assert set(again) == set(tensors)
        for name, array in tensors.items():
            np.testing.assert_array_equal(again[name], array, strict=True)
        if not number % 2:
            assert compat_numpy.save(tensors) == theirs.save(tensors)


def test_tensors_by_their_addresses():
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    spec = compat.TensorSpec(dtype="float32", shape=array.shape, data_ptr=array.ctypes.data, data_len=array.nbytes)
    assert (spec.dtype, spec.shape) == ("F32", [2, 3])
    empty = compat.TensorSpec(dtype="int8", shape=[0], data_ptr=0, data_len=0)
    content = compat.serialize({"w": spec, "e": empty}, {"a": "b"})
    assert content == compat_numpy.save({"w": array, "e": np.zeros(0, np.int8)}, {"a": "b"})
    found = dict(compat.deserialize(content))
    assert found["w"] == {"shape": [2, 3], "dtype": "F32", "data": bytearray(array.tobytes())}
    assert compat.TensorSpec(dtype="float4_e2m1fn_x2", shape=[2, 2], data_ptr=0, data_len=4).shape == [2, 4]
    with pytest.raises(TypeError, match="TensorSpec"):
        compat.serialize({"w": {"dtype": "float32"}})
    with pytest.raises(compat.SafetensorError):
        compat.deserialize(b"hello")


def test_a_file_at_a_url(web, arrays):
    modelfmt.save({"a": arrays["a"]}, web.folder / "m.gguf")
    loaded = compat_numpy.load_file(f"{web.endpoint}/m.gguf")
    np.testing.assert_array_equal(loaded["a"], arrays["a"], strict=True)
    with compat.safe_open(f"{web.endpoint}/m.gguf", framework="np") as file:
        np.testing.assert_array_equal(file.get_slice("a")[2:4], arrays["a"][2:4])
    with pytest.raises(FileNotFoundError):
        compat_numpy.load_file(f"{web.endpoint}/none")


def test_modules_are_saved_and_loaded(tmp_path):
    torch = pytest.importorskip("torch")
    from modelfmt.compat.safetensors.torch import load_model, save_model

    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.head = torch.nn.Embedding(5, 3), torch.nn.Linear(3, 5, bias=False)
            self.head.weight = self.embed.weight

    module, path = Tied(), tmp_path / "m.safetensors"
    save_model(module, path, {"license": "MIT"})
    with compat.safe_open(path, framework="pt") as file:
        assert file.keys() == ["embed.weight"]
        assert file.metadata() == {"license": "MIT", "head.weight": "embed.weight"}
    modelfmt.convert(path, tmp_path / "m.aero", model_name="m", architecture="a")
    for each in (path, tmp_path / "m.aero"):
        other = Tied()
        assert load_model(other, each) == (set(), [])
        assert torch.equal(other.head.weight, module.embed.weight)
    with pytest.raises(RuntimeError, match="Missing key"):
        load_model(torch.nn.Linear(3, 5), path)
    missing, unexpected = load_model(torch.nn.Linear(3, 5), path, strict=False)
    assert (missing, unexpected) == ({"weight", "bias"}, ["embed.weight"])


def test_other_formats(tmp_path, arrays):
    path = tmp_path / "m.aero"
    modelfmt.save(arrays, path, metadata={"license": "MIT", "layers": 3})
    loaded = compat_numpy.load_file(path)
    for name, array in arrays.items():
        np.testing.assert_array_equal(loaded[name], array, strict=True)
    with compat.safe_open(path, framework="np") as file:
        assert sorted(file.offset_keys()) == file.keys() == sorted(arrays)
        part = file.get_slice("a")
        assert part.get_shape() == [16, 8] and part.get_dtype() == "F32"
        np.testing.assert_array_equal(part[2:4, :3], arrays["a"][2:4, :3])
        assert file.metadata() is not None
    with pytest.raises(compat.SafetensorError, match="closed"):
        file.keys()


def test_errors(tmp_path):
    (tmp_path / "text").write_text("hello")
    with pytest.raises(compat.SafetensorError):
        compat.safe_open(tmp_path / "text", framework="np")
    with pytest.raises(compat.SafetensorError):
        compat_numpy.load(b"hello")
    with pytest.raises(compat.SafetensorError, match="framework"):
        compat.safe_open(tmp_path / "text", framework="abacus")
    assert textwrap.dedent(compat.__doc__)
