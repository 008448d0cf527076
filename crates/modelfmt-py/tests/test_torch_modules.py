"""Modules of torch that are loaded and saved in any format."""

import dataclasses

import numpy as np
import pytest

import modelfmt
from modelfmt import oinf

torch = pytest.importorskip("torch")

import modelfmt.torch as ours  # noqa: E402


class Net(torch.nn.Module):
    def __init__(self, device=None):
        super().__init__()
        self.embed = torch.nn.Embedding(8, 4, device=device)
        self.first = torch.nn.Linear(4, 4, device=device)
        self.rnn = torch.nn.LSTM(4, 4, device=device)
        self.register_buffer("steps", torch.zeros(2, dtype=torch.int64, device=device))
        self.register_buffer("passing", torch.zeros(2, device=device), persistent=False)

    def forward(self, x):
        return self.rnn(self.first(self.embed(x)))[0] + self.steps.sum()


class Tied(torch.nn.Module):
    def __init__(self, device=None):
        super().__init__()
        self.embed = torch.nn.Embedding(8, 4, device=device)
        self.head = torch.nn.Linear(4, 8, bias=False, device=device)
        self.head.weight = self.embed.weight


def same(one, other):
    first, second = one.state_dict(), other.state_dict()
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


@pytest.fixture
def net():
    torch.manual_seed(1)
    net = Net()
    net.steps += 3
    return net


@pytest.mark.parametrize("ending", ["safetensors", "aero", "gguf", "apr", "mag", "oinf"])
def test_a_module_goes_there_and_back(tmp_path, net, ending):
    path = tmp_path / f"m.{ending}"
    ours.save_model(net, path)
    other = Net()
    addresses = {name: tensor.data_ptr() for name, tensor in other.state_dict().items()}
    assert ours.load_model(other, path) == ([], [])
    assert same(net, other) and addresses == {name: tensor.data_ptr() for name, tensor in other.state_dict().items()}
    assert all(parameter.requires_grad for parameter in other.parameters())


def test_tensors_without_memory_get_that_of_what_is_read(tmp_path, net):
    ours.save_model(net, tmp_path / "m.safetensors")
    empty = Net(device="meta")
    ours.load_model(empty, tmp_path / "m.safetensors")
    empty.passing = torch.zeros(2)
    x = torch.arange(5)
    # An LSTM also has a list of its parameters.
    assert same(net, empty) and torch.equal(net(x), empty(x))
    assert isinstance(empty.first.weight, torch.nn.Parameter) and empty.first.weight.requires_grad
    half = Net(device="meta").half()
    ours.load_model(half, tmp_path / "m.safetensors")
    assert half.first.weight.dtype == torch.float16 and half.steps.dtype == torch.int64
    assert torch.equal(half.first.weight, net.first.weight.half())
    again = Net()
    ours.load_model(again, tmp_path / "m.safetensors", device="meta", assign=True)
    assert again.first.weight.device.type == "meta"


def test_assigned_tensors_keep_the_types_of_the_file(tmp_path, net):
    modelfmt.save({name: tensor.to(torch.bfloat16) if tensor.is_floating_point() else tensor for name, tensor in net.state_dict().items()}, tmp_path / "m.aero")
    copied, assigned = Net(), Net()
    ours.load_model(copied, tmp_path / "m.aero")
    ours.load_model(assigned, tmp_path / "m.aero", assign=True)
    assert copied.first.weight.dtype == torch.float32 and assigned.first.weight.dtype == torch.bfloat16
    assert torch.equal(copied.first.weight.to(torch.bfloat16), assigned.first.weight)


def test_blocks_become_the_types_of_the_module(tmp_path):
    net = torch.nn.Linear(64, 4)
    ours.save_model(net, tmp_path / "m.safetensors")
    modelfmt.convert(tmp_path / "m.safetensors", tmp_path / "m.gguf", quantize="q8_0")
    for options in ({}, {"assign": True}):
        other = torch.nn.Linear(64, 4)
        ours.load_model(other, tmp_path / "m.gguf", **options)
        decoded = modelfmt.open(tmp_path / "m.gguf").tensor("weight").dequantize()
        assert other.weight.dtype == torch.float32 and np.array_equal(other.weight.tolist(), decoded.tolist())


@pytest.mark.parametrize("options", [{}, {"assign": True}, {"meta": True}])
def test_tied_tensors_stay_tied(tmp_path, options):
    tied = Tied()
    ours.save_model(tied, tmp_path / "m.safetensors")
    assert list(modelfmt.open(tmp_path / "m.safetensors")) == ["embed.weight"]
    other = Tied("meta" if options.pop("meta", False) else None)
    assert ours.load_model(other, tmp_path / "m.safetensors", **options) == ([], [])
    assert other.head.weight is other.embed.weight and same(tied, other)


def test_tensors_over_the_memory_of_others(tmp_path):
    class Views(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("all", torch.arange(6.0))
            self.register_buffer("some", self.all[2:4])

    ours.save_model(Views(), tmp_path / "m.safetensors")
    other = Views()
    other.all.zero_()
    assert list(modelfmt.open(tmp_path / "m.safetensors")) == ["all"]
    assert ours.load_model(other, tmp_path / "m.safetensors") == ([], [])
    assert other.some.tolist() == [2, 3]
    with pytest.raises(RuntimeError, match='Missing key.*"some"'):
        ours.load_model(Views(), tmp_path / "m.safetensors", assign=True)


def changed(net):
    """Tensors with a name too few, one too many and a wrong shape."""
    tensors = dict(net.state_dict())
    del tensors["first.bias"], tensors["steps"]
    tensors |= {"more": torch.ones(1), "other": torch.ones(1), "embed.weight": torch.ones(3, 4)}
    return tensors


def test_errors_are_those_of_torch(tmp_path, net):
    tensors = changed(net)
    modelfmt.save(tensors, tmp_path / "m.aero")
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    for strict in (True, False):
        with pytest.raises(RuntimeError) as expected:
            Net().load_state_dict(modelfmt.load(tmp_path / "m.aero", framework="torch"), strict=strict)
        with pytest.raises(RuntimeError) as caught:
            ours.load_model(net, tmp_path / "m.aero", strict=strict)
        assert str(caught.value) == str(expected.value)
    # Nothing was changed.
    assert all(torch.equal(tensor, before[name]) for name, tensor in net.state_dict().items())
    del tensors["embed.weight"]
    modelfmt.save(tensors, tmp_path / "n.aero")
    missing, unexpected = ours.load_model(net, tmp_path / "n.aero", strict=False)
    assert (set(missing), set(unexpected)) == ({"first.bias", "steps", "embed.weight"}, {"more", "other"})


def test_a_tensor_that_is_only_declared_is_missing(tmp_path):
    @dataclasses.dataclass
    class Weights:
        weight: oinf.TensorSpec
        bias: oinf.UninitializedTensor
        other: oinf.UninitializedTensor

    declared = [oinf.UninitializedTensor(dtype="f32", shape=(2,)) for _ in range(2)]
    oinf.write_oinf(Weights(oinf.TensorSpec(np.ones((2, 3), np.float32)), *declared), str(tmp_path / "m.oinf"))
    for options in ({}, {"assign": True}):
        net = torch.nn.Linear(3, 2)
        before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
        with pytest.raises(RuntimeError, match=r'Missing key\(s\) in state_dict: "bias"'):
            ours.load_model(net, tmp_path / "m.oinf", **options)
        assert all(torch.equal(tensor, before[name]) for name, tensor in net.state_dict().items())
        assert ours.load_model(net, tmp_path / "m.oinf", strict=False, **options) == (["bias"], [])
        assert net.weight.tolist() == [[1.0] * 3] * 2 and torch.equal(net.bias, before["bias"])


def test_a_module_with_a_way_of_its_own_is_loaded_by_it(tmp_path):
    norm = torch.nn.Sequential(torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 2))
    norm(torch.ones(4, 3))
    ours.save_model(norm, tmp_path / "m.safetensors")
    other = torch.nn.Sequential(torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 2))
    assert ours.load_model(other, tmp_path / "m.safetensors") == ([], []) and same(norm, other)
    tensors = {name: tensor for name, tensor in norm.state_dict().items() if "num" not in name and name != "1.bias"}
    # The batch norm of an older torch has no such buffer, and torch does not report it as missing.
    modelfmt.save(tensors, tmp_path / "old.safetensors")
    with pytest.raises(RuntimeError) as expected:
        other.load_state_dict(tensors)
    with pytest.raises(RuntimeError) as caught:
        ours.load_model(other, tmp_path / "old.safetensors")
    assert str(caught.value) == str(expected.value)
    assert ours.load_model(other, tmp_path / "old.safetensors", strict=False) == (["1.bias"], [])


def test_one_tensor_is_in_memory_at_a_time(tmp_path, net, monkeypatch):
    """Each is read when it is asked for, and let go of before the next."""
    ours.save_model(net, tmp_path / "m.safetensors")
    read = []
    one = ours._read
    monkeypatch.setattr(ours, "_read", lambda model, position, *rest: read.append(position) or one(model, position, *rest))
    weights = ours.iter_weights(tmp_path / "m.safetensors")
    assert read == []
    next(weights)
    next(weights)
    assert read == [0, 1]


def test_weights_of_a_folder_of_shards(tmp_path, net):
    ours.save_model(net, tmp_path / "m.safetensors")
    (tmp_path / "set").mkdir()
    modelfmt.convert(tmp_path / "m.safetensors", tmp_path / "set/model.safetensors.index.json", shard_size=200)
    weights = dict(ours.iter_weights(tmp_path / "set"))
    assert weights.keys() == net.state_dict().keys()
    assert all(torch.equal(weights[name], tensor) for name, tensor in net.state_dict().items())
    some = dict(ours.iter_weights(tmp_path / "set", dtype=torch.float16, include="rnn.*", exclude="*bias*"))
    assert some.keys() == {"rnn.weight_ih_l0", "rnn.weight_hh_l0"} and {one.dtype for one in some.values()} == {torch.float16}
    assert dict(ours.iter_weights(tmp_path / "set", "meta"))["steps"].device.type == "meta"


def test_values_are_checked(tmp_path, net):
    ours.save_model(net, tmp_path / "m.aero", tensor_hashes=True)
    content = bytearray((tmp_path / "m.aero").read_bytes())
    content[modelfmt.open(tmp_path / "m.aero").info("first.weight").offset] ^= 1
    for call in (lambda: ours.load_model(Net(), bytes(content)), lambda: dict(ours.iter_weights(bytes(content)))):
        with pytest.raises(modelfmt.VerifyError, match="first.weight"):
            call()
    assert len(dict(ours.iter_weights(bytes(content), verify=False))) == len(net.state_dict())


def test_files_of_tensors(tmp_path):
    tensors = {"w": torch.ones(2, 3), "b": torch.zeros(2, dtype=torch.bfloat16)}
    ours.save_file(tensors, tmp_path / "m.aero", metadata={"license": "MIT"})
    loaded = ours.load_file(tmp_path / "m.aero")
    assert all(torch.equal(loaded[name], tensor) for name, tensor in tensors.items())
    assert ours.load_file(tmp_path / "m.aero", dtype="f16", include="w")["w"].dtype == torch.float16
    with pytest.raises(FileExistsError):
        ours.save_file(tensors, tmp_path / "m.aero")
    with pytest.raises(TypeError, match=r"load_file\(\) has no keyword framework="):
        ours.load_file(tmp_path / "m.aero", framework="numpy")
