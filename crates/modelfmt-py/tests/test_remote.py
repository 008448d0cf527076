"""Models at URLs, over servers on this machine."""

import multiprocessing
import os
import pickle
import signal
import subprocess
import time

import numpy as np
import pytest
import servers
from conftest import interrupt, program

import modelfmt


@pytest.fixture
def url(web, arrays):
    modelfmt.save(arrays, web.folder / "model.safetensors", metadata={"license": "MIT"})
    return f"{web.endpoint}/model.safetensors"


def test_a_model_at_a_url_is_read_by_ranges(web, url, arrays):
    model = modelfmt.open(url)
    assert dict(model.metadata) == {"license": "MIT"} and model.path == url
    for name, array in arrays.items():
        np.testing.assert_array_equal(model[name], array, strict=True)
        assert model.info(name).shape == array.shape
    np.testing.assert_array_equal(model.tensor("a")[3:5, ::2].numpy(), arrays["a"][3:5, ::2])
    loaded = modelfmt.load(url)
    assert set(loaded) == set(arrays)
    assert model.verify()["ok"] and modelfmt.verify(url)["ok"] and modelfmt.check(url)["ok"]
    assert modelfmt.inspect(url)["path"] == url
    assert modelfmt.diff(url, web.folder / "model.safetensors")["same"]
    assert "a: " in modelfmt.show(url) and modelfmt.stats(url, "a")["count"] == 128
    assert repr(model).startswith(f"<Model safetensors '{url}'") and url in model._repr_html_()
    assert all(request.split()[2].startswith("bytes=") for request in web.requests())


def test_a_column_is_one_request(web):
    array = np.arange(1_000_000, dtype=np.float32).reshape(200, 5000)
    modelfmt.save({"w": array}, web.folder / "wide.safetensors")
    model = modelfmt.open(f"{web.endpoint}/wide.safetensors", cache=False)
    before = len(web.requests())
    np.testing.assert_array_equal(model.tensor("w")[:, 4990].numpy(), array[:, 4990])
    assert len(web.requests()) == before + 1
    np.testing.assert_array_equal(model.tensor("w")[[50, 190, 51], ::-7].numpy(), array[[50, 190, 51], ::-7])
    assert len(web.requests()) == before + 3  # rows that are far apart are two ranges


def test_what_may_be_secret_is_not_shown(web, url):
    secret = url + "?signature=s3cret"
    model = modelfmt.open(secret)
    for text in (repr(model), model._repr_html_(), model.path, str(model.inspect()), str(model.verify())):
        assert "s3cret" not in text
    with pytest.raises(FileNotFoundError) as caught:
        modelfmt.open(url + "x?signature=s3cret")
    assert "s3cret" not in str(caught.value) and "safetensorsx" in str(caught.value)


def test_a_set_at_a_url(web, arrays):
    modelfmt.save(arrays, web.folder / "m.safetensors.index.json", shard_size=300)
    model = modelfmt.open(f"{web.endpoint}/m.safetensors.index.json")
    assert model.format == "safetensors-sharded"
    for name, array in arrays.items():
        np.testing.assert_array_equal(model[name], array, strict=True)


def test_errors(web, url):
    with pytest.raises(FileNotFoundError, match="no such file"):
        modelfmt.open(f"{web.endpoint}/none")
    report = modelfmt.verify(f"{web.endpoint}/none")
    assert not report["ok"] and "no such file" in report["errors"][0]
    with pytest.raises(modelfmt.ModelfmtError, match="http://…"):
        modelfmt.open("http://")
    with pytest.raises(modelfmt.UsageError, match="mapped"):
        modelfmt.open(url, mmap=True)
    with pytest.raises(modelfmt.UsageError, match="open already"):
        modelfmt.load(modelfmt.open(url), pin="b3:" + "0" * 64)
    with pytest.raises(modelfmt.UsageError, match="files of this machine"):
        modelfmt.sign("s3://models/m.safetensors", "key.pem")
    with pytest.raises(OSError, match="only buckets"):
        modelfmt.save({}, f"{web.endpoint}/m.aero")
    with pytest.raises(OSError, match="only buckets"):
        modelfmt.convert(url, f"{web.endpoint}/m.aero")
    with pytest.raises(TypeError, match="pine"):
        modelfmt.open(url, pine=1)


def test_a_file_that_changes_is_an_error(web, url, arrays):
    model = modelfmt.open(url)
    big = {"w": np.zeros(1 << 20, np.float32)}
    modelfmt.save(big, web.folder / "big.safetensors")
    os.utime(web.folder / "big.safetensors", (1e9, 1e9))  # nginx makes its entity tags of whole seconds
    model = modelfmt.open(f"{web.endpoint}/big.safetensors")
    modelfmt.save({"w": np.ones(1 << 20, np.float32)}, web.folder / "big.safetensors", overwrite=True)
    with pytest.raises(OSError, match="changed"):
        model["w"]


def test_models_are_pickled_by_url(url, arrays):
    again = pickle.loads(pickle.dumps(modelfmt.open(url)))
    np.testing.assert_array_equal(again["a"], arrays["a"])


def _in_child(model, url, queue):
    queue.put(float(model["a"].sum()))
    queue.put(float(modelfmt.open(url)["a"].sum()))


def test_fork(url, arrays):
    context = multiprocessing.get_context("fork")
    model, queue = modelfmt.open(url), context.Queue()
    child = context.Process(target=_in_child, args=(model, url, queue))
    child.start()
    for _ in range(2):
        assert queue.get(timeout=20) == pytest.approx(float(arrays["a"].sum()))
    child.join()
    assert child.exitcode == 0


def test_buckets_are_read_and_written(s3, saved, arrays):
    url = s3.put("in/model.safetensors", saved.read_bytes())
    done = modelfmt.convert(url, "s3://models/out/model.aero", tensor_hashes=True)
    assert [file for file, _ in done.files] == ["s3://models/out/model.aero"] and done.tensors == len(arrays)
    loaded = modelfmt.load("s3://models/out/model.aero")
    for name, array in arrays.items():
        np.testing.assert_array_equal(loaded[name], array, strict=True)
    with pytest.raises(FileExistsError) as caught:
        modelfmt.convert(url, "s3://models/out/model.aero")
    assert caught.value.remedies == ("overwrite=True",)
    modelfmt.convert(url, "s3://models/out/model.aero", overwrite=True)
    done = modelfmt.convert(saved, "s3://models/set/m.safetensors.index.json", shard_size=300)
    assert {name for name in s3.names() if name.startswith("set/")} == {
        file.removeprefix("s3://models/") for file, _ in done.files
    }
    assert modelfmt.open("s3://models/set/m.safetensors.index.json")["b.ids"].tolist() == arrays["b.ids"].tolist()
    assert s3.uploads() == 0


def test_tensors_are_saved_into_buckets(s3, tmp_path, arrays):
    """The bytes are those of a local file, whether the tensors are there or come one by one."""
    for name in ("m.safetensors", "m.aero"):
        options = {"uuid": b"m" * 16} if name.endswith("aero") else {}
        modelfmt.save(arrays, tmp_path / name, metadata={"license": "MIT"}, **options)
        for tensors in (arrays, iter(arrays.items())):
            told = []
            url, tell = f"s3://models/saved/{name}", lambda *at, told=told: told.append(at)
            modelfmt.save(tensors, url, metadata={"license": "MIT"}, progress=tell, overwrite=bool(s3.names()), **options)
            assert s3.get(f"saved/{name}") == (tmp_path / name).read_bytes() and told[-1][0] == told[-1][1] > 0
        with pytest.raises(FileExistsError, match=f"s3://models/saved/{name}"):
            modelfmt.save(arrays, f"s3://models/saved/{name}", **options)
    index = "s3://models/saved/set.safetensors.index.json"
    modelfmt.save(arrays, index, shard_size=300)
    many = {name for name in s3.names() if name.startswith("saved/set")}
    with pytest.raises(FileExistsError):
        modelfmt.save(arrays, index, shard_size=1 << 20)
    modelfmt.save(arrays, index, shard_size=1 << 20, overwrite=True)
    few = {name for name in s3.names() if name.startswith("saved/set")}
    assert few == {"saved/set.safetensors.index.json", "saved/set-00001-of-00001.safetensors"} and len(many) > len(few)
    loaded = modelfmt.load(index)
    for name, array in arrays.items():
        np.testing.assert_array_equal(loaded[name], array, strict=True)

    def broken():
        yield "a", arrays["a"]
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        modelfmt.save(broken(), "s3://models/saved/broken.safetensors")
    with pytest.raises(modelfmt.UnsupportedError):
        modelfmt.save({"w": np.zeros(3, np.complex64)}, "s3://models/saved/broken.mag")
    assert s3.uploads() == 0 and not any("broken" in name for name in s3.names())


def test_a_large_save_sends_parts(s3):
    """More than one part of 8 MiB, so that an upload is begun and completed."""
    array = np.arange(5 << 20, dtype=np.int32)
    modelfmt.save({"w": array}, "s3://models/large.safetensors")
    np.testing.assert_array_equal(modelfmt.open("s3://models/large.safetensors")["w"], array)
    assert s3.uploads() == 0


def test_what_was_read_is_kept(web, url, cache, arrays):
    def asked():
        return [request.split()[2] for request in web.requests()[len(before) :]]

    before = web.requests()
    np.testing.assert_array_equal(modelfmt.open(url)["a"], arrays["a"])
    assert asked() == ["bytes=0-524287"] and any(cache.rglob("*.page"))
    before = web.requests()
    np.testing.assert_array_equal(modelfmt.open(url)["a"], arrays["a"])
    assert asked() == ["bytes=0-0"]  # whether it is still the same
    assert modelfmt.verify(url)["ok"]
    assert asked() == ["bytes=0-0", "bytes=0-524287"]  # the server's bytes are judged
    before = web.requests()
    np.testing.assert_array_equal(modelfmt.load(url, cache=False)["a"], arrays["a"])
    assert asked() == ["bytes=0-524287"]
    modelfmt.save(arrays, web.folder / "model.aero")
    (pin,) = modelfmt.open(web.folder / "model.aero").pins
    remote = f"{web.endpoint}/model.aero"
    modelfmt.open(remote, pin=pin)
    before = web.requests()
    np.testing.assert_array_equal(modelfmt.open(remote, pin=pin)["a"], arrays["a"])
    assert asked() == []
    kept = sorted(cache.rglob("*"))
    modelfmt.save(arrays, web.folder / "other.safetensors")
    modelfmt.open(f"{web.endpoint}/other.safetensors", cache=False)["a"]
    assert sorted(cache.rglob("*")) == kept


def test_what_a_replaced_set_leaves_behind_is_removed(s3, saved):
    url = "s3://models/again/m.safetensors.index.json"
    s3.put("again/m-notes.txt", b"mine")
    many = modelfmt.convert(saved, url, shard_size=300)
    few = modelfmt.convert(saved, url, shard_size=1 << 20, overwrite=True)
    assert len(few.files) == 2 < len(many.files)
    assert any("is removed: it belonged to the previous" in note for note in few.notes)
    kept = {file.removeprefix("s3://models/") for file, _ in few.files} | {"again/m-notes.txt"}
    assert {name for name in s3.names() if name.startswith("again/")} == kept
    with pytest.raises(modelfmt.UsageError, match="outboard: it is written beside files"):
        modelfmt.convert(saved, url, outboard=True, overwrite=True)


def test_the_environment_counts_when_a_model_is_opened(s3, saved, monkeypatch):
    url = s3.put("model.safetensors", saved.read_bytes())
    modelfmt.open(url)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    with pytest.raises(OSError, match="no connection"):
        modelfmt.open(url)


def test_pins(web, url, arrays):
    path = web.folder / "model.aero"
    modelfmt.save(arrays, path, tensor_hashes=True)
    remote = f"{web.endpoint}/model.aero"
    (pin,) = modelfmt.open(path).pins
    assert pin.startswith("aero:")
    np.testing.assert_array_equal(modelfmt.open(remote, pin=pin)["a"], arrays["a"])
    assert modelfmt.load(remote, pin=pin).keys() == arrays.keys()
    with pytest.raises(modelfmt.VerifyError):
        modelfmt.open(remote, pin="aero:" + "0" * 64)
    with pytest.raises(OSError, match="obao4"):
        modelfmt.open(remote, pin="b3:" + "0" * 64)
    content = path.read_bytes()
    damaged = bytearray(content)
    damaged[damaged.index(arrays["a"].tobytes())] ^= 1
    (web.folder / "damaged.aero").write_bytes(damaged)
    model = modelfmt.open(f"{web.endpoint}/damaged.aero", pin=pin)
    with pytest.raises(modelfmt.VerifyError):
        model["a"]
    assert not modelfmt.verify(f"{web.endpoint}/damaged.aero", pin=pin)["ok"]


HEAD = b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-99/4000000\r\nContent-Length: 100\r\n\r\n"


@pytest.mark.parametrize("call", ["open", "load", "verify"])
@pytest.mark.parametrize("after", [b"", HEAD], ids=["no-answer", "broken-answer"])
def test_ctrl_c_ends_a_wait_for_a_server(call, after):
    with servers.silent(after) as endpoint:
        code = f"""
        import modelfmt
        print("begin", flush=True)
        try:
            modelfmt.{call}({endpoint + "/m.safetensors"!r})
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        """
        interrupt(code)


@pytest.mark.parametrize("tensors", ["{'w': array}", "iter([('w', array)])"], ids=["there", "one-by-one"])
def test_ctrl_c_ends_a_wait_for_a_bucket(s3, monkeypatch, tensors):
    with servers.silent() as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        code = f"""
        import modelfmt, numpy
        array = numpy.zeros(6 << 20, numpy.int32)
        print("begin", flush=True)
        try:
            modelfmt.save({tensors}, "s3://models/m.safetensors")
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        """
        interrupt(code)


@pytest.mark.parametrize("call", ["convert(path, url)", "save(modelfmt.open(path, mmap=True), url)"], ids=["convert", "save"])
def test_ctrl_c_in_an_upload_leaves_nothing(s3, tmp_path, call):
    path, nbytes = tmp_path / "large.safetensors", 16 << 30
    header = b'{"t":{"dtype":"I8","shape":[%d],"data_offsets":[0,%d]}}' % (nbytes, nbytes)
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    os.truncate(path, path.stat().st_size + nbytes)  # takes no room on the disk
    code = f"""
    import modelfmt
    path, url = {str(path)!r}, "s3://models/stopped.safetensors"
    try:
        modelfmt.{call}
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    """
    with subprocess.Popen(program(code), stdout=subprocess.PIPE, text=True) as run:
        end = time.monotonic() + 30
        while s3.uploads() == 0:
            assert run.poll() is None and time.monotonic() < end
            time.sleep(0.02)
        begin = time.monotonic()
        run.send_signal(signal.SIGINT)
        assert run.stdout.readline() == "interrupted\n" and time.monotonic() - begin < 15
    assert run.returncode == 0 and s3.uploads() == 0 and "stopped.safetensors" not in s3.names()


def test_ctrl_c_ends_a_read_and_leaves_the_model_usable(web, arrays):
    path = web.folder / "m.safetensors"
    modelfmt.save({"w": np.zeros(1 << 20, np.float32)}, path)
    code = f"""
    import modelfmt, os, signal
    model = modelfmt.open({web.endpoint + "/m.safetensors"!r})
    print("begin", flush=True)
    try:
        while True:
            model["w"], modelfmt.load(model)
    except KeyboardInterrupt:
        assert model["w"].sum() == 0
        print("interrupted", flush=True)
    """
    interrupt(code)
