"""From what the command line asks for to an executor that runs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from nnkit.errors import UsageError
from nnkit.executors.base import Executor, ExecutorChoice
from nnkit.executors.local import InProcess, Processes
from nnkit.installation import install_command


def check_choice(choice: ExecutorChoice) -> None:
    """What can be said before anything runs. Raises UsageError: a scheduler for `local`, Dask not installed."""
    if choice.scheduler is not None and choice.name != "dask":
        raise UsageError("a scheduler is for Dask", where="--scheduler", remedy="add --executor dask")
    if choice.name == "dask" and find_spec("distributed") is None:
        raise UsageError("Dask is not installed", where="--executor dask", remedy=install_command("dask"))


_PARTS_PER_WORKER = 4
"""Fewer parts are not worth the half second that a process takes to start."""


@contextmanager
def open_executor(
    choice: ExecutorChoice, parts: int, *, threads: int = 1, dashboard: bool = False
) -> Iterator[Executor]:
    """An executor for so many parts. Unless told, as many workers as the host has cores and the work is worth.

    threads: cores that a part uses where no others run beside it. Unless told, more workers than that or none.
    dashboard: whether a cluster that is made here serves Dask's.

    Raises UsageError as `check_choice`, ToolError (no scheduler answers).
    """
    check_choice(choice)
    if choice.name == "dask":
        from nnkit.executors.dask_cluster import DaskExecutor

        with DaskExecutor(choice.scheduler, choice.workers or usable_cores(), dashboard=dashboard) as executor:
            choice.dashboard(executor.dashboard)
            yield executor
        return
    worth = min(usable_cores(), parts // _PARTS_PER_WORKER)
    workers = choice.workers or (worth if worth > threads else 1)
    yield Processes(min(workers, parts)) if workers > 1 and parts > 1 else InProcess()


def usable_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
