"""Models from open files, and from content in memory."""

import bz2
import gzip
import io
import mmap
import os
import tempfile
import zipfile

import numpy as np
import pytest

import modelfmt


class ReadAndSeek:
    """An object with these two methods and nothing else."""

    def __init__(self, content):
        self.file = io.BytesIO(content)
        self.read, self.seek = self.file.read, self.file.seek


class Pipe(io.RawIOBase):
    """A file that has no positions, and gives a few bytes at a time."""

    def __init__(self, content):
        self.rest = content

    def readable(self):
        return True

    def readinto(self, out):
        piece, self.rest = self.rest[: min(len(out), 7)], self.rest[min(len(out), 7) :]
        out[: len(piece)] = piece
        return len(piece)


def zipped(path, folder):
    with zipfile.ZipFile(folder / "model.zip", "w", zipfile.ZIP_DEFLATED) as file:
        file.write(path, "model")
    return zipfile.ZipFile(folder / "model.zip").open("model")


def compressed(module, path, folder):
    with module.open(folder / "model.compressed", "wb") as file:
        file.write(path.read_bytes())
    return module.open(folder / "model.compressed")


def temporary(path):
    file = tempfile.NamedTemporaryFile()
    file.write(path.read_bytes())
    return file


KINDS = {
    "BytesIO": lambda path, folder: io.BytesIO(path.read_bytes()),
    "bytes": lambda path, folder: path.read_bytes(),
    "bytearray": lambda path, folder: bytearray(path.read_bytes()),
    "memoryview": lambda path, folder: memoryview(path.read_bytes()),
    "file": lambda path, folder: open(path, "rb"),
    "without a buffer": lambda path, folder: open(path, "rb", buffering=0),
    "to be changed": lambda path, folder: open(path, "r+b"),
    # The last bytes that were written are still in Python's buffer.
    "temporary": lambda path, folder: temporary(path),
    # Its descriptor is that of the compressed file.
    "gzip": lambda path, folder: compressed(gzip, path, folder),
    "bz2": lambda path, folder: compressed(bz2, path, folder),
    "zip": zipped,
    "read and seek": lambda path, folder: ReadAndSeek(path.read_bytes()),
    "pipe": lambda path, folder: Pipe(path.read_bytes()),
    "mmap": lambda path, folder: mmap.mmap(os.open(path, os.O_RDONLY), 0, access=mmap.ACCESS_READ),
}


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_anything_that_can_be_read_is_opened(tmp_path, saved, arrays, kind):
    model = modelfmt.open(KINDS[kind](saved, tmp_path))
    assert list(model) == list(modelfmt.open(saved)) and model.path is None
    for name, array in arrays.items():
        np.testing.assert_array_equal(model[name], array, strict=True)
    np.testing.assert_array_equal(modelfmt.load(KINDS[kind](saved, tmp_path))["a"], arrays["a"])
    assert modelfmt.verify(KINDS[kind](saved, tmp_path))["ok"]
    assert modelfmt.inspect(KINDS[kind](saved, tmp_path))["format"] == "safetensors"
    assert modelfmt.diff(KINDS[kind](saved, tmp_path), saved)["same"]
    modelfmt.convert(KINDS[kind](saved, tmp_path), tmp_path / "m.aero")
    assert modelfmt.diff(tmp_path / "m.aero", saved, ignore_metadata=True)["same"]


@pytest.mark.parametrize("open_it", [lambda path: open(path, "rb"), lambda path: io.BytesIO(path.read_bytes())])
def test_all_of_a_file_is_read_wherever_it_stands(saved, arrays, open_it):
    with open_it(saved) as file:
        file.seek(11)
        model = modelfmt.open(file)
        assert file.tell() == 11
        file.seek(0, io.SEEK_END)
        np.testing.assert_array_equal(model["a"], arrays["a"])
    # The model has its own file.
    np.testing.assert_array_equal(model["b.ids"], arrays["b.ids"])


def test_what_is_saved_into_memory_opens_from_there(arrays):
    out = io.BytesIO()
    modelfmt.save(arrays, out, "aero")
    model = modelfmt.open(out)
    # Writing to the object does not change the model.
    out.seek(0)
    out.write(b"x" * 1000)
    np.testing.assert_array_equal(model["a"], arrays["a"])


def test_an_open_file_can_be_mapped(saved, arrays):
    with open(saved, "rb") as plain:
        for file in (plain, ReadAndSeek(saved.read_bytes())):
            model = modelfmt.open(file, mmap=True)
            first, second = model["a"], model["a"]
            np.testing.assert_array_equal(first, arrays["a"])
            assert first.ctypes.data == second.ctypes.data


def test_a_file_that_lost_its_name_is_still_read(saved, arrays):
    with open(saved, "rb") as file:
        saved.unlink()
        np.testing.assert_array_equal(modelfmt.open(file)["a"], arrays["a"])


def test_a_pin_and_a_passphrase_hold_for_open_files(tmp_path, saved, arrays):
    pin = modelfmt.outboard(saved).pin
    with open(saved, "rb") as file:
        np.testing.assert_array_equal(modelfmt.open(file, pin=pin)["a"], arrays["a"])
        with pytest.raises(modelfmt.VerifyError, match=str(saved)):
            modelfmt.load(file, pin="b3:" + "0" * 64)
    sealed = tmp_path / "sealed.apr2"
    modelfmt.convert(saved, sealed, "apr2", seal=modelfmt.Seal(passphrase="p"), include="a")
    model = modelfmt.open(io.BytesIO(sealed.read_bytes()), passphrase="p")
    np.testing.assert_array_equal(model["a"], arrays["a"])


def test_what_cannot_be_read_says_so(saved):
    with open(saved, encoding="latin-1") as text:
        for file in (text, io.StringIO("x")):
            with pytest.raises(modelfmt.UsageError, match='mode "rb"'):
                modelfmt.open(file)
    for other in (3, None, object(), [str(saved)]):
        with pytest.raises(modelfmt.UsageError, match=f"not by a {type(other).__name__}"):
            modelfmt.open(other)
    with pytest.raises(modelfmt.FormatError):
        modelfmt.open(io.BytesIO())
    with open(saved, "ab") as file, pytest.raises(io.UnsupportedOperation):
        modelfmt.open(file)

    class Failing(ReadAndSeek):
        def __init__(self):
            super().__init__(b"")
            self.read = self.fail

        def fail(self, size):
            raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        modelfmt.open(Failing())
