"""What all tests share."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

import modelfmt

try:
    from hypothesis import HealthCheck, settings
except ImportError:  # the environment with torch has none
    pass
else:
    # The same examples each time, however slow the machine is.
    settings.register_profile("package", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("package")

ROOT = Path(__file__).parents[3]
TESTDATA = ROOT / "testdata"
ENDINGS = (".aero", ".mag", ".oinf", ".apr", ".safetensors", ".gguf", ".npy", ".npz", ".pt", ".json")


@pytest.fixture
def arrays() -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    return {
        "a": random.standard_normal((16, 8)).astype(np.float32),
        "b.weight": random.standard_normal((4, 3, 5)).astype(np.float16),
        "b.ids": random.integers(-9, 9, 11),
        "scalar": np.array(2.5, dtype=np.float64),
        "empty": np.zeros((0, 4), dtype=np.float32),
        "mask": np.array([True, False, True]),
    }


@pytest.fixture
def saved(tmp_path, arrays):
    path = tmp_path / "model.safetensors"
    modelfmt.save(arrays, path, metadata={"license": "MIT"})
    return path


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    """A folder for what is read from URLs, which is that of this test alone."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    for name in list(os.environ):  # what the user has set for buckets
        if name.startswith(("AWS_", "GOOGLE_", "AZURE_", "HF_")):
            monkeypatch.delenv(name)
    return folder / "modelfmt"


def golden() -> list[Path]:
    """The files of testdata that are models of some format."""
    suite = TESTDATA / "conformance"  # which has tests of its own
    found = (path for path in TESTDATA.rglob("*") if path.is_file() and path.name.endswith(ENDINGS))
    return sorted(path for path in found if suite not in path.parents)


@pytest.fixture(scope="session")
def s3_server():
    import servers

    python = servers.moto_python()
    if python is None:
        pytest.skip("there is no moto: `cargo xtask servers` installs it")
    with servers.s3(python) as server:
        yield server


@pytest.fixture
def s3(s3_server, monkeypatch):
    """An S3 server, and the environment that leads to it."""
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    return s3_server


@pytest.fixture
def web(tmp_path_factory):
    """A web server over an empty folder."""
    import servers

    program = servers.nginx_program()
    if program is None:
        pytest.skip("there is no nginx (Debian: apt-get install nginx)")
    with servers.nginx(program, tmp_path_factory.mktemp("www"), tmp_path_factory.mktemp("nginx")) as server:
        yield server


# Python ignores Ctrl-C if it was started with the signal ignored, as under `nohup` or in the background of a
# script.
HEARS = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"


def program(code: str) -> list[str]:
    """The command of a program that hears Ctrl-C."""
    return [sys.executable, "-c", HEARS + textwrap.dedent(code)]


def interrupt(code: str) -> None:
    """Runs a program that prints `begin` before a long call, sends it Ctrl-C, and waits until it prints `interrupted` and ends."""
    command = program(code)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
        try:
            assert run.stdout.readline() == "begin\n"
            time.sleep(0.4)
            begin, worked = time.monotonic(), cpu_seconds(run.pid)
            run.send_signal(signal.SIGINT)
            assert run.stdout.readline() == "interrupted\n"
            # On a busy machine, time passes without work. Waiting for servers would take 20 seconds or more.
            assert cpu_seconds(run.pid) - worked < 1 and time.monotonic() - begin < 15
            assert run.wait(10) == 0
        finally:
            run.kill()


def cpu_seconds(process: int) -> float:
    """The time that a process has worked on all cores, until it is waited for; 0 where the system does not tell."""
    stat = Path(f"/proc/{process}/stat")
    if not stat.exists():
        return 0
    fields = stat.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
