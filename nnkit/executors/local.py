"""This process alone, or processes of this host.

Processes are spawned, not forked: ONNX Runtime's threads do not survive a fork. What all parts share is sent once to
each process, not with every part.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from typing import Any

from nnkit.children.workers import worker_pool
from nnkit.errors import ToolError
from nnkit.executors.base import MAX_DEATHS
from nnkit.keeper import keep

_QUEUED_PER_WORKER = 2


class InProcess:
    """One part after another, here."""

    workers = 1
    dashboard = None

    def map(
        self, function: Callable[[Any, Any], Any], shared: Any, tasks: Sequence[Any]
    ) -> Iterator[tuple[int, Any]]:
        """See `Executor`."""
        for index, task in enumerate(tasks):
            yield index, function(shared, task)


class Processes:
    """`workers` processes of this host."""

    dashboard = None

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def map(
        self, function: Callable[[Any, Any], Any], shared: Any, tasks: Sequence[Any]
    ) -> Iterator[tuple[int, Any]]:
        """See `Executor`. A pool whose process died is replaced, and the parts that were under way run again."""
        left = list(range(len(tasks)))
        deaths: Counter[int] = Counter()
        while left:
            done: list[int] = []
            under_way: list[int] = []
            try:
                for index, result in self._round(function, shared, tasks, left, under_way):
                    done.append(index)
                    yield index, result
            except BrokenProcessPool as error:
                deaths.update(under_way)
                suspects = [index for index in under_way if deaths[index] >= MAX_DEATHS]
                if suspects:
                    parts = ", ".join(str(index + 1) for index in suspects)
                    raise ToolError(
                        f"a process died {MAX_DEATHS} times while it worked on part {parts} of {len(tasks)}",
                        where="executor local",
                        remedy="is there enough memory? use fewer --workers, or look for the input that does it",
                    ) from error
            left = [index for index in left if index not in set(done)]

    def _round(
        self,
        function: Callable[[Any, Any], Any],
        shared: Any,
        tasks: Sequence[Any],
        indices: Sequence[int],
        under_way: list[int],
    ) -> Iterator[tuple[int, Any]]:
        """One pool's life. under_way: kept at the parts that may be running. Raises BrokenProcessPool."""
        keep()
        pool = worker_pool(self.workers, _start, (function, shared, os.environ.copy()))
        waiting = list(reversed(indices))
        running: dict[Future[Any], int] = {}
        try:
            while waiting or running:
                while waiting and len(running) < self.workers * _QUEUED_PER_WORKER:
                    index = waiting.pop()
                    running[pool.submit(_part, tasks[index])] = index
                    under_way.append(index)
                finished, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in sorted(finished, key=lambda each: running[each]):
                    result = future.result()
                    index = running.pop(future)
                    under_way.remove(index)
                    yield index, result
        except (KeyboardInterrupt, GeneratorExit):  # nobody waits for what is running
            for process in multiprocessing.active_children():
                process.terminate()
            _close_results(pool)
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _close_results(pool: ProcessPoolExecutor) -> None:
    """Close this process's end of the pipe that results come through, so that it ends with the last worker.

    A worker that was ended in the middle of a large result leaves a part of it there, and the pool's thread waits for
    the rest.
    """
    with suppress(AttributeError, OSError):  # it is the pool's own
        pool._result_queue._writer.close()  # type: ignore[attr-defined]


_work: tuple[Callable[[Any, Any], Any], Any] | None = None
"""In a worker process: its function and what all parts share, set once when it starts."""
_under_way = False
"""In a worker process: a part runs, and cleans up after itself where the process is to end."""


def _start(function: Callable[[Any, Any], Any], shared: Any, environment: dict[str, str]) -> None:
    global _work
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends its workers
    signal.signal(signal.SIGTERM, _end)
    os.environ.update(environment)
    _work = (function, shared)


class _Ended(SystemExit):
    """The process is to end; the part under way cleans up after itself, as it does after any error."""


def _end(number: int, frame: object) -> None:
    """The pool ends its processes again when it notices that one is gone: that must not cut the cleaning short.

    Between parts there is nothing to clean up. What is raised there the pool's code takes for an error of the result
    that it sends, and sends that instead, for ever where the first try has left the queue's lock behind.
    """
    signal.signal(number, signal.SIG_IGN)
    if not _under_way:
        os._exit(128 + number)
    raise _Ended(128 + number)


def _part(task: Any) -> Any:
    global _under_way
    if _work is None:
        raise RuntimeError("a worker process was not started")
    function, shared = _work
    try:
        try:
            _under_way = True
            return function(shared, task)
        finally:
            _under_way = False
    except _Ended as end:  # the pool would take it for the part's result, and wait for this process for ever
        os._exit(int(end.code or 0))
