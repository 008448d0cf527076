"""Real servers on a free port of this machine: nginx, from the system, and moto, which speaks S3."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from conftest import ROOT

MOTO = """
import logging, os, sys
from moto.server import ThreadedMotoServer
logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print("http://%s:%d" % server.get_host_and_port(), flush=True)
sys.stdin.read()
os._exit(0)
"""

# The server only checks that there is a signature, not that it is right.
AUTHORIZATION = (
    "AWS4-HMAC-SHA256 Credential=test-key/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
)

CONFIGURATION = """
daemon off; master_process off; worker_processes 1; pid nginx.pid;
events {{ worker_connections 256; }}
http {{
    log_format short escape=none '$request_method $uri $http_range $status';
    access_log access.log short;
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
    server {{ listen 127.0.0.1:{port}; root {folder}; }}
}}
"""


def moto_python() -> str | None:
    """The interpreter that can import moto, which `cargo xtask servers` installs."""
    named = os.environ.get("MODELFMT_SERVERS_PYTHON")
    installed = ROOT / "target/servers/bin/python"
    return named or (str(installed) if installed.exists() else None)


class S3:
    """A server with one bucket, `models`, in memory."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.environment = {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "test-key",
            "AWS_SECRET_ACCESS_KEY": "test-secret",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def request(self, method: str, target: str, body: bytes | None = None) -> bytes:
        headers = {"Authorization": AUTHORIZATION, "Content-Type": "application/octet-stream"}
        request = urllib.request.Request(self.endpoint + target, body, headers, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.read()

    def put(self, name: str, content: bytes) -> str:
        self.request("PUT", f"/models/{name}", content)
        return f"s3://models/{name}"

    def get(self, name: str) -> bytes:
        return self.request("GET", f"/models/{name}")

    def names(self) -> list[str]:
        listing = self.request("GET", "/models?list-type=2").decode()
        return sorted(part.partition("</Key>")[0] for part in listing.split("<Key>")[1:])

    def uploads(self) -> int:
        """The uploads that were begun and neither completed nor taken back."""
        return self.request("GET", "/models?uploads").decode().count("<UploadId>")


@contextlib.contextmanager
def s3(python: str) -> Iterator[S3]:
    with subprocess.Popen([python, "-c", MOTO], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        try:
            found = S3(server.stdout.readline().strip())
            found.request("PUT", "/models")
            yield found
        finally:
            server.stdin.close()


def nginx_program() -> str | None:
    return shutil.which("nginx", path=os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/usr/local/sbin"]))


class Web:
    """A web server over the files of a folder."""

    def __init__(self, endpoint: str, folder: Path, log: Path) -> None:
        self.endpoint, self.folder, self._log = endpoint, folder, log
        self._marks = 0

    def requests(self) -> list[str]:
        """The requests so far. nginx writes one down after its answer, so a request of our own has to follow it."""
        self._marks += 1
        mark = f"/mark-{self._marks}"
        with contextlib.suppress(urllib.error.HTTPError):
            urllib.request.urlopen(self.endpoint + mark, timeout=30).close()
        end = time.monotonic() + 30
        while f" {mark} " not in (log := self._log.read_text()):
            assert time.monotonic() < end
            time.sleep(0.01)
        return [line for line in log.splitlines() if " /mark-" not in line]


@contextlib.contextmanager
def nginx(program: str, folder: Path, work: Path) -> Iterator[Web]:
    for _ in range(8):
        port = free_port()
        (work / "nginx.conf").write_text(CONFIGURATION.format(port=port, folder=folder))
        command = [program, "-p", str(work), "-c", str(work / "nginx.conf"), "-e", str(work / "error.log")]
        server = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        if listens(port, server):
            break
        server.kill()
        server.wait()
    else:
        raise OSError(f"nginx did not start: {(work / 'error.log').read_text()}")
    try:
        yield Web(f"http://127.0.0.1:{port}", folder, work / "access.log")
    finally:
        server.terminate()
        server.wait()


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def listens(port: int, server: subprocess.Popen) -> bool:
    end = time.monotonic() + 30
    while time.monotonic() < end:
        if server.poll() is not None:
            return False
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
        time.sleep(0.02)
    return False


@contextlib.contextmanager
def silent(after: bytes = b"") -> Iterator[str]:
    """A server that takes connections, says at most `after`, and then nothing more."""
    connections = []
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    connection.sendall(after)
                    connections.append(connection)

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    for connection in connections:
        connection.close()
