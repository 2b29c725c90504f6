"""A server whose disk is full: a small file system of its own (Linux, mounted without rights of an administrator)."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.serve.conftest import Server, ended

MOUNTED = ["unshare", "--user", "--map-root-user", "--mount"]


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Server]:
    """Its jobs and temporary files lie on 8 MiB."""
    (tmp_path / "disk").mkdir()
    mount = f"mount -t tmpfs -o size=8m none {tmp_path / 'disk'}"
    if shutil.which("unshare") is None or subprocess.run([*MOUNTED, "sh", "-c", mount], check=False).returncode:
        pytest.skip("this system mounts nothing for its users")
    server = Server(
        tmp_path / "disk/jobs",
        before=[*MOUNTED, "sh", "-c", f'{mount} && exec "$@"', "sh", "env", f"TMPDIR={tmp_path / 'disk'}"],
    )
    yield server
    server.stop()


def test_a_full_disk_is_told_and_the_next_job_runs(small: Server, tmp_path: Path) -> None:
    disk = Path(f"/proc/{small.process.pid}/root") / tmp_path.relative_to("/") / "disk"
    with small.client() as client:

        def sent() -> int:
            answer = client.post("/api/jobs", files=[("model", ("net.onnx", b"no network"))], data={"target": "gap8"})
            if answer.status_code == 201:
                job = ended(client, answer.json()["id"])
                assert job["state"] == "failed"
                errors.append(job["error"])
            return int(answer.status_code)

        errors: list[str] = []
        fill(disk / "filler", left_pages=0)
        assert sent() == 507
        (disk / "filler").unlink()
        fill(disk / "filler", left_pages=3)  # the upload fits, and its record: what the job writes does not
        assert sent() == 201
        (disk / "filler").unlink()
        assert sent() == 201
        assert "the server's disk is full" in errors[0]
        assert "not an ONNX model" in errors[1]


def fill(path: Path, left_pages: int) -> None:
    page = os.sysconf("SC_PAGE_SIZE")
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(page))
        except OSError:
            file.truncate(file.tell() - left_pages * page)
