"""Proofs that a model is made of another."""

import json
import subprocess
import sys

import numpy as np
import pytest

import modelfmt


@pytest.fixture
def half(saved, tmp_path):
    path = tmp_path / "half.safetensors"
    modelfmt.convert(saved, path, cast="f16")
    return path


def test_a_proof_is_that_of_the_program(saved, half):
    proof = modelfmt.prove(saved, half)
    command = [sys.executable, "-m", "modelfmt", "prove", str(saved), str(half), "--json", "--quiet"]
    assert proof == json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    steps = {tensor["name"]: tensor["steps"] for tensor in proof["tensors"]}
    assert proof["ok"] and steps["a"] == ["cast:f16"] and steps["mask"] == []
    done = []
    with modelfmt.open(saved) as base, modelfmt.open(half) as derived:
        assert modelfmt.prove(base, derived, progress=lambda *all: done.append(all)) == proof
    assert done


def test_what_is_not_made_of_the_base_is_said(saved, half, arrays, tmp_path):
    other = tmp_path / "other.safetensors"
    modelfmt.save({"a": arrays["a"] + 1, "new": np.ones(3, np.float32)}, other, metadata={"license": "MIT", "x": "y"})
    proof = modelfmt.prove(saved, other)
    results = {tensor["name"]: tensor["result"] for tensor in proof["tensors"]}
    assert not proof["ok"] and results["a"] == "differs" and results["new"] == "foreign" and results["mask"] == "missing"
    assert {"key": "x", "result": "added"} in proof["metadata"]
    part = tmp_path / "part.safetensors"
    modelfmt.select(saved, part, "a")
    assert modelfmt.prove(saved, part)["ok"] and not modelfmt.prove(saved, part, complete=True)["ok"]
    modelfmt.edit(part, set={"x": "y", "license": "none"})
    assert not modelfmt.prove(saved, part, allow_added="x")["ok"]
    assert modelfmt.prove(saved, part, allow_added=["x"], allow_changed="license")["ok"]
    with pytest.raises(modelfmt.UsageError):
        modelfmt.prove(saved, part, allow_added="[")
    with pytest.raises(modelfmt.UsageError, match="map"):
        modelfmt.prove(saved, part, map="llama")
