"""Signatures beside files, and signed and encrypted APR2 files, by the vectors of their specification."""

import base64
import json
import pickle
import zipfile

import numpy as np
import pytest
from conftest import TESTDATA

import modelfmt

SEAL = TESTDATA / "seal"
VECTORS = json.loads((SEAL / "vectors.json").read_text())
# DER of a private and of a public key before its 32 bytes; the placeholder is for the digits that identify
# the curve.
PRIVATE, PUBLIC = "302e020100300506032b65{}04220420", "302a300506032b65{}032100"


def pem(kind, hex_der):
    body = base64.b64encode(bytes.fromhex(hex_der)).decode()
    return f"-----BEGIN {kind} KEY-----\n{body}\n-----END {kind} KEY-----\n".encode()


def private(group, name):
    return pem("PRIVATE", PRIVATE.format("70" if group == "sign" else "6e") + VECTORS[group][name]["secret"])


def public(group, name):
    return pem("PUBLIC", PUBLIC.format("70" if group == "sign" else "6e") + VECTORS[group][name]["public"])


PASSPHRASE = bytes.fromhex(VECTORS["passphrase"]["good"])


def test_a_signed_file_is_opened_by_the_key_of_its_signer(tmp_path):
    path = SEAL / "signed.apr"
    alice = public("sign", "alice")
    model = modelfmt.open(path, keys=alice)
    assert len(modelfmt.load(path, keys=[alice])) == len(model) > 0
    report = modelfmt.verify(path, keys=[alice])
    assert report["ok"] and "signature" in [check["name"] for check in report["checks"] if check["status"] == "ok"]
    (tmp_path / "alice.pub").write_bytes(alice)
    assert len(modelfmt.open(path, keys=tmp_path / "alice.pub")) == len(model)
    for bad in (public("sign", "mallory"), [public("sign", "mallory")]):
        with pytest.raises(modelfmt.FormatError):
            modelfmt.open(path, keys=bad)
        assert not modelfmt.verify(path, keys=bad)["ok"]
    with pytest.raises(modelfmt.FormatError):
        modelfmt.open(path, keys=alice, min_revision=1 << 40)
    with pytest.raises(modelfmt.FormatError):
        modelfmt.open(path, keys=[alice, public("sign", "mallory")], threshold=2)
    again = pickle.loads(pickle.dumps(modelfmt.open(path, keys=alice)))
    assert list(again) == list(model)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("encrypted-recipient.apr", {"identity": private("x25519", "carol")}),
        ("encrypted-passphrase.apr", {"passphrase": PASSPHRASE}),
        ("encrypted-passphrase.apr", {"passphrase": PASSPHRASE.decode()}),
        ("encrypted-key.apr", {"raw_key": bytes.fromhex(VECTORS["raw"]["kms/1"])}),
    ],
)
def test_an_encrypted_file_is_opened_by_what_opens_it(name, given):
    model = modelfmt.open(SEAL / name, **given)
    arrays = {tensor: model.tensor(tensor).raw() for tensor in model}
    assert arrays and modelfmt.load(SEAL / name, **given).keys() == arrays.keys()
    assert modelfmt.open((SEAL / name).read_bytes(), **given).tensor(next(iter(arrays))).nbytes
    with pytest.raises(modelfmt.ModelfmtError):
        modelfmt.load(SEAL / name)
    with pytest.raises(modelfmt.ModelfmtError) as caught:
        modelfmt.load(SEAL / name, passphrase="wr0ng-guess", raw_key=b"\x07" * 32, identity=private("x25519", "eve"))
    assert "wr0ng-guess" not in str(caught.value) and "0707" not in str(caught.value)
    with pytest.raises(TypeError, match="secret"):
        pickle.dumps(model)


def test_mistakes(tmp_path, saved):
    with pytest.raises(modelfmt.UsageError, match="32 bytes"):
        modelfmt.open(saved, raw_key=b"short")
    with pytest.raises(modelfmt.UsageError, match="x25519"):
        modelfmt.open(saved, identity=private("sign", "alice"))
    with pytest.raises(modelfmt.UsageError, match="keys="):
        modelfmt.open(saved, threshold=2)
    with pytest.raises(modelfmt.UsageError, match="no key in PEM"):
        modelfmt.open(saved, keys=b"hello")
    with pytest.raises(FileNotFoundError, match="cannot be read") as caught:
        modelfmt.open(saved, keys=tmp_path / "none.pub")
    assert caught.value.filename == str(tmp_path / "none.pub")
    with pytest.raises(FileNotFoundError):
        modelfmt.sign(tmp_path / "none", modelfmt.keygen(tmp_path / "sign.pem", "p256").private)
    with pytest.raises(FileNotFoundError, match="cannot be written"):
        modelfmt.keygen(tmp_path / "none" / "key.pem", "p256")
    with pytest.raises(modelfmt.UsageError, match="pin"):
        modelfmt.open(saved, pin="md5:12")
    with pytest.raises(modelfmt.ModelfmtError, match="only APR2 files can be encrypted"):
        modelfmt.open(saved, passphrase="for nothing")


def test_a_file_is_signed_beside_it(tmp_path, saved):
    pair = modelfmt.keygen(tmp_path / "release.pem", "p256")
    other = modelfmt.keygen(tmp_path / "other.pem", "p384")
    assert pair.public.endswith("release.pem.pub") and len(pair.id) == 64
    with pytest.raises(FileExistsError):
        modelfmt.keygen(tmp_path / "release.pem", "p256")
    with pytest.raises(modelfmt.UsageError, match="key_type"):
        modelfmt.keygen(tmp_path / "k", "rot13")
    with pytest.raises(modelfmt.VerifyError, match="no signature"):
        modelfmt.open(saved, keys=pair.public)
    signed = modelfmt.sign(saved, pair.private)
    assert signed.path == f"{saved}.sig" and signed.files == 1 and signed.key_ids == [pair.id]
    with pytest.raises(FileExistsError, match="overwrite=True"):
        modelfmt.sign(saved, pair.private)
    modelfmt.sign(saved, (tmp_path / "release.pem").read_bytes(), overwrite=True)
    assert modelfmt.verify(saved, keys=pair.public)["ok"]
    assert not modelfmt.verify(saved, keys=other.public)["ok"]
    assert len(modelfmt.open(saved, keys=[other.public, pair.public])) == 6
    with pytest.raises(modelfmt.VerifyError):
        modelfmt.open(saved, keys=other.public)
    content = bytearray(saved.read_bytes())
    content[-1] ^= 1
    saved.write_bytes(content)
    with pytest.raises(modelfmt.VerifyError):
        modelfmt.load(saved, keys=pair.public)
    with pytest.raises(modelfmt.UsageError):
        modelfmt.sign(saved, modelfmt.keygen(tmp_path / "wrong.pem", "x25519").private)


def test_an_apr2_is_signed_inside(tmp_path, saved):
    path = tmp_path / "m.apr"
    modelfmt.convert(saved, path, include=["a", "b.*"])
    nbytes = path.stat().st_size
    alice, bob = private("sign", "alice"), private("sign", "bob")
    signed = modelfmt.sign(path, [alice, bob], revision=3)
    assert signed.path == str(path) and len(signed.key_ids) == 2 and signed.files == 1
    assert signed.written and signed.nbytes == path.stat().st_size > nbytes and not (tmp_path / "m.apr.sig").exists()
    keys = [public("sign", "alice"), public("sign", "bob")]
    assert len(modelfmt.open(path, keys=keys, threshold=2, min_revision=3)) == 3
    assert modelfmt.sign(path, alice).written == 0
    with pytest.raises(modelfmt.UsageError, match="ignore: it is for signatures beside files"):
        modelfmt.sign(path, alice, ignore="notes.txt")
    with pytest.raises(modelfmt.UsageError, match="this key is p256"):
        modelfmt.sign(path, modelfmt.keygen(tmp_path / "release.pem", "p256").private)
    with pytest.raises(modelfmt.UsageError, match="revision: it is for APR2 files"):
        modelfmt.sign(saved, tmp_path / "release.pem", revision=1)
    with pytest.raises(modelfmt.UsageError, match="passphrase"):
        modelfmt.sign(saved, tmp_path / "release.pem", passphrase="p")
    with pytest.raises(modelfmt.UsageError, match="by one key"):
        modelfmt.sign(saved, [tmp_path / "release.pem"] * 2)
    sealed = tmp_path / "sealed.apr"
    modelfmt.seal(path, sealed, passphrase="open sesame")
    modelfmt.sign(sealed, alice, passphrase="open sesame")
    assert len(modelfmt.open(sealed, keys=keys, passphrase="open sesame")) == 3
    damaged = bytearray(path.read_bytes())
    damaged[damaged.index(modelfmt.open(path)["a"].tobytes())] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(modelfmt.ModelfmtError):
        modelfmt.sign(path, modelfmt.keygen(tmp_path / "carol.pem", "ed25519").private)
    assert path.read_bytes() == damaged


def test_a_folder_is_signed(tmp_path, arrays):
    folder = tmp_path / "model"
    folder.mkdir()
    modelfmt.save(arrays, folder / "m.safetensors.index.json", shard_size=300)
    pair = modelfmt.keygen(tmp_path / "release.pem", "p256")
    with pytest.raises(modelfmt.UnsupportedError, match="sign the folder"):
        modelfmt.sign(folder / "m.safetensors.index.json", pair.private)
    signed = modelfmt.sign(folder, pair.private, ignore="notes.txt")
    assert signed.path == str(folder / "model.sig") and signed.files > 2
    assert modelfmt.verify(folder, keys=pair.public)["ok"]
    model = modelfmt.open(folder, keys=pair.public)
    np.testing.assert_array_equal(model["a"], arrays["a"])


def test_pins_of_local_files(tmp_path, arrays):
    path = tmp_path / "m.aero"
    modelfmt.save(arrays, path)
    (pin,) = modelfmt.open(path).pins
    np.testing.assert_array_equal(modelfmt.open(path, pin=pin, mmap=True)["a"], arrays["a"])
    np.testing.assert_array_equal(modelfmt.open(path.read_bytes(), pin=pin)["a"], arrays["a"])
    with pytest.raises(modelfmt.VerifyError):
        modelfmt.open(path, pin="b3:" + "0" * 64)
    again = pickle.loads(pickle.dumps(modelfmt.open(path, pin=pin)))
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(modelfmt.ModelfmtError):
        modelfmt.open(path, pin="b3:" + "0" * 64)
    assert again.pins == [pin]


@pytest.mark.parametrize("kind", ["file", "member"])
@pytest.mark.parametrize("ending", ["aero", "apr"])
def test_an_open_file_that_is_mapped_lends_nothing_that_is_not_checked(tmp_path, arrays, ending, kind):
    path, own = tmp_path / f"m.{ending}", {"a": arrays["a"]}
    if ending == "aero":
        modelfmt.save(own, path)
        given = {"pin": modelfmt.open(path).pins[0]}
    else:
        modelfmt.save(own, tmp_path / "m.safetensors")
        modelfmt.convert(tmp_path / "m.safetensors", path, sign=private("sign", "alice"))
        given = {"keys": public("sign", "alice")}

    def opened(**given):
        if kind == "file":
            with path.open("rb") as file:
                return modelfmt.open(file, mmap=True, **given)
        with zipfile.ZipFile(tmp_path / "m.zip", "w") as archive:
            archive.write(path, "m")
        with zipfile.ZipFile(tmp_path / "m.zip") as archive, archive.open("m") as file:
            return modelfmt.open(file, mmap=True, **given)

    np.testing.assert_array_equal(opened(**given)["a"], arrays["a"])
    content = bytearray(path.read_bytes())
    content[content.index(arrays["a"].tobytes())] ^= 1
    path.write_bytes(content)
    if ending == "aero":  # a signed APR2 lends nothing in any case
        assert not np.array_equal(opened()["a"], arrays["a"])
    with pytest.raises(modelfmt.FormatError):
        opened(**given)["a"]


@pytest.mark.parametrize("empty", [list, tuple, lambda: (key for key in ())])
def test_an_empty_list_of_keys_is_refused(tmp_path, saved, empty):
    signed, out = SEAL / "signed.apr", tmp_path / "out.apr"
    copy = tmp_path / "copy.apr"
    copy.write_bytes(signed.read_bytes())
    calls = {
        "keys": [
            lambda: modelfmt.open(signed, keys=empty()),
            lambda: modelfmt.open(saved, keys=empty()),
            lambda: modelfmt.load(signed, keys=empty()),
            lambda: modelfmt.verify(signed, keys=empty()),
            lambda: modelfmt.verify(saved, keys=empty()),
            lambda: modelfmt.open(signed.read_bytes(), keys=empty()),
            lambda: modelfmt.convert(signed, out, keys=empty()),
            lambda: modelfmt.plan_convert(signed, tmp_path / "m.aeroset.json", shard_size=1 << 20, keys=empty()),
        ],
        "identity": [
            lambda: modelfmt.open(SEAL / "encrypted-recipient.apr", identity=empty()),
            lambda: modelfmt.sign(copy, private("sign", "alice"), identity=empty()),
        ],
        "sign": [
            lambda: modelfmt.convert(signed, out, sign=empty()),
            lambda: modelfmt.seal(signed, out, passphrase="p", sign=empty()),
            lambda: modelfmt.edit(saved, set={"license": "none"}, sign=empty()),
        ],
        "recipients": [
            lambda: modelfmt.seal(signed, out, passphrase="p", recipients=empty()),
            lambda: modelfmt.convert(signed, out, seal=modelfmt.Seal(recipients=empty())),
        ],
        "key": [lambda: modelfmt.sign(saved, empty()), lambda: modelfmt.sign(copy, empty())],
    }
    for keyword, all_of_it in calls.items():
        for call in all_of_it:
            with pytest.raises(modelfmt.UsageError, match=f"^{keyword}: it is empty; give a key, or several"):
                call()
    with pytest.raises(TypeError):
        modelfmt.open(signed, keys=False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy.apr", "model.safetensors"]
    assert copy.read_bytes() == signed.read_bytes()


def test_an_outboard_proves_ranges(tmp_path, saved, arrays):
    written = modelfmt.outboard(saved)
    assert written.path == f"{saved}.obao4" and written.pin.startswith("b3:")
    assert written.nbytes == (tmp_path / "model.safetensors.obao4").stat().st_size
    np.testing.assert_array_equal(modelfmt.open(saved, pin=written.pin)["a"], arrays["a"])
    with pytest.raises(FileExistsError):
        modelfmt.outboard(saved)
    assert modelfmt.outboard(saved, overwrite=True) == written
    with pytest.raises(modelfmt.UsageError, match="this machine"):
        modelfmt.outboard("s3://models/m.safetensors")


def test_a_model_is_sealed_and_unsealed(tmp_path, saved, arrays):
    path, carol = tmp_path / "m.apr", public("x25519", "carol")
    own = {name: array for name, array in arrays.items() if name in ("a", "b.weight", "b.ids")}
    modelfmt.save(own, saved, overwrite=True)
    modelfmt.seal(saved, path, recipients=carol, passphrase="open sesame", sign=private("sign", "alice"), revision=7)
    alice = public("sign", "alice")
    for given in ({"identity": private("x25519", "carol")}, {"passphrase": "open sesame"}):
        model = modelfmt.open(path, keys=alice, min_revision=7, **given)
        assert model.is_encrypted
        np.testing.assert_array_equal(model["a"], own["a"])
        modelfmt.unseal(path, tmp_path / "clear.safetensors", overwrite=True, **given)
        np.testing.assert_array_equal(modelfmt.open(tmp_path / "clear.safetensors")["b.ids"], own["b.ids"])
    assert own["a"].tobytes() not in path.read_bytes()
    with pytest.raises(modelfmt.FormatError):
        modelfmt.open(path, keys=alice, min_revision=8, passphrase="open sesame")
    again = tmp_path / "again.apr"
    modelfmt.seal(modelfmt.open(path, passphrase="open sesame"), again, raw_key=b"k" * 32, key_id="kms/7", hide_index=True)
    assert b"b.weight" in path.read_bytes() and b"b.weight" not in again.read_bytes()
    assert modelfmt.load(again, raw_key=b"k" * 32).keys() == own.keys()
    with pytest.raises(modelfmt.UsageError, match="not encrypted"):
        modelfmt.unseal(saved, tmp_path / "x.safetensors")
    with pytest.raises(modelfmt.UsageError, match="nobody"):
        modelfmt.seal(saved, tmp_path / "x.apr")
    with pytest.raises(modelfmt.UsageError, match="x25519"):
        modelfmt.seal(saved, tmp_path / "x.apr", recipients=alice)
    with pytest.raises(modelfmt.UsageError, match="ed25519"):
        modelfmt.convert(saved, tmp_path / "x.apr", sign=private("x25519", "carol"))
    with pytest.raises(modelfmt.ModelfmtError, match="sign"):
        modelfmt.convert(saved, tmp_path / "x.aero", sign=private("sign", "alice"))
    assert not (tmp_path / "x.apr").exists()
    assert "open sesame" not in repr(modelfmt.Seal(passphrase="open sesame"))


def test_a_conversion_signs(tmp_path, saved):
    path = tmp_path / "m.apr"
    modelfmt.convert(saved, path, sign=[private("sign", "alice"), private("sign", "bob")], include=["a", "b.*"])
    keys = [public("sign", "alice"), public("sign", "bob")]
    model = modelfmt.open(path, keys=keys, threshold=2)
    assert list(model) and not model.is_encrypted


def _demands(path, key):
    """A pin and a signature of a file, each of which fixes every byte of it."""
    pin = modelfmt.outboard(path).pin
    modelfmt.sign(path, key.private)
    return [{"pin": pin}, {"keys": key.public}]


@pytest.mark.parametrize("mmap", [False, True])
def test_what_is_read_later_is_what_was_signed_or_pinned(tmp_path, mmap):
    path = tmp_path / "m.safetensors"
    modelfmt.save({"w": np.arange(100_000, dtype=np.int32)}, path)
    for given in _demands(path, modelfmt.keygen(tmp_path / "release.pem", "p256")):
        good = path.read_bytes()
        model = modelfmt.open(path, mmap=mmap, **given)
        assert model["w"][-1] == 99_999
        # In place, because the map would keep the content of a replaced file.
        with path.open("r+b") as file:
            file.seek(-4, 2)
            file.write(b"\0\0\0\0")
        with pytest.raises(modelfmt.VerifyError):
            model["w"]
        path.write_bytes(good)


def test_a_config_that_nothing_covers_names_nothing(tmp_path):
    path, out = tmp_path / "m.safetensors", tmp_path / "out.aero"
    modelfmt.save({"w": np.zeros(2, np.float32)}, path)
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    for given in [{}, *_demands(path, modelfmt.keygen(tmp_path / "release.pem", "p256"))]:
        done = modelfmt.convert(modelfmt.open(path, **given), out, overwrite=True)
        expected = "does not cover the config.json" if given else 'architecture is "bert", from the config.json'
        assert any(expected in note for note in done.notes)
        assert modelfmt.open(out).metadata["json"]["architecture"] == ("unknown" if given else "bert")
