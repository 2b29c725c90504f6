"""Real schedulers and workers on the loopback address that die, hang or do not fit: an error each, and no hang."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import executor_jobs
import pytest

from nnkit.errors import ExitCode, ToolError
from nnkit.executors import ExecutorChoice, dask_cluster, dask_watch, open_executor

pytest.importorskip("distributed")
if sys.platform != "linux":
    pytest.skip("ends processes by their groups", allow_module_level=True)

_MOST_SECONDS = 240  # of a machine that is very busy; nothing waits so long where all is well
_HERE = Path(__file__).parent


class Cluster:
    """Processes of their own, as a user starts them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = folder / "scheduler.json"
        self._processes: list[subprocess.Popen[bytes]] = []
        self.scheduler = self._start("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard")
        self.address = str(self._told()["address"])

    def worker(self, *, preload: str = "", nanny: bool = False) -> subprocess.Popen[bytes]:
        """preload: Python that the worker runs as it starts."""
        words = ["--no-dashboard", "--nthreads", "1", "--host", "127.0.0.1", "--local-directory", str(self._folder)]
        if preload:
            code = self._folder / f"preload_{len(preload)}.py"
            code.write_text(preload)
            words += ["--preload", str(code)]
        return self._start("worker", *words, *([] if nanny else ["--no-nanny"]))

    def _start(self, what: str, *words: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.dask_{what}", "--scheduler-file", str(self._file), *words],
            stdout=subprocess.DEVNULL,
            stderr=(self._folder / f"{what}.log").open("ab"),
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(_HERE), *sys.path])},
            start_new_session=True,
        )
        self._processes.append(process)
        return process

    def _told(self) -> dict[str, Any]:
        until = time.monotonic() + _MOST_SECONDS
        while time.monotonic() < until:
            try:
                told: dict[str, Any] = json.loads(self._file.read_text())
                return told
            except (OSError, ValueError):
                time.sleep(0.05)
        raise AssertionError((self._folder / "scheduler.log").read_text())

    def end(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    yield made
    made.end()


def run_until(event: Callable[[], object], cluster: Cluster, folder: Path) -> ToolError:
    """The error of a run of two parts that nobody can wait for; the event happens once one of them runs."""
    other = threading.Thread(target=_once_a_part_runs, args=(folder, event))
    other.start()
    with pytest.raises(ToolError) as caught:
        _run_two_parts(cluster, folder)
    other.join()
    return caught.value


def _run_two_parts(cluster: Cluster, folder: Path) -> None:
    with open_executor(ExecutorChoice("dask", None, cluster.address), 2) as opened:
        list(opened.map(executor_jobs.wait_for_the_end, str(folder), [0, 1]))


def _once_a_part_runs(folder: Path, event: Callable[[], object]) -> None:
    until = time.monotonic() + _MOST_SECONDS
    while not list(folder.glob("running_*")) and time.monotonic() < until:
        time.sleep(0.05)
    event()


def kill(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGKILL)


def test_a_scheduler_that_dies_ends_the_run(cluster: Cluster, tmp_path: Path) -> None:
    cluster.worker()
    error = run_until(lambda: kill(cluster.scheduler), cluster, tmp_path)
    assert f"the Dask cluster at {cluster.address} was lost" in str(error)
    assert "run again" in error.remedy
    assert error.exit_code == ExitCode.TOOL


def test_a_scheduler_that_dies_while_workers_are_waited_for_is_lost(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What Dask raises then is an OSError, which would end as one of the output folder."""
    monkeypatch.setattr(dask_cluster, "_CONNECT_SECONDS", 1)
    waits = dask_cluster.DaskExecutor._wait_for_a_worker

    def killed_first(executor: dask_cluster.DaskExecutor, distributed: Any) -> None:
        kill(cluster.scheduler)
        waits(executor, distributed)

    monkeypatch.setattr(dask_cluster.DaskExecutor, "_wait_for_a_worker", killed_first)
    choice = ExecutorChoice("dask", None, cluster.address)
    with pytest.raises(ToolError, match="was lost"), open_executor(choice, 2):
        raise AssertionError("connected")


def test_work_for_a_scheduler_that_is_gone_ends_the_run(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_cluster, "_CONNECT_SECONDS", 1)
    cluster.worker()
    with open_executor(ExecutorChoice("dask", None, cluster.address), 2) as opened:
        assert isinstance(opened, dask_cluster.DaskExecutor)
        kill(cluster.scheduler)
        until = time.monotonic() + _MOST_SECONDS
        while opened._client.status != "closed" and time.monotonic() < until:
            time.sleep(0.05)
        with pytest.raises(ToolError, match="was lost"):
            list(opened.map(executor_jobs.wait_for_the_end, "", [0]))


def test_a_scheduler_that_hangs_ends_the_run(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = cluster.worker()

    def hang() -> None:
        monkeypatch.setattr(dask_watch, "ANSWER_SECONDS", 1)
        monkeypatch.setattr(dask_cluster, "_CLOSE_SECONDS", 1)
        os.killpg(cluster.scheduler.pid, signal.SIGSTOP)

    error = run_until(hang, cluster, tmp_path)
    assert "its scheduler has not answered" in str(error)
    assert worker.poll() is None


def test_workers_that_all_die_for_good_end_the_run(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = cluster.worker()

    def die() -> None:
        monkeypatch.setattr(dask_watch, "WORKER_SECONDS", 1)
        kill(worker)

    error = run_until(die, cluster, tmp_path)
    assert "has no workers" in str(error)
    assert "dask worker" in error.remedy


def test_workers_that_keep_dying_end_the_run(cluster: Cluster) -> None:
    cluster.worker(nanny=True)
    with (
        pytest.raises(ToolError, match="killed 3 Dask workers") as caught,
        open_executor(ExecutorChoice("dask", None, cluster.address), 2) as opened,
    ):
        list(opened.map(executor_jobs.die_always, None, [0, 1]))
    assert "memory" in caught.value.remedy


OLD = "import nnkit\nnnkit.__version__ = '0.0.7'\n"
OTHER_NUMPY = """
from distributed import versions
versions._version_cached = lambda name, found=versions._version_cached: "1.2.3" if name == "numpy" else found(name)
"""
NONE = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "nnkit":
            raise ModuleNotFoundError("No module named 'nnkit'")
for name in [each for each in sys.modules if each.split(".")[0] == "nnkit"]:
    del sys.modules[name]
sys.meta_path.insert(0, Missing())
"""


@pytest.mark.parametrize(
    ("preload", "said"), [(OLD, "nnkit 0.0.7 instead of"), (OTHER_NUMPY, "numpy 1.2.3"), (NONE, "No module named")]
)
def test_a_worker_of_another_version_is_refused(cluster: Cluster, preload: str, said: str) -> None:
    cluster.worker(preload=preload)
    with (
        pytest.raises(ToolError, match="the Dask worker at tcp://") as caught,
        open_executor(ExecutorChoice("dask", None, cluster.address), 2),
    ):
        pass
    assert said in str(caught.value)
    assert "dask_worker" in caught.value.remedy


def test_a_worker_of_another_version_that_comes_later_ends_the_run(cluster: Cluster, tmp_path: Path) -> None:
    cluster.worker()
    error = run_until(lambda: cluster.worker(preload=OLD), cluster, tmp_path)
    assert "nnkit 0.0.7 instead of" in str(error)


def test_a_worker_that_dies_while_it_is_asked_for_its_version_is_not_called_an_old_one(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.worker()
    monkeypatch.setattr(dask_watch, "_nnkit_version", executor_jobs.die_without_a_word)
    monkeypatch.setattr(dask_watch, "WORKER_SECONDS", 1)
    with pytest.raises(ToolError, match="has no workers"):
        _run_two_parts(cluster, tmp_path)
