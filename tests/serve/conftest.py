"""A server in a process of its own, as users start it, and what they send."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from small_project import write_project

ENDED = ("done", "failed", "cancelled")


class Server:
    """A running `nnkit serve` on any free port. before: words in front of its command, which end in running it."""

    def __init__(self, folder: Path, *options: object, before: Sequence[str] = ()) -> None:
        command = [
            *before,
            sys.executable,
            "-m",
            "nnkit",
            "serve",
            "--port",
            "0",
            "--folder",
            str(folder),
            *map(str, options),
        ]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        first = self.process.stdout.readline()
        if not first.startswith("nnkit serves http"):
            raise AssertionError(first + (self.process.communicate()[1] or ""))
        self.url = first.split()[2]
        self.port = int(self.url.rpartition(":")[2])

    def client(self, **headers: str) -> httpx.Client:
        """A user's: its cookies are its own."""
        return httpx.Client(base_url=f"http://127.0.0.1:{self.port}", headers=headers, timeout=60)

    def stop(self) -> tuple[int, str]:
        """Ask it to end; its exit code and what it wrote on stderr."""
        self.process.terminate()
        _, said = self.process.communicate()
        return self.process.returncode, said


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Starts servers, which end with the test."""
    with ExitStack() as stack:

        def started(*options: object, folder: Path = tmp_path / "jobs") -> Server:
            server = Server(folder, *options)
            stack.callback(lambda: server.process.poll() is None and server.stop())
            return server

        yield started


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sent")
    write_project(folder)
    return folder


@pytest.fixture
def parts(project: Path) -> list[tuple[str, tuple[str, bytes]]]:
    """A model and pictures, as fields of a form."""
    pictures = sorted((project / "images").iterdir())
    return [
        ("model", ("net.onnx", (project / "net.onnx").read_bytes())),
        *(("images", (path.name, path.read_bytes())) for path in pictures),
    ]


def wait(client: httpx.Client, job: str, until: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The job, as soon as it is as wanted; it may not end before that."""
    while True:
        found: dict[str, Any] = client.get(f"/api/jobs/{job}").raise_for_status().json()
        if until(found):
            return found
        assert found["state"] not in ENDED, found


def ended(client: httpx.Client, job: str) -> dict[str, Any]:
    return wait(client, job, lambda found: found["state"] in ENDED)
