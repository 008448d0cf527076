"""Tensors of torch, read and saved."""

import numpy as np
import pytest

import modelfmt

torch = pytest.importorskip("torch")

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64"]
DTYPES += [name for name in ("float8_e4m3fn", "float8_e5m2", "uint16", "uint32", "uint64") if hasattr(torch, name)]


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 2)])
def test_every_type(tmp_path, name, shape):
    path = tmp_path / "m.safetensors"
    tensor = (torch.arange(int(np.prod(shape))) % 2).reshape(shape).to(getattr(torch, name))
    modelfmt.save({"w": tensor}, path)
    for mmap in (False, True):
        again = modelfmt.open(path, mmap=mmap).tensor("w").torch()
        assert again.dtype == tensor.dtype and again.shape == tensor.shape and torch.equal(again, tensor)
    loaded = modelfmt.load(path, framework="torch")["w"]
    assert torch.equal(loaded, tensor)


def test_without_a_copy(tmp_path):
    path = tmp_path / "m.safetensors"
    modelfmt.save({"w": torch.arange(100.0), "b": torch.arange(100).to(torch.bfloat16)}, path)
    model = modelfmt.open(path, mmap=True)
    tensor = model.tensor("w")
    assert tensor.torch().data_ptr() == tensor.numpy().ctypes.data
    b = torch.from_dlpack(model.tensor("b"))
    assert b.dtype == torch.bfloat16 and b.data_ptr() == model.tensor("b").torch().data_ptr()
    # torch has no read-only tensors; a private map accepts the writes.
    b[0] = 5
    w = torch.from_dlpack(tensor)
    w[0] = 5
    model.close()
    del model, tensor
    assert w[0] == 5 and w[99] == 99 and b[0] == 5
    assert modelfmt.open(path)["w"][0] == 0


def test_a_slice(tmp_path):
    path = tmp_path / "m.safetensors"
    modelfmt.save({"w": torch.arange(24).reshape(4, 6).to(torch.bfloat16)}, path)
    part = modelfmt.open(path).tensor("w")[1::2, [0, -1]].torch()
    assert part.dtype == torch.bfloat16 and part.tolist() == [[6, 11], [18, 23]]


def test_load(tmp_path):
    path = tmp_path / "m.safetensors"
    tensors = {"w": torch.arange(6.0).reshape(2, 3), "ids": torch.arange(3)}
    modelfmt.save(tensors, path)
    loaded = modelfmt.load(path, framework="torch", dtype="f16")
    assert loaded["w"].dtype == torch.float16 and loaded["ids"].dtype == torch.int64
    assert modelfmt.load(path, framework="torch", dtype=torch.bfloat16)["w"].dtype == torch.bfloat16
    into = {name: torch.zeros_like(tensor) for name, tensor in tensors.items()}
    modelfmt.load(path, into=into)
    assert all(torch.equal(into[name], tensor) for name, tensor in tensors.items())
    module = torch.nn.Linear(3, 2)
    modelfmt.save(module.state_dict(), path, overwrite=True)
    other = torch.nn.Linear(3, 2)
    other.load_state_dict(modelfmt.load(path, framework="torch"))
    assert torch.equal(other.weight, module.weight)
    meta = modelfmt.load(path, device="meta")
    assert meta["weight"].device.type == "meta"


def test_what_is_saved_as_it_is(tmp_path):
    path = tmp_path / "m.safetensors"
    turned = torch.arange(6.0).reshape(2, 3).t()
    part = torch.arange(10.0)[2:7:2]
    parameter = torch.nn.Parameter(torch.ones(2))
    modelfmt.save({"t": turned, "p": part, "q": parameter}, path)
    loaded = modelfmt.load(path, framework="torch")
    assert torch.equal(loaded["t"], turned) and torch.equal(loaded["p"], part) and torch.equal(loaded["q"], parameter)
    double = torch.zeros(2, dtype=torch.complex128)
    quantized = torch.quantize_per_tensor(torch.ones(2), 1.0, 0, torch.qint8)
    for value, ending, remedy in [
        (torch.eye(3).to_sparse(), "safetensors", "tensors['s'].to_dense()"),
        (double, "safetensors", "tensors['s'].to(torch.complex64)"),
        (quantized, "safetensors", "tensors['s'].dequantize()"),
        (torch.ones(2, dtype=torch.uint8), "gguf", "tensors['s'].to(torch.int16)"),
        (torch.ones(2, dtype=torch.complex64), "gguf", "torch.view_as_real(tensors['s'])"),
        (torch.ones(2, dtype=torch.bfloat16), "mag", "tensors['s'].to(torch.float32)"),
    ]:
        other = tmp_path / f"other.{ending}"
        tensors = {"s": value}
        with pytest.raises(modelfmt.UnsupportedError, match="tensor 's'") as caught:
            modelfmt.save(tensors, other)
        assert caught.value.remedies == (remedy,)
        modelfmt.save({"s": eval(remedy)}, other)
        other.unlink()
    with pytest.raises(modelfmt.UnsupportedError, match="'s' .*has no values"):
        modelfmt.save({"s": torch.ones(2, device="meta")}, tmp_path / "meta.aero")


def test_blocks():
    from conftest import TESTDATA

    tensor = modelfmt.open(TESTDATA / "reference/one-shard.aero").tensor("blk.0.q4_0")
    assert tensor.torch().dtype == torch.uint8 and tensor.torch().shape == (2, 18)
