"""Processes of `multiprocessing`, isolated as all others are.

It starts its children with `python -c` and the flags of this process, and so with the current folder on their path;
it has no other way to name flags than the function that is replaced here. What it starts for itself, the resource
tracker and the fork server, gets them there too, and so do the workers of a Dask cluster of this host.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import resource_tracker, util
from multiprocessing.context import ForkServerContext
from typing import Any

from nnkit.children.search import leave_out_relative
from nnkit.children.start import isolation

_usual_flags: Callable[[], list[str]] = util._args_from_interpreter_flags  # type: ignore[attr-defined]


def isolate_workers() -> None:
    """All processes that `multiprocessing` starts from here on are isolated."""
    util._args_from_interpreter_flags = _flags  # type: ignore[attr-defined]


def fork_server_context() -> ForkServerContext:
    """Processes that are forked from a server."""
    isolate_workers()
    return multiprocessing.get_context("forkserver")


def worker_pool(workers: int, initializer: Callable[..., None], arguments: tuple[Any, ...]) -> ProcessPoolExecutor:
    """So many spawned processes, each of which begins with `initializer(*arguments)`."""
    isolate_workers()
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(workers, mp_context=context, initializer=initializer, initargs=arguments)


def start_resource_tracker() -> None:
    """Start the process that removes the semaphores of killed ones; nothing where it runs."""
    isolate_workers()
    resource_tracker.ensure_running()


def _flags() -> list[str]:
    """Asked for as each process is started, with this one's variables: a library that was imported since may have put
    the current folder among them, as `cv2` does."""
    leave_out_relative(os.environ)
    return [*_usual_flags(), *isolation()]
