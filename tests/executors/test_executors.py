"""Parts on this process, on processes and on Dask: same results, and a worker that dies loses nothing."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import socket
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import executor_jobs
import pytest

from nnkit.errors import ToolError, UsageError, UserFileError
from nnkit.executors import Executor, ExecutorChoice, check_choice, dask_cluster, open_executor
from nnkit.executors.dask_cluster import DaskExecutor
from nnkit.executors.local import InProcess, Processes


def run_parts(executor: Executor, function: Any, shared: Any, tasks: list[Any]) -> list[Any]:
    """All results in the order of the tasks."""
    found = dict(executor.map(function, shared, tasks))
    return [found[index] for index in range(len(tasks))]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Executor]:
    pytest.importorskip("distributed")
    with DaskExecutor(None, 2) as executor:
        yield executor


@pytest.fixture(params=["in_process", "processes", "dask"])
def executor(request: pytest.FixtureRequest) -> Executor:
    if request.param == "dask":
        found: Executor = request.getfixturevalue("cluster")
        return found
    return InProcess() if request.param == "in_process" else Processes(2)


def test_results_come_in_the_order_of_the_tasks(executor: Executor) -> None:
    assert run_parts(executor, executor_jobs.square, 100, list(range(9))) == [100 + n * n for n in range(9)]


def test_no_tasks_are_no_results(executor: Executor) -> None:
    assert run_parts(executor, executor_jobs.square, 0, []) == []


def test_errors_for_users_cross_processes_whole(executor: Executor) -> None:
    with pytest.raises(UserFileError, match="cannot be decoded") as caught:
        run_parts(executor, executor_jobs.refuse, None, list(range(6)))
    assert (caught.value.where, caught.value.remedy) == ("face.pgm", "replace it")


@pytest.mark.parametrize("kind", ["processes", "dask"])
def test_a_worker_that_dies_loses_nothing(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    executor: Executor = Processes(2) if kind == "processes" else request.getfixturevalue("cluster")
    flag = tmp_path / "died"
    assert run_parts(executor, executor_jobs.die_once, str(flag), list(range(8))) == [n * 10 for n in range(8)]
    assert flag.exists()  # it did die


@pytest.mark.skipif(sys.platform == "win32", reason="has no such signal")
def test_a_worker_that_dies_idle_while_another_works(tmp_path: Path) -> None:
    """It holds the lock of the pool's queue. The other is ended in the middle of its part, and must not wait."""
    seen = []
    flag = tmp_path / "killed"
    for index, process in Processes(2).map(executor_jobs.process_that_waits, str(flag), [False, True]):
        if index == 0:
            time.sleep(0.5)  # until the worker waits for another part
            os.kill(process, signal.SIGKILL)
            time.sleep(0.2)  # until the pool notices
            flag.touch()
        seen.append(index)
    assert seen == [0, 1]


@pytest.mark.skipif(sys.platform == "win32", reason="has no such signal")
def test_a_worker_ends_where_it_waits_to_send_a_result(tmp_path: Path) -> None:
    """The pool's code catches what is raised there, and tries again; the pool waits for the process."""
    context, flag = multiprocessing.get_context("spawn"), tmp_path / "waits"
    lock = context.Lock()
    process = context.Process(target=executor_jobs.wait_between_parts, args=(lock, str(flag)), daemon=True)
    process.start()
    while not flag.exists():
        assert process.is_alive()
        time.sleep(0.02)
    process.terminate()
    process.join(60)
    assert process.exitcode == 128 + signal.SIGTERM
    process.kill()


@pytest.mark.parametrize("kind", ["processes", "dask"])
def test_a_part_that_kills_every_worker_is_an_error(kind: str, request: pytest.FixtureRequest) -> None:
    executor: Executor = Processes(2) if kind == "processes" else request.getfixturevalue("cluster")
    with pytest.raises(ToolError, match=r"died 3 times|killed 3 Dask workers"):
        run_parts(executor, executor_jobs.die_always, None, list(range(4)))


def test_the_number_of_workers_follows_the_work() -> None:
    with open_executor(ExecutorChoice(), 3) as executor:
        assert isinstance(executor, InProcess)  # not worth a process
    with open_executor(ExecutorChoice(workers=2), 3) as executor:
        assert executor.workers == 2


@pytest.mark.parametrize(
    ("cores", "parts", "threads", "expected"),
    [(2, 16, 1, 2), (2, 16, 2, 1), (4, 16, 2, 4), (4, 8, 2, 1), (8, 12, 2, 3)],
)
def test_processes_are_taken_where_they_use_more_cores_than_one_does(
    cores: int, parts: int, threads: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nnkit.executors.choose.usable_cores", lambda: cores)
    with open_executor(ExecutorChoice(), parts, threads=threads) as executor:
        assert executor.workers == expected
    with open_executor(ExecutorChoice(workers=2), parts, threads=threads) as executor:
        assert executor.workers == 2


def test_a_scheduler_without_dask_is_refused() -> None:
    with pytest.raises(UsageError, match="scheduler is for Dask"), open_executor(ExecutorChoice(scheduler="x:1"), 3):
        pass


def test_what_cannot_be_is_said_before_anything_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="scheduler is for Dask"):
        check_choice(ExecutorChoice(scheduler="tcp://host:8786"))
    monkeypatch.setattr("nnkit.executors.choose.find_spec", lambda name: None)
    with pytest.raises(UsageError, match="not installed"):
        check_choice(ExecutorChoice("dask"))
    check_choice(ExecutorChoice(workers=3))


def test_a_scheduler_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr("nnkit.executors.dask_cluster._CONNECT_SECONDS", 1)
    choice = ExecutorChoice("dask", scheduler="tcp://127.0.0.1:1")
    with (
        pytest.raises(ToolError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:1"),
        open_executor(choice, 2),
    ):
        pass


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_workers_of_an_own_cluster_are_started_with_the_malloc_settings(cluster: Executor) -> None:
    names = ["MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"]
    assert run_parts(cluster, executor_jobs.started_with, None, names) == ["134217728", "134217728"]


def test_no_module_of_a_folder_that_users_share_is_imported(cluster: Executor) -> None:
    """Dask's own place for the working folders of its servers, which it puts on the path of their processes."""
    shared = Path(tempfile.gettempdir()) / "dask-scratch-space"
    for path in (sys.path, *run_parts(cluster, executor_jobs.search_path, None, [0, 1, 2])):
        assert [entry for entry in path if Path(entry).is_relative_to(shared)] == []
    assert [entry for entry in sys.path if "dask" in entry] == []


def test_nobody_else_can_use_an_own_cluster(cluster: DaskExecutor) -> None:
    distributed = pytest.importorskip("distributed")
    port = cluster._client.scheduler.address.rpartition(":")[2]
    with pytest.raises(OSError, match="onnect"):
        distributed.Client(f"tcp://127.0.0.1:{port}", timeout=1)


def test_two_clusters_on_this_host_do_not_meet() -> None:
    """Dask would serve both at port 8787, and warn of the second."""
    pytest.importorskip("distributed")
    with socket.socket() as taken, warnings.catch_warnings():
        with contextlib.suppress(OSError):  # it is taken already
            taken.bind(("127.0.0.1", 8787))
            taken.listen()
        warnings.simplefilter("error")
        with DaskExecutor(None, 1) as other:
            assert run_parts(other, executor_jobs.square, 1, [2]) == [5]


def test_a_cluster_without_workers_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(dask_cluster, "WORKER_SECONDS", 0.3)
    monkeypatch.setenv("NNKIT_TIME_FACTOR", "4")
    with distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=None) as cluster:
        choice = ExecutorChoice("dask", None, cluster.scheduler_address)
        with pytest.raises(ToolError, match="has no workers") as caught, open_executor(choice, 4):
            pass
    assert "dask worker" in caught.value.remedy
