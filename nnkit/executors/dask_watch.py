"""Looks after a Dask cluster while work runs there: where Dask would wait without a word there is an error."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any

import nnkit
from nnkit.errors import ToolError
from nnkit.executors.base import MAX_DEATHS
from nnkit.trust import user_settings

WORKER_SECONDS = 60
"""So long a cluster may be without workers: some are started with it, and one that died comes back."""
ANSWER_SECONDS = 60
"""So long a scheduler may take to answer."""
LOOK_SECONDS = 2.0
SAME_PACKAGES = ("numpy", "onnx", "onnxruntime", "pillow", "distributed", "cloudpickle")
"""Where versions of these differ, results differ in their last bits, or what is sent is not understood."""


class Watch:
    """Watches the cluster of one client.

    place: what messages call it. own: the workers were started by this process.
    """

    def __init__(self, client: Any, place: str, *, own: bool) -> None:
        self._client = client
        self._place = place
        self._own = own
        self._known: frozenset[str] = frozenset()
        self._looked = time.monotonic()
        self._alone_since: float | None = None

    def lost(self, reason: object) -> ToolError:
        """The error of a cluster that went away."""
        return ToolError(
            f"the Dask cluster at {self._place} was lost: {reason}",
            where="executor dask",
            remedy="see the scheduler's log; what was finished is kept, run again to go on",
        )

    def without_workers(self, seconds: float) -> ToolError:
        """The error of a cluster that takes work and has nobody to do it."""
        return ToolError(
            f"the Dask scheduler at {self._place} has no workers ({seconds:g} s were waited)",
            where="executor dask" if self._own else "--scheduler",
            remedy="start workers with `dask worker ADDRESS`, and look into their logs where they end at once",
        )

    def killed(self) -> ToolError:
        """The error of a part that ends each process that it runs in."""
        return ToolError(
            f"a part of the work killed {MAX_DEATHS} Dask workers",
            where="executor dask",
            remedy="is there enough memory on the workers? look for the input that does it in their logs",
        )

    def look(self, *, now: bool = False) -> None:
        """Ask the scheduler for its workers, at most every `LOOK_SECONDS` unless `now`.

        Raises ToolError: it does not answer, has been without workers for too long, or has one of another version.
        """
        if not now and time.monotonic() - self._looked < LOOK_SECONDS:
            return
        workers = frozenset(self._workers())
        self._looked = time.monotonic()
        if not workers:
            limit = WORKER_SECONDS * user_settings().time_factor
            self._alone_since = self._alone_since or self._looked
            if self._looked - self._alone_since >= limit:
                raise self.without_workers(limit)
            return
        self._alone_since = None
        if not self._own and workers - self._known:
            workers -= self._check_versions()
        self._known |= workers

    def _workers(self) -> Mapping[str, Any]:
        if self._client.status != "running":
            raise self.lost(f"its connection is {self._client.status}")
        limit = ANSWER_SECONDS * user_settings().time_factor
        try:
            identity = self._client.sync(self._client.scheduler.identity, n_workers=-1, callback_timeout=limit)
        except TimeoutError as error:
            raise self.lost(f"its scheduler has not answered for {limit:g} s") from error
        except OSError as error:
            raise self.lost(error) from error
        workers: Mapping[str, Any] = identity["workers"]
        return workers

    def _check_versions(self) -> frozenset[str]:
        """Addresses of the workers that were gone before they answered.

        Raises ToolError where a worker's results could differ from this process's, or it could compute none.
        """
        try:
            versions = self._client.get_versions(packages=list(SAME_PACKAGES))
            own = self._client.run(_nnkit_version, on_error="return")
        except (OSError, TimeoutError, ValueError) as error:
            raise self.lost(error) from error
        here = versions["client"]["packages"]
        gone = frozenset(address for address, answer in own.items() if isinstance(answer, OSError))
        for address, worker in sorted(versions["workers"].items()):
            if address in gone:
                continue
            there = worker["packages"]
            wrong = [
                f"{name} {there.get(name) or 'not at all'} instead of {here[name]}"
                for name in SAME_PACKAGES
                if there.get(name) != here[name]
            ]
            if _minor(there["python"]) != _minor(here["python"]):  # its functions are sent as compiled code
                wrong.insert(0, f"Python {_minor(there['python'])} instead of {_minor(here['python'])}")
            elif (version := own.get(address)) != nnkit.__version__ and address in own:
                had = version if isinstance(version, str) else f"none that it can import ({version})"
                wrong.insert(0, f"nnkit {had} instead of {nnkit.__version__}")
            if wrong:
                raise ToolError(
                    f"the Dask worker at {address} has {', '.join(wrong)}",
                    where="--scheduler",
                    remedy="start it with the same versions, in an environment like this one: "
                    f"{sys.executable} -P -m distributed.cli.dask_worker {self._place}",
                )
        return gone


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _nnkit_version() -> str:
    """In a worker."""
    return nnkit.__version__
