"""edit, check, diff's options: the keywords of what the program does by flags."""

import numpy as np
import pytest

import modelfmt


@pytest.mark.parametrize("ending", ["safetensors", "aero", "gguf", "apr"])
def test_metadata_and_names_are_edited(tmp_path, ending):
    path = tmp_path / f"m.{ending}"
    modelfmt.save({"model.a": np.ones((4, 32), np.float32), "model.b": np.zeros(3, np.float32)}, path)
    done = modelfmt.edit(path, set={"license": "MIT"}, rename={"model.*": "*"})
    assert (done.set, done.renamed, done.path) == (1, 2, str(path)) and done.how in ("in place", "new file", "written")
    model = modelfmt.open(path, verify=True)
    assert sorted(model) == ["a", "b"] and "MIT" in str(model.metadata) and (model["a"] == 1).all()
    assert modelfmt.edit(path, set={"license": "MIT"}).how == "unchanged"
    out = tmp_path / f"out.{ending}"
    modelfmt.edit(path, unset="license", drop="b", output=out)
    assert list(modelfmt.open(out)) == ["a"] and "MIT" not in str(modelfmt.open(out).metadata)
    assert "MIT" in str(modelfmt.open(path).metadata)
    with pytest.raises(FileExistsError):
        modelfmt.edit(path, unset="license", output=out)
    modelfmt.edit(path, unset="license", output=out, overwrite=True)


def test_a_dry_run_of_an_edit_writes_nothing(saved):
    before = saved.read_bytes()
    done = modelfmt.edit(saved, metadata={"license": "a" * 5000}, drop=["b.*"], dry_run=True)
    assert done.dropped == 2 and saved.read_bytes() == before
    with pytest.raises(modelfmt.UsageError):
        modelfmt.edit(saved, unset="nothing")
    with pytest.raises(modelfmt.UnsupportedError):
        modelfmt.edit(saved, set={"number": 3})  # safetensors holds text
    with pytest.raises(modelfmt.UsageError, match="download"):
        modelfmt.edit("https://example.org/m.safetensors", unset="x")
    assert saved.read_bytes() == before


def test_a_dry_run_raises_what_the_edit_would(tmp_path):
    path = tmp_path / "m.aero"
    modelfmt.save({"a": np.full(64, 1.5), "b": np.zeros(3)}, path)
    planned = modelfmt.edit(path, set={"license": "MIT"}, drop="b", dry_run=True)
    assert (planned.how, planned.set, planned.dropped, planned.path) == ("written", 1, 1, str(path))
    for output, error in [(path, modelfmt.UsageError), (tmp_path / "none" / "m.aero", FileNotFoundError)]:
        with pytest.raises(error):
            modelfmt.edit(path, unset=[], drop="b", output=output, dry_run=True)
    (tmp_path / "there.aero").touch()
    with pytest.raises(FileExistsError):
        modelfmt.edit(path, drop="b", output=tmp_path / "there.aero", dry_run=True)
    damaged = bytearray(path.read_bytes())
    damaged[damaged.index(np.full(64, 1.5).tobytes())] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(modelfmt.VerifyError):
        modelfmt.edit(path, drop="b", dry_run=True)
    assert path.read_bytes() == damaged


def test_what_is_edited_is_signed(tmp_path):
    alice, beside = modelfmt.keygen(tmp_path / "alice.pem", "ed25519"), modelfmt.keygen(tmp_path / "p.pem", "p256")
    path = tmp_path / "m.apr"
    modelfmt.save({"a": np.ones(4, np.float32), "b": np.zeros(3, np.float32)}, path)
    modelfmt.edit(path, set={"n": 1}, sign=alice.private, revision=3)
    assert len(modelfmt.open(path, keys=alice.public, min_revision=3)) == 2
    assert "signature" in modelfmt.edit(path, set={"n": 2}, dry_run=True).notes[0]
    assert modelfmt.edit(path, set={"n": 2}, drop="b", sign=[alice.private]).notes == []
    assert len(modelfmt.open(path, keys=alice.public, min_revision=3)) == 1
    damaged = tmp_path / "m.aero"
    modelfmt.save({"a": np.full(64, 1.5)}, damaged)
    content = bytearray(damaged.read_bytes())
    content[content.index(np.full(64, 1.5).tobytes())] ^= 1
    damaged.write_bytes(content)
    with pytest.raises(modelfmt.ModelfmtError, match="not intact"):
        modelfmt.edit(damaged, set={"n": "1"}, sign=beside.private)
    assert damaged.read_bytes() == content and not (tmp_path / "m.aero.sig").exists()
    other = tmp_path / "m.safetensors"
    modelfmt.save({"a": np.ones(4)}, other)
    modelfmt.sign(other, beside.private)
    assert "m.safetensors.sig" in modelfmt.edit(other, set={"n": "1"}).notes[0]
    for dry_run in (True, False):  # it is not what the key has signed
        with pytest.raises(modelfmt.ModelfmtError, match="sign it as it is first"):
            modelfmt.edit(other, set={"n": "2"}, sign=beside.private, dry_run=dry_run)
    modelfmt.sign(other, beside.private, overwrite=True)
    assert modelfmt.edit(other, set={"n": "2"}, sign=beside.private).notes == []
    assert len(modelfmt.open(other, keys=beside.public)) == 1
    before = other.read_bytes()
    for given, why in [
        ({"set": {"n": "3"}, "sign": alice.private}, "this key is ed25519"),
        ({"set": {"n": "3"}, "sign": [beside.private] * 2}, "sign: .*by one key"),
        ({"set": {"n": "3"}, "sign": beside.private, "revision": 1}, "revision"),
        ({"set": {"n": "3"}, "revision": 1}, "revision"),
        ({"sign": beside.private}, "modelfmt.sign"),
    ]:
        with pytest.raises(modelfmt.UsageError, match=why):
            modelfmt.edit(other, **given)
    assert other.read_bytes() == before


def test_values_that_are_wrong_are_found(tmp_path):
    path = tmp_path / "m.safetensors"
    tensors = {"nan": np.array([1, np.nan]), "inf": np.array([np.inf, 1, -np.inf]), "zero": np.zeros(3), "ok": np.arange(3.0)}
    modelfmt.save(tensors, path)
    report = modelfmt.check(path)
    found = {tensor["name"]: tensor for tensor in report["tensors"]}
    assert not report["ok"] and found.keys() == {"nan", "inf", "zero"}
    assert (found["nan"]["nan"], found["inf"]["inf"], found["zero"]["zero"]) == (1, 2, True)
    assert modelfmt.open(path).check(threads=1) == report


def test_options_of_diff(tmp_path):
    a, b = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    values = np.arange(1.0, 5.0)
    modelfmt.save({"w": values}, a, metadata={"v": "1"})
    modelfmt.save({"w": values + [0, 0, 0, 1e-4]}, b, metadata={"v": "2"})
    found = modelfmt.diff(a, b, norms=True)
    (changed,) = found["changed"]
    assert changed["rmse"] == pytest.approx(5e-5) and found["metadata"]
    assert modelfmt.diff(a, b, tolerance=1e-3, ignore_metadata=True)["same"]
    assert not modelfmt.diff(a, b, tolerance=1e-5, ignore_metadata=True)["same"]
    modelfmt.save({"w": values.astype(np.float32)}, b, metadata={"v": "1"}, overwrite=True)
    assert not modelfmt.diff(a, b)["same"] and modelfmt.diff(a, b, ignore_dtype=True)["same"]
    with pytest.raises(modelfmt.UsageError, match="tolerance"):
        modelfmt.diff(a, b, tolerance=-1)


def test_options_of_convert(tmp_path, saved):
    path = tmp_path / "m.aero"
    modelfmt.convert(saved, path, rename={"b.*": "c.*"}, exclude="mask", reserve=1000, dedupe=True, outboard=True)
    assert "c.ids" in modelfmt.open(path) and path.with_name("m.aero.obao4").exists()
    assert len(modelfmt.open(path, verify=True)) == 5
    modelfmt.save({"w": np.ones(2)}, tmp_path / "n.aero", metadata={"n": 3, "model_name": "m", "architecture": "a"})
    with pytest.raises(modelfmt.UnsupportedError):
        modelfmt.convert(tmp_path / "n.aero", tmp_path / "n.safetensors")
    modelfmt.convert(tmp_path / "n.aero", tmp_path / "n.safetensors", stringify=True)
    assert modelfmt.open(tmp_path / "n.safetensors").metadata["n"] == "3"
    with pytest.raises(modelfmt.UsageError, match="rename"):
        modelfmt.convert(saved, tmp_path / "x.aero", rename={"a": "b*"})
