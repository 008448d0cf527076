"""Bills of materials."""

import hashlib
import json
import subprocess
import sys

import pytest

import modelfmt


@pytest.mark.parametrize("spec", ["cyclonedx", "spdx"])
def test_a_bill_of_materials_is_that_of_the_program(saved, spec):
    command = [sys.executable, "-m", "modelfmt", "bom", str(saved), "--spec", spec]
    printed = subprocess.run([*command, "--tensors"], check=True, capture_output=True).stdout
    done = []
    model = modelfmt.open(saved)
    assert model.bom(spec=spec, tensors=True, progress=lambda *all: done.append(all)).encode() == printed
    assert done and modelfmt.bom(saved, spec=spec, tensors=True).encode() == printed
    without = subprocess.run(command, check=True, capture_output=True).stdout
    assert model.bom(spec=spec).encode() == without != printed


def test_it_has_what_the_model_states(saved):
    (component,) = json.loads(modelfmt.open(saved).bom())["components"]
    assert component["type"] == "machine-learning-model" and component["name"] == "model"
    assert component["licenses"] == [{"license": {"id": "MIT"}}] and "version" not in component
    sha256 = hashlib.sha256(saved.read_bytes()).hexdigest()
    assert component["hashes"][0] == {"alg": "SHA-256", "content": sha256}
    content = json.loads(modelfmt.open(saved.read_bytes()).bom())
    assert content["components"][0]["hashes"] == component["hashes"]


def test_the_time_is_that_of_the_environment(saved, monkeypatch):
    model = modelfmt.open(saved)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "951782400")
    assert '"created": "2000-02-29T00:00:00Z"' in model.bom(spec="spdx")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    with pytest.raises(modelfmt.UsageError, match="SOURCE_DATE_EPOCH: expected a number of seconds"):
        model.bom(spec="spdx")
    assert "timestamp" not in model.bom()
    with pytest.raises(modelfmt.UsageError, match="expected cyclonedx or spdx"):
        model.bom(spec="swid")


def test_only_verified_signers_are_named(saved, tmp_path):
    pair = modelfmt.keygen(tmp_path / "key.pem", "p256")
    signed = modelfmt.sign(saved, pair.private)
    assert signed.path == f"{saved}.sig"
    assert "properties" not in json.loads(modelfmt.bom(saved))["components"][0]
    (signer,) = json.loads(modelfmt.bom(saved, keys=pair.public))["components"][0]["properties"]
    assert signer == {"name": "modelfmt:signedBy", "value": pair.id}
