"""Files from URLs, over servers on this machine."""

import pytest

import modelfmt


@pytest.fixture
def served(web):
    """A file with its outboard, its bytes, and its pin."""
    path = web.folder / "m.bin"
    path.write_bytes(bytes(range(251)) * 4000)
    return f"{web.endpoint}/m.bin", path.read_bytes(), modelfmt.outboard(path).pin


def test_a_new_file_and_a_damaged_one(served, tmp_path):
    url, good, pin = served
    out = tmp_path / "m.bin"
    told = []
    new = modelfmt.fetch(url, out, pin=pin, progress=lambda done, total: told.append((done, total)))
    assert out.read_bytes() == good and new.checked_by == "b3"
    assert (new.size, new.fetched, new.kept) == (len(good), len(good), 0)
    assert told[-1] == (len(good), len(good))
    damaged = bytearray(good)
    damaged[500_000] ^= 1
    out.write_bytes(damaged)
    repaired = modelfmt.fetch([url, url], out, pin=pin)
    assert out.read_bytes() == good
    assert (repaired.bad, repaired.fetched, repaired.kept) == (1, 16 << 10, len(good) - (16 << 10))
    assert [source.url for source in repaired.sources] == [url, url]
    assert modelfmt.fetch(url, out, pin=pin).requests == 0


def test_a_stopped_fetch_goes_on(served, tmp_path):
    url, good, pin = served

    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        modelfmt.fetch(url, tmp_path / "m.bin", pin=pin, progress=stop)
    modelfmt.fetch(url, tmp_path / "m.bin", pin=pin)
    assert (tmp_path / "m.bin").read_bytes() == good


def test_a_set_goes_into_a_folder(web, arrays, tmp_path):
    modelfmt.save(arrays, web.folder / "m.safetensors.index.json", shard_size=300)
    done = modelfmt.fetch(f"{web.endpoint}/m.safetensors.index.json", tmp_path / "new")
    assert {file.path.rsplit("/", 1)[1] for file in done.files} == {path.name for path in (tmp_path / "new").iterdir()}
    assert done.size == sum(file.size for file in done.files)
    assert set(modelfmt.load(tmp_path / "new" / "m.safetensors.index.json")) == set(arrays)


def test_errors(served, tmp_path):
    url, good, pin = served
    out = tmp_path / "m.bin"
    with pytest.raises(FileNotFoundError, match="no such file"):
        modelfmt.fetch(url + "x?signature=s3cret", out)
    out.write_bytes(b"mine")
    with pytest.raises(FileExistsError, match="overwrite=True"):
        modelfmt.fetch(url, out)
    with pytest.raises(FileExistsError, match="not a damaged copy"):
        modelfmt.fetch(url, out, pin=pin)
    assert out.read_bytes() == b"mine"
    modelfmt.fetch(url, out, overwrite=True)
    assert out.read_bytes() == good
    with pytest.raises(modelfmt.VerifyError, match="BLAKE3"):
        modelfmt.fetch(url, tmp_path / "new", pin="b3:" + "0" * 64)
    for wrong in ({"url": "m.bin"}, {"url": url, "path": url}, {"url": url, "pin": "sha256:0"}, {"url": url, "include": "*"}):
        with pytest.raises(modelfmt.UsageError):
            modelfmt.fetch(**{"path": out, **wrong})


def test_any_path_will_do(served, tmp_path):
    class Like:
        def __init__(self, path):
            self.path = str(path)

        def __fspath__(self):
            return self.path

    url, good, pin = served
    assert modelfmt.fetch(Like(url), Like(tmp_path / "m.bin"), pin=pin).path == str(tmp_path / "m.bin")
    assert modelfmt.fetch([Like(url), url], Like(tmp_path / "m.bin"), pin=pin).kept == len(good)
    with pytest.raises(modelfmt.UsageError, match="is no URL"):
        modelfmt.fetch(tmp_path / "m.bin", tmp_path / "n.bin")
