"""Policies: the keyword, the variable, and every function that reads a model."""

from __future__ import annotations

import io

import numpy as np
import pytest

import modelfmt


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with models in ``good`` and ``evil``, of which the policy allows the former."""
    root = tmp_path.resolve()
    for side in ("good", "evil"):
        (root / side).mkdir()
        modelfmt.save({"w": np.ones((2, 3), np.float32)}, root / side / "m.safetensors")
    (root / "policy.toml").write_text(f'[[rule]]\nmatch = ["{root}/good/**"]\n')
    (root / "all.toml").write_text('default = "allow"\n')
    monkeypatch.chdir(root)
    monkeypatch.delenv("MODELFMT_POLICY", raising=False)
    return root


def _reads(root, side, policy):
    """Calls of every function that reads a model, with a policy or with that of the variable."""
    path = root / side / "m.safetensors"
    given = {} if policy is None else {"policy": policy}
    key = root / "key.pem"
    if not key.exists():
        modelfmt.keygen(key, "p256")
    return {
        "open": lambda: modelfmt.open(path, **given)["w"],
        "mapped": lambda: modelfmt.open(path, mmap=True, **given)["w"],
        "load": lambda: modelfmt.load(path, **given),
        "inspect": lambda: modelfmt.inspect(path, **given),
        "check": lambda: modelfmt.check(path, **given),
        "show": lambda: modelfmt.show(path, **given),
        "stats": lambda: modelfmt.stats(path, "w", **given),
        "convert": lambda: modelfmt.convert(path, root / "out.aero", overwrite=True, **given),
        "edit": lambda: modelfmt.edit(path, set={"a": "b"}, **given),
        "outboard": lambda: modelfmt.outboard(path, overwrite=True, **given),
        "sign": lambda: modelfmt.sign(path, key, overwrite=True, **given),
    }


NAMES = ("open", "mapped", "load", "inspect", "check", "show", "stats", "convert", "edit", "outboard", "sign")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("by", ("keyword", "variable"))
def test_every_function_that_reads_obeys(place, monkeypatch, name, by):
    if by == "variable":
        monkeypatch.setenv("MODELFMT_POLICY", "policy.toml")
    policy = "policy.toml" if by == "keyword" else None
    _reads(place, "good", policy)[name]()
    with pytest.raises(modelfmt.ModelfmtError, match=r"policy policy\.toml: no rule matches"):
        _reads(place, "evil", policy)[name]()


def test_a_report_says_that_a_file_is_refused(place):
    assert modelfmt.verify("good/m.safetensors", policy="policy.toml")["ok"]
    report = modelfmt.verify("evil/m.safetensors", policy="policy.toml")
    assert not report["ok"] and "refused by the policy" in report["errors"][0]


def test_the_keyword_replaces_the_variable(place, monkeypatch):
    monkeypatch.setenv("MODELFMT_POLICY", "policy.toml")
    modelfmt.open("evil/m.safetensors", policy="all.toml")
    monkeypatch.setenv("MODELFMT_POLICY", "all.toml")
    modelfmt.open("evil/m.safetensors")
    with pytest.raises(modelfmt.ModelfmtError):
        modelfmt.open("evil/m.safetensors", policy="policy.toml")


@pytest.mark.parametrize("bad", ("", "none.toml", "odd.toml"))
def test_a_policy_that_cannot_be_used_is_an_error(place, monkeypatch, bad):
    (place / "odd.toml").write_text('defualt = "allow"')
    monkeypatch.setenv("MODELFMT_POLICY", bad)
    with pytest.raises(modelfmt.ModelfmtError):
        modelfmt.open("good/m.safetensors")
    monkeypatch.delenv("MODELFMT_POLICY")
    with pytest.raises(modelfmt.ModelfmtError):
        modelfmt.open("good/m.safetensors", policy=bad)


def test_bytes_take_the_default(place):
    content = (place / "good/m.safetensors").read_bytes()
    for given in (content, io.BytesIO(content)):
        modelfmt.open(given, policy="all.toml")
        with pytest.raises(modelfmt.ModelfmtError, match="no rule matches"):
            modelfmt.open(given, policy="policy.toml")


def test_what_is_mapped_is_checked(place):
    """Values of a file under a policy are never lent from a map that nobody checks."""
    key = place / "key.pem"
    modelfmt.keygen(key, "p256")
    modelfmt.sign("good/m.safetensors", key)
    (place / "keys.toml").write_text(f'[[rule]]\nmatch = ["{place}/good/**"]\nkeys = ["key.pem.pub"]\n')
    model = modelfmt.open("good/m.safetensors", mmap=True, policy="keys.toml")
    path = place / "good/m.safetensors"
    with open(path, "r+b") as file:
        file.seek(-4, io.SEEK_END)
        file.write(b"evil")
    with pytest.raises(modelfmt.ModelfmtError):
        model["w"]
