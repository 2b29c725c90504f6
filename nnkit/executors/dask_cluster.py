"""A Dask cluster: the user's, by its scheduler's address, or one made on this host for the run.

By default Dask has glibc return freed memory to the system at once, which costs more than the work itself where large
arrays come and go (measured: 24 s instead of 8.5 s). On our own cluster the thresholds are set to glibc's defaults.
"""

from __future__ import annotations

import logging
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from importlib.util import find_spec
from typing import Any

from nnkit.children.workers import isolate_workers, start_resource_tracker
from nnkit.errors import ToolError, UsageError
from nnkit.executors import fork_server
from nnkit.executors.base import MAX_DEATHS
from nnkit.executors.dask_watch import WORKER_SECONDS, Watch
from nnkit.installation import install_command
from nnkit.keeper import keep
from nnkit.owned_folder import temporary_folder
from nnkit.trust import TIME_VARIABLE, user_settings

_CONNECT_SECONDS = 20
_CLOSE_SECONDS = 5
_POLL_SECONDS = 0.02
_MALLOC = {"MALLOC_TRIM_THRESHOLD_": "134217728", "MALLOC_MMAP_THRESHOLD_": "134217728"}
"""Bytes: blocks below 128 MiB are kept by the process."""
_ENVIRONMENT = _MALLOC | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
_PRELOADED = ("distributed.nanny", "numpy", "onnx")  # not onnxruntime: it starts a thread


class DaskExecutor:
    """Parts as Dask futures; a worker that dies is replaced by Dask, and its parts run again.

    Use as a context manager. Raises UsageError without the `dask` extra, ToolError where no scheduler answers.
    """

    def __init__(self, scheduler: str | None, workers: int, *, dashboard: bool = False) -> None:
        self._scheduler = scheduler
        self.workers = workers
        self.dashboard: str | None = None
        self._serves_dashboard = dashboard
        self._stack = ExitStack()
        self._client: Any = None
        self._watch: Watch

    def __enter__(self) -> DaskExecutor:
        keep()
        isolate_workers()  # those of a cluster of this host, which are made anew where they die
        with _deaf_to_interrupts():
            return self._connected()

    def _connected(self) -> DaskExecutor:
        forks = self._scheduler is None and fork_server.AVAILABLE and find_spec("distributed") is not None
        with fork_server.starting(_ENVIRONMENT, _PRELOADED) if forks else nullcontext():
            try:
                import dask
                import distributed
            except ImportError as error:
                raise UsageError(
                    "Dask is not installed", where="--executor dask", remedy=install_command("dask")
                ) from error
        self._stack.enter_context(dask.config.set(_settings("forkserver" if forks else "spawn")))
        for name in ("distributed", "distributed.client"):
            logging.getLogger(name).setLevel(logging.CRITICAL)  # what matters to users we say ourselves
        warnings.filterwarnings("ignore", message="Sending large graph")  # the network, once
        try:
            if self._scheduler is None:
                # Dask's servers put their working folders, which else lie in one that users of a machine share,
                # first among those that Python searches for modules, in this process too.
                folder = self._stack.enter_context(temporary_folder("nnkit-dask-"))
                self._stack.enter_context(dask.config.set({"temporary-directory": str(folder)}))
                searched = list(sys.path)
                try:
                    cluster = distributed.LocalCluster(
                        n_workers=self.workers,
                        threads_per_worker=1,
                        processes=True,
                        dashboard_address="127.0.0.1:0",  # HTTP is served in any case, at a port that others may have
                        scheduler_kwargs={} if self._serves_dashboard else {"dashboard": False},
                        silence_logs=logging.CRITICAL,
                        security=True,  # keys of its own, for the run: whoever can connect to it runs code
                    )
                finally:
                    sys.path[:] = searched
                self._stack.callback(cluster.close)
                self._client = distributed.Client(cluster)
            else:
                seconds = _CONNECT_SECONDS * user_settings().time_factor
                self._client = distributed.Client(self._scheduler, timeout=seconds)
        except (OSError, TimeoutError, ValueError) as error:
            self._stack.close()
            raise ToolError(
                f"no Dask scheduler answers at {self._scheduler or 'this host'}: {error}",
                where="--scheduler",
                remedy="start one with `dask scheduler` and workers with `dask worker ADDRESS`; "
                f"{TIME_VARIABLE}=4 waits longer",
            ) from error
        self._stack.callback(self._close_client)
        place = self._scheduler or "this host"
        self._watch = Watch(self._client, place, own=self._scheduler is None)
        try:
            self._wait_for_a_worker(distributed)
            self._watch.look(now=True)
        except BaseException:
            self._stack.close()
            raise
        if self._scheduler is not None or self._serves_dashboard:
            self.dashboard = self._client.dashboard_link
        if self._scheduler is not None:
            self.workers = max(1, len(self._client.scheduler_info()["workers"]))
        return self

    def _wait_for_a_worker(self, distributed: Any) -> None:
        """A cluster without workers would take the work and say nothing. Raises ToolError."""
        seconds = WORKER_SECONDS * user_settings().time_factor
        try:
            self._client.wait_for_workers(1, timeout=seconds)
        except (TimeoutError, distributed.TimeoutError) as error:
            raise self._watch.without_workers(seconds) from error
        except OSError as error:  # the scheduler ended meanwhile
            raise self._watch.lost(error) from error

    def _close_client(self) -> None:
        """Closing says goodbye to the scheduler, for which one that is gone or hangs leaves no time."""
        with suppress(TimeoutError, OSError):
            self._client.close(timeout=_CLOSE_SECONDS)

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def map(
        self, function: Callable[[Any, Any], Any], shared: Any, tasks: Sequence[Any]
    ) -> Iterator[tuple[int, Any]]:
        """See `Executor`. What all parts share is sent once to each worker."""
        import distributed
        from distributed.comm.core import CommClosedError

        self._watch.look(now=True)  # to a client that was closed since, nothing can be submitted
        # A task, not scattered data: where all workers that hold its result die, the scheduler makes it again.
        common = self._client.submit(_given, shared, pure=False)
        futures = {
            self._client.submit(function, common, task, pure=False, retries=0): index
            for index, task in enumerate(tasks)
        }
        try:
            for future in self._completed(distributed.as_completed(list(futures))):
                yield futures[future], future.result()
                future.release()
        except distributed.KilledWorker as error:
            raise self._watch.killed() from error
        except (distributed.CancelledError, CommClosedError) as error:
            raise self._watch.lost(error) from error
        finally:
            if self._client.status == "running":
                self._client.cancel([*futures, common])

    def _completed(self, futures: Any) -> Iterator[Any]:
        """Futures as they are done, with a look at the cluster between them."""
        while not futures.is_empty():
            if futures.has_ready():
                yield next(futures)
            else:
                time.sleep(_POLL_SECONDS)
                self._watch.look()


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Processes and threads that start in the block, and all that these start, do not get SIGINT.

    A terminal sends Ctrl-C to every process of the command. It is for this one, which ends its workers; they would
    write tracebacks. Pressed within the block, it counts at the end of it.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    start_resource_tracker()  # started later it would unblock the signal
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _given(value: Any) -> Any:
    return value


def _settings(method: str) -> dict[str, Any]:
    return {
        "distributed.worker.multiprocessing-method": method,
        "distributed.nanny.pre-spawn-environ": _ENVIRONMENT,
        "distributed.scheduler.allowed-failures": MAX_DEATHS,
        "distributed.admin.low-level-log-length": 0,
        "distributed.worker.profile.enabled": False,
    }
