"""What goes wrong is an exception, never a crash."""

import faulthandler
import gc
import multiprocessing
import os
import pickle
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest
from conftest import TESTDATA, golden, interrupt
from hypothesis import given, settings
from hypothesis import strategies as st

import modelfmt

faulthandler.enable()


def look_at(content):
    """Everything that can be asked of a model; errors of the package are fine."""
    try:
        model = modelfmt.open(content)
        for name in list(model)[:20]:
            model.info(name)
            tensor = model.tensor(name)
            if model.info(name).has_data and tensor.nbytes < 1 << 24:
                tensor.raw()
                np.asarray(tensor.numpy())
        model.metadata, model.details, model.verify()
        modelfmt.load(model)
    except modelfmt.ModelfmtError:
        pass
    except MemoryError:
        pass


SMALL = [path for path in golden() if path.stat().st_size < 20_000 and path.suffix != ".json"]


@settings(max_examples=200)
@given(st.data())
def test_damaged_files(data):
    content = bytearray(data.draw(st.sampled_from(SMALL)).read_bytes())
    for _ in range(data.draw(st.integers(1, 8))):
        if content:
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(0, len(content))) :]
    look_at(bytes(content))


@settings(max_examples=50)
@given(st.binary(max_size=300))
def test_any_bytes(content):
    look_at(content)


def test_hostile_files():
    for path in sorted((TESTDATA).rglob("*")):
        if path.is_file() and path.stat().st_size < 1 << 20:
            look_at(path.read_bytes())


def test_truncation_during_a_read(saved):
    model = modelfmt.open(saved)
    size = saved.stat().st_size
    os.truncate(saved, size - 100)
    failed = 0
    for name in model:
        try:
            model[name]
        except OSError:
            failed += 1
    assert failed > 0
    with pytest.raises(OSError):
        modelfmt.load(model)


def test_a_file_that_is_replaced_stays_what_it_was(saved, arrays):
    model = modelfmt.open(saved)
    other = saved.with_name("other")
    other.write_bytes(b"x" * 50)
    os.replace(other, saved)
    np.testing.assert_array_equal(model["a"], arrays["a"])


def test_threads(saved, arrays):
    model, errors = modelfmt.open(saved), []

    def work():
        try:
            for _ in range(50):
                np.testing.assert_array_equal(model["a"], arrays["a"])
                np.testing.assert_array_equal(model.tensor("a")[3:5].numpy(), arrays["a"][3:5])
                modelfmt.load(model)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert errors == []


def _in_child(model, queue):
    queue.put(float(model["a"].sum()))
    queue.put(len(modelfmt.load(model)))


def test_fork(saved, arrays):
    context = multiprocessing.get_context("fork")
    model, queue = modelfmt.open(saved), context.Queue()
    modelfmt.load(model)
    child = context.Process(target=_in_child, args=(model, queue))
    child.start()
    assert queue.get(timeout=20) == pytest.approx(float(arrays["a"].sum())) and queue.get(timeout=20) == 6
    child.join()
    assert child.exitcode == 0


def test_nothing_leaks(tmp_path):
    path = tmp_path / "m.safetensors"
    modelfmt.save({"w": np.ones(1 << 20)}, path)
    code = f"""
    import gc, resource, numpy as np, modelfmt
    resource.setrlimit(resource.RLIMIT_AS, (1 << 31, 1 << 31))
    for _ in range(400):
        model = modelfmt.open({str(path)!r})
        array = model["w"]
        np.from_dlpack(model.tensor("w"))
        model.tensor("w").__dlpack__(max_version=(1, 0))
        modelfmt.load(model)
        modelfmt.open({str(path)!r}, mmap=True)["w"][0] = 1
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)


def test_references_are_given_back(saved):
    model = modelfmt.open(saved)
    model["a"], modelfmt.load(model)
    gc.collect()
    before = sys.getrefcount(model), sys.getrefcount(modelfmt.Tensor)
    for _ in range(100):
        model["a"], model.tensor("a")[1:3], model.info("a"), list(model)
    gc.collect()
    assert (sys.getrefcount(model), sys.getrefcount(modelfmt.Tensor)) == before


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A file of 256 MiB, with a hash of each tensor."""
    path = tmp_path_factory.mktemp("large") / "m.aero"
    modelfmt.save({f"w{n}": np.zeros(16 << 20, np.float32) for n in range(4)}, path, tensor_hashes=True)
    yield path
    path.unlink()


LONG = (
    "verify(path, threads=1)",
    "convert(path, out + '.apr', compress='lz4', overwrite=True, threads=1)",
    "convert(path, out + '.aero', dry_run=True, cast='f16', threads=1)",
    "load(path, threads=1)",
    "save(modelfmt.open(path, mmap=True), out + '.aero', tensor_hashes=True, overwrite=True, threads=1)",
    "check(path, threads=1)",
    "inspect(path, hash=True)",
    "diff(path, modelfmt.open(path), threads=1)",
    "stats(path, 'w0', threads=1)",
    "edit(path, output=out + '.aero', set={'a': 'b'}, overwrite=True)",
    "outboard(path, overwrite=True)",
    "sign(path, key, overwrite=True)",
    "open(path, verify=True)",
    "open(path, pin='b3:' + '0' * 64)",
)


@pytest.mark.parametrize("call", LONG, ids=lambda call: call.partition("(")[0])
def test_ctrl_c_ends_a_long_call_within_a_second(tmp_path, large, call):
    modelfmt.keygen(tmp_path / "key.pem", "p256")
    code = f"""
    import modelfmt
    path, out, key = {str(large)!r}, {str(tmp_path / "out")!r}, {str(tmp_path / "key.pem")!r}
    print("begin", flush=True)
    try:
        while True:
            try:
                modelfmt.{call}
            except modelfmt.VerifyError:
                pass
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    """
    interrupt(code)
    assert not [*tmp_path.glob("*.tmp"), *large.parent.glob("*.tmp")]


def test_an_error_of_the_callback_ends_the_call(tmp_path):
    path = tmp_path / "m.aero"
    modelfmt.save({"w": np.zeros(8 << 20)}, path)

    def tell(done, total):
        raise LookupError("enough")

    for call in (modelfmt.load, modelfmt.verify):
        with pytest.raises(LookupError, match="enough"):
            call(path, progress=tell)


def test_the_interpreter_runs_beside_a_long_call(tmp_path):
    path = tmp_path / "m.aero"
    modelfmt.save({"w": np.zeros(24 << 20)}, path)
    turns, stop = [0], threading.Event()

    def count():
        while not stop.wait(0.001):
            turns[0] += 1

    def counted():
        before = turns[0]
        modelfmt.verify(path, threads=1)
        return turns[0] - before

    thread = threading.Thread(target=count)
    thread.start()
    # A call that did not release the interpreter would let the other thread count only once, before it
    # begins. On a busy machine the thread may have to wait for a core, so it gets several chances.
    assert any(counted() > 5 for _ in range(20))
    stop.set()
    thread.join()


def test_errors_are_what_people_expect(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        modelfmt.open(tmp_path / "none")
    assert isinstance(caught.value, modelfmt.ModelfmtError) and caught.value.filename == str(tmp_path / "none")
    assert "No such file" in str(caught.value) and caught.value.errno == 2
    (tmp_path / "text").write_text("hello")
    with pytest.raises(modelfmt.FormatError):
        modelfmt.open(tmp_path / "text")
    with pytest.raises(TypeError):
        modelfmt.open(3)
    with pytest.raises(modelfmt.UsageError):
        modelfmt.open(TESTDATA / "reference/one-shard.aero").verify("deep")
    with pytest.raises(KeyError, match="did you mean"):
        modelfmt.open(TESTDATA / "reference/one-shard.aero")["embed.weigth"]
    with pytest.raises(IsADirectoryError):
        modelfmt.outboard(tmp_path)


def test_errors_are_pickled(tmp_path, saved):
    """A pool of processes sends them so."""
    calls = [
        lambda: modelfmt.open(tmp_path / "none"),
        lambda: modelfmt.save({}, saved),
        lambda: modelfmt.outboard(tmp_path),
        lambda: modelfmt.open(saved)["none"],
        lambda: modelfmt.open(saved, pin="b3:" + "0" * 64),
        lambda: modelfmt.save({"w": np.zeros(1, np.complex64)}, tmp_path / "m.mag"),
    ]
    for call in calls:
        with pytest.raises(modelfmt.ModelfmtError) as caught:
            call()
        error, again = caught.value, pickle.loads(pickle.dumps(caught.value))
        assert type(again) is type(error) and str(again) == str(error)
        assert (again.code, again.remedies) == (error.code, error.remedies)
        assert getattr(again, "filename", None) == getattr(error, "filename", None)
