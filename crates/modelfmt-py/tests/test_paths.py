"""Paths of every kind, wherever a path is taken, and files of fsspec."""

import inspect
import io
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import modelfmt
import modelfmt.oinf


class Like:
    """A path of no class that anybody knows."""

    def __init__(self, path):
        self.path = str(path)

    def __fspath__(self):
        return self.path


class Opened:
    """An ``OpenFile`` of fsspec over a file of this machine, by what it has."""

    class fs:
        protocol = ("file", "local")
        exists = staticmethod(os.path.exists)

    def __init__(self, path, mode="rb"):
        self.path, self.mode, self.compression, self.full_name = str(path), mode, None, f"file://{path}"

    def __enter__(self):
        raise AssertionError("it is read by its path")

    def __exit__(self, *error):
        raise AssertionError("it is read by its path")


class Far(Opened):
    """One over another machine's file, which has to be opened."""

    class fs:
        protocol = "far"
        exists = staticmethod(os.path.exists)

    def __enter__(self):
        self.file = open(self.path, self.mode)
        return self.file

    def __exit__(self, *error):
        self.file.close()


@dataclass
class Small:
    w: modelfmt.oinf.TensorSpec


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Everything that a call below reads. It is made once: a passphrase takes time on purpose."""
    tmp_path = tmp_path_factory.mktemp("made")
    modelfmt.save({"w": np.arange(64, dtype=np.float32).reshape(2, 32)}, tmp_path / "m.safetensors")
    modelfmt.save({"w": np.arange(64, dtype=np.float32)}, tmp_path / "m.oinf")
    modelfmt.save({"w.weight": np.zeros((2, 32), np.float32)}, tmp_path / "base.safetensors")
    modelfmt.convert(tmp_path / "m.safetensors", tmp_path / "m.apr", seal=modelfmt.Seal(passphrase="p"))
    modelfmt.convert(tmp_path / "m.safetensors", tmp_path / "q.gguf", quantize="q8_0")
    modelfmt.keygen(tmp_path / "p.pem", "p256")
    modelfmt.keygen(tmp_path / "x.pem", "x25519")
    (tmp_path / "policy.toml").write_text('default = "allow"\n')
    adapter(tmp_path / "adapter")
    return tmp_path


@pytest.fixture
def files(made, tmp_path):
    return shutil.copytree(made, tmp_path / "files")


def adapter(folder):
    folder.mkdir()
    (folder / "adapter_config.json").write_text('{"peft_type": "LORA", "r": 1, "lora_alpha": 2, "target_modules": ["w"]}')
    lora = {"base_model.model.w.lora_A.weight": np.ones((1, 32), np.float32), "base_model.model.w.lora_B.weight": np.ones((2, 1), np.float32)}
    modelfmt.save(lora, folder / "adapter_model.safetensors")


def sets(new, old, kind):
    modelfmt.plan_convert(kind(old("m.safetensors")), kind(new("s.safetensors.index.json")), shard_size=100)


CALLS = {
    "open": lambda new, old, kind: modelfmt.open(kind(old("m.safetensors")), policy=kind(old("policy.toml")))["w"],
    "Model": lambda new, old, kind: modelfmt.Model(kind(old("m.safetensors")))["w"],
    "load": lambda new, old, kind: modelfmt.load(kind(old("m.safetensors"))),
    "inspect": lambda new, old, kind: modelfmt.inspect(kind(old("m.safetensors"))),
    "show": lambda new, old, kind: modelfmt.show(kind(old("m.safetensors"))),
    "stats": lambda new, old, kind: modelfmt.stats(kind(old("m.safetensors")), "w"),
    "plan": lambda new, old, kind: modelfmt.plan(kind(old("m.safetensors")), "w"),
    "bom": lambda new, old, kind: modelfmt.bom(kind(old("m.safetensors"))),
    "report": lambda new, old, kind: modelfmt.report(kind(old("m.safetensors")), out=kind(new("report.html"))),
    "check": lambda new, old, kind: modelfmt.check(kind(old("m.safetensors"))),
    "verify": lambda new, old, kind: modelfmt.verify(kind(old("m.safetensors"))),
    "diff": lambda new, old, kind: modelfmt.diff(kind(old("m.safetensors")), kind(old("q.gguf"))),
    "prove": lambda new, old, kind: modelfmt.prove(kind(old("m.safetensors")), kind(old("q.gguf"))),
    "convert": lambda new, old, kind: modelfmt.convert(kind(old("m.safetensors")), kind(new("n.aero"))),
    "select": lambda new, old, kind: modelfmt.select(kind(old("m.safetensors")), kind(new("n.aero")), "w"),
    "save": lambda new, old, kind: modelfmt.save({"w": np.ones(2)}, kind(new("n.aero"))),
    "seal": lambda new, old, kind: modelfmt.seal(kind(old("m.safetensors")), kind(new("n.apr")), passphrase="p"),
    "unseal": lambda new, old, kind: modelfmt.unseal(kind(old("m.apr")), kind(new("n.aero")), passphrase="p"),
    "plan_convert": sets,
    "edit": lambda new, old, kind: modelfmt.edit(kind(old("m.safetensors")), set={"a": "b"}, output=kind(new("n.safetensors"))),
    "outboard": lambda new, old, kind: modelfmt.outboard(kind(old("m.oinf")), policy=kind(old("policy.toml"))),
    "keygen": lambda new, old, kind: modelfmt.keygen(kind(new("k.pem")), "p256"),
}
# Keys and policies are small local files, for which only paths are accepted.
PATHS_ONLY = {
    "merge": lambda new, old, kind: modelfmt.merge(kind(old("base.safetensors")), {kind(old("adapter")): 0.5}, kind(new("n.aero"))),
    "merge by a path": lambda new, old, kind: modelfmt.merge(kind(old("base.safetensors")), kind(old("adapter")), kind(new("n.aero"))),
    "sign": lambda new, old, kind: modelfmt.sign(kind(old("m.safetensors")), kind(old("p.pem")), policy=kind(old("policy.toml"))),
    "keys": lambda new, old, kind: modelfmt.open(signed(old), keys=kind(old("p.pem.pub"))),
    "Seal": lambda new, old, kind: modelfmt.convert(
        old("m.safetensors"), new("n.apr"), seal=modelfmt.Seal(recipients=[kind(old("x.pem.pub"))])
    ),
    "read_oinf": lambda new, old, kind: modelfmt.oinf.read_oinf(kind(old("m.oinf")), Small),
    "write_oinf": lambda new, old, kind: modelfmt.oinf.write_oinf(Small(modelfmt.oinf.TensorSpec(np.ones(2))), kind(new("n.oinf"))),
}
# Contacts a server; `test_fetch.py` tests its paths.
ELSEWHERE = {"fetch"}


def signed(old):
    modelfmt.sign(old("m.safetensors"), old("p.pem"))
    return old("m.safetensors")


def test_every_function_that_takes_a_path_is_called_here():
    kinds = ("Path", "Output", "Content", "Key", "Adapters")
    taking = set()
    for name in modelfmt.__all__:
        one = getattr(modelfmt, name)
        if inspect.isfunction(one):
            annotations = [str(parameter.annotation) for parameter in inspect.signature(one).parameters.values()]
            if any(kind in text for text in annotations for kind in kinds):
                taking.add(name)
    assert taking <= CALLS.keys() | PATHS_ONLY.keys() | ELSEWHERE and len(taking) > 20


@pytest.mark.parametrize("kind", [str, Path, Like])
@pytest.mark.parametrize("call", [*CALLS, *PATHS_ONLY])
def test_any_path_will_do(files, tmp_path_factory, call, kind):
    new = tmp_path_factory.mktemp("new")
    call = (CALLS | PATHS_ONLY)[call]
    call(lambda name: str(new / name), lambda name: str(files / name), kind)


@pytest.mark.parametrize("call", CALLS)
def test_files_of_fsspec_on_this_machine_are_paths(files, tmp_path_factory, call):
    new = tmp_path_factory.mktemp("new")
    # A policy must be a path.
    kind = lambda path: path if path.endswith(".toml") else Opened(path)  # noqa: E731
    CALLS[call](lambda name: str(new / name), lambda name: str(files / name), kind)


ONLY_HERE = {"plan_convert", "edit", "outboard", "keygen", "report"}


@pytest.mark.parametrize("call", CALLS)
def test_files_of_fsspec_elsewhere(files, tmp_path_factory, call):
    new = tmp_path_factory.mktemp("new")
    kind = lambda path: path if path.endswith(".toml") else Far(path, "wb" if path.startswith(str(new)) else "rb")  # noqa: E731
    arguments = (lambda name: str(new / name), lambda name: str(files / name), kind)
    if call in ONLY_HERE:
        with pytest.raises(TypeError, match="this takes a path or a URL, and no file of fsspec"):
            CALLS[call](*arguments)
        return
    before = set(new.iterdir())
    done = CALLS[call](*arguments)
    if isinstance(done, modelfmt.Converted):
        (path,) = set(new.iterdir()) - before
        assert done.files == [(f"file://{path}", path.stat().st_size)]
        # An existing file is not replaced.
        with pytest.raises(FileExistsError) as caught:
            CALLS[call](*arguments)
        assert caught.value.remedies == ("overwrite=True",) and str(path) in str(caught.value)


def test_a_file_of_fsspec_says_what_it_is_for(files, tmp_path):
    with pytest.raises(modelfmt.UsageError, match='mode "wb" is opened'):
        modelfmt.open(Far(files / "m.safetensors", "wb"))
    with pytest.raises(modelfmt.UsageError, match='mode "rb" is written'):
        modelfmt.save({"w": np.ones(2)}, Far(tmp_path / "n.aero", "rb"))
    with pytest.raises(modelfmt.UsageError, match="names no format"):
        modelfmt.save({"w": np.ones(2)}, Far(tmp_path / "n.xyz", "wb"))
    with pytest.raises(modelfmt.UsageError, match="several files"):
        modelfmt.convert(files / "m.safetensors", Far(tmp_path / "n.safetensors.index.json", "wb"), shard_size=100)
    assert not (tmp_path / "n.aero").exists() and not (tmp_path / "n.safetensors.index.json").exists()


def test_a_conversion_into_an_open_file(files):
    out = io.BytesIO()
    done = modelfmt.convert(files / "m.safetensors", out, "aero")
    assert done.files == [("content", len(out.getvalue()))]
    assert modelfmt.diff(out, files / "m.safetensors", ignore_metadata=True)["same"]
    with pytest.raises(modelfmt.UsageError, match="give format="):
        modelfmt.convert(files / "m.safetensors", io.BytesIO())
    dry = io.BytesIO()
    assert modelfmt.convert(files / "m.safetensors", dry, "aero", dry_run=True).nbytes == 256 and not dry.getvalue()


def test_urls_that_only_fsspec_knows(files):
    fsspec = pytest.importorskip("fsspec")
    modelfmt.convert(files / "m.safetensors", "memory://folder/m.aero")
    assert fsspec.filesystem("memory").exists("/folder/m.aero")
    model = modelfmt.open("memory://folder/m.aero")
    assert model.format == "aero" and model["w"].sum() == 2016 and model.path is None
    assert modelfmt.verify("memory://folder/m.aero")["ok"]
    with fsspec.open("memory://folder/m.aero") as file:
        assert modelfmt.load(file)["w"].sum() == 2016
    assert modelfmt.load(fsspec.open("memory://folder/m.aero"))["w"].sum() == 2016
    assert modelfmt.load(fsspec.open(str(files / "m.safetensors")))["w"].sum() == 2016
    assert modelfmt.load("simplecache::memory://folder/m.aero")["w"].sum() == 2016
    modelfmt.save({"w": np.ones(2)}, fsspec.open("memory://folder/n.gguf", "wb"))
    assert modelfmt.open("memory://folder/n.gguf").format == "gguf"
    with pytest.raises(FileExistsError):
        modelfmt.save({"w": np.ones(2)}, "memory://folder/n.gguf")
    with pytest.raises(modelfmt.UsageError, match="fsspec cannot open a URL of the kind nosuch://"):
        modelfmt.open("nosuch://user:secret@host/m.aero")


def test_without_fsspec(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(modelfmt.UsageError, match="pip install fsspec") as caught:
        modelfmt.open("memory://secret/m.aero")
    assert "secret" not in str(caught.value)


def test_a_policy_holds_for_files_of_fsspec(files):
    policy = files / "strict.toml"
    policy.write_text('default = "refuse"\n')
    for kind in (Opened, Far):
        with pytest.raises(modelfmt.VerifyError, match="policy"):
            modelfmt.open(kind(files / "m.safetensors"), policy=policy)
