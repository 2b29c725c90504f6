"""A slot for jobs survives what a job meets."""

from __future__ import annotations

import errno
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nnkit.serve import supervisor as module
from nnkit.serve.limits import Limits, ServeOptions
from nnkit.serve.store import JobRecord, Sender, Store, new_record
from nnkit.serve.supervisor import Supervisor


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Store, Supervisor]]:
    store = Store(tmp_path / "jobs")
    supervisor = Supervisor(store, ServeOptions(tmp_path / "jobs", limits=Limits(job_seconds=100)))
    supervisor.start()
    yield store, supervisor
    supervisor.stop()


def outcome(served: tuple[Store, Supervisor]) -> JobRecord:
    """Of a job whose network is none."""
    store, supervisor = served
    name, folder = store.new_folder(Sender("me"), 99, 99)
    (folder.input / "net.onnx").write_bytes(b"no network")
    store.add(new_record(name, Sender("me"), "net", "gap8", {}))
    supervisor.notify()
    while (job := store.get(name, "me")) is None or job.state in ("waiting", "running"):
        time.sleep(0.01)
    return job


def test_a_slot_goes_on_after_a_full_disk_a_bad_configuration_and_a_bug(
    served: tuple[Store, Supervisor],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for error, said in (
        (OSError(errno.ENOSPC, "No space left on device"), "the server's disk is full"),
        (OSError(errno.EAGAIN, "Resource temporarily unavailable"), "Resource temporarily unavailable"),
        (RuntimeError("odd"), "a bug in nnkit: RuntimeError: odd"),
    ):
        with monkeypatch.context() as broken:

            def fail(*_: object, error: Exception = error) -> None:
                raise error

            broken.setattr(module, "write_order", fail)
            job = outcome(served)
            assert job.state == "failed"
            assert said in job.error
    assert "RuntimeError" in capsys.readouterr().err
    (tmp_path / "configuration").mkdir()
    monkeypatch.setenv("NNKIT_CONFIG", str(tmp_path / "configuration"))
    (tmp_path / "configuration/config.yaml").write_text("time_factor: [")
    job = outcome(served)
    assert (job.state, "the configuration" in job.error) == ("failed", True)
    (tmp_path / "configuration/config.yaml").write_text("time_factor: 2")
    job = outcome(served)
    assert (job.state, "not an ONNX model" in job.error) == ("failed", True), job.error
