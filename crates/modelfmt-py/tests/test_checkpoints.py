"""Checkpoints of PyTorch and files of numpy: read without running anything, with torch and without."""

import subprocess
import sys
import zipfile

import numpy as np
import pytest
from conftest import TESTDATA

import modelfmt


def test_numpy_needs_no_torch():
    code = f"""
import sys
import modelfmt
sys.modules["torch"] = None      # importing it is an error
tensors = modelfmt.load({str(TESTDATA / "pytorch" / "views.pt")!r})
assert tensors["whole"].shape == (4, 6) and (tensors["transposed"] == tensors["whole"].T).all()
assert tensors["slice"].tolist() == tensors["whole"].reshape(-1)[7:][[0, 1, 2, 6, 7, 8]].reshape(2, 3).tolist()
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_files_of_numpy(tmp_path):
    rng = np.random.default_rng(0)
    arrays = {
        "c": rng.standard_normal((3, 4)).astype(np.float32),
        "fortran": np.asfortranarray(rng.standard_normal((3, 4, 2))),
        "big": np.arange(5, dtype=">i4"),
        "flag": np.array([True, False]),
        "scalar": np.float64(2.5),
        "empty": np.zeros((0, 3), np.int8),
        "layer/0.weight": rng.standard_normal((2, 2)).astype(np.complex64),
    }
    np.savez(tmp_path / "m.npz", **arrays)
    np.savez_compressed(tmp_path / "z.npz", **arrays)
    for path in (tmp_path / "m.npz", tmp_path / "z.npz"):
        loaded = modelfmt.load(path)
        assert loaded.keys() == arrays.keys()
        for name, array in arrays.items():
            assert loaded[name].shape == np.shape(array) and (loaded[name] == array).all()
    np.save(tmp_path / "a.npy", arrays["fortran"])
    assert (modelfmt.load(tmp_path / "a.npy")["array"] == arrays["fortran"]).all()
    # Objects are a pickle, which is not executed.
    np.save(tmp_path / "o.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(modelfmt.FormatError, match="Python objects"):
        modelfmt.load(tmp_path / "o.npy")


def test_what_a_pickle_would_call_is_found_and_not_run():
    path = TESTDATA / "pytorch" / "unknown.pt"
    found = modelfmt.check(path)
    assert found["runs_code"] and "os.system" in found["globals"] and not found["ok"]
    assert modelfmt.load(path).keys() == {"model.w"}
    assert modelfmt.load(path, root="model").keys() == {"w"}
    assert list(modelfmt.open(path, root="model")) == ["w"]
    with pytest.raises(modelfmt.FormatError, match="nothing"):
        modelfmt.open(path, root="nothing")


def test_damage_is_found(tmp_path):
    source, path = TESTDATA / "pytorch" / "views.pt", tmp_path / "m.pt"
    content = bytearray(source.read_bytes())
    with zipfile.ZipFile(source) as archive:
        at = content.rindex(archive.read("archive/data/1"))
    content[at] ^= 1
    path.write_bytes(content)
    with pytest.raises(modelfmt.VerifyError, match="archive/data/1"):
        modelfmt.load(path)
    assert modelfmt.load(path, verify=False).keys() == modelfmt.load(source).keys()


def flat(value, path, out, torch):
    """The tensors of a checkpoint by the names that modelfmt gives them."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, (list, tuple)) else ()
    if isinstance(value, torch.Tensor):
        out[path or "tensor"] = value.detach()
    for key, inner in items:
        flat(inner, f"{path}.{key}" if path else str(key), out, torch)
    return out


def bits(tensor, torch):
    """Values as numbers that compare as their bits do."""
    return tensor.contiguous().view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor


@pytest.mark.parametrize("old", [False, True])
def test_what_torch_loads(tmp_path, old):
    torch = pytest.importorskip("torch")
    torch.manual_seed(1)
    base = torch.randn(6, 8)
    dtypes = "float32 float64 float16 bfloat16 int64 int32 int16 int8 uint8 bool complex64".split()
    checkpoint = {
        "state_dict": {name: (torch.rand(3, 5) * 9).to(getattr(torch, name)) for name in dtypes},
        "views": [base, base.t(), base[1:3, ::2], base[0].expand(4, 8), base[:0], base[2, 3]],
        "parameter": torch.nn.Parameter(torch.randn(2)),
        "optimizer": {"state": {0: {"exp_avg": torch.randn(2)}}, "step": 5},
        "epoch": 3,
    }
    path = tmp_path / "checkpoint.bin"
    torch.save(checkpoint, path, _use_new_zipfile_serialization=not old)
    arguments = {"weights_only": True} if "weights_only" in torch.load.__code__.co_varnames else {}
    expected = flat(torch.load(path, map_location="cpu", **arguments), "", {}, torch)
    for loaded in (modelfmt.load(path, framework="torch"), modelfmt.open(path, mmap=True)):
        assert list(loaded) == list(expected)
        for name, tensor in expected.items():
            found = loaded[name] if isinstance(loaded, dict) else loaded.tensor(name).torch()
            assert found.dtype == tensor.dtype and found.shape == tensor.shape, name
            assert torch.equal(bits(found, torch), bits(tensor, torch)), name
    part = modelfmt.load(path, framework="torch", root="state_dict")
    assert list(part) == dtypes
    modelfmt.convert(path, tmp_path / "m.safetensors", root="state_dict", lossy=True)
    again = modelfmt.load(tmp_path / "m.safetensors", framework="torch")
    assert all(torch.equal(bits(again[name], torch), bits(part[name], torch)) for name in dtypes)
