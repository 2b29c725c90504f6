"""What an executor is. Work falls into parts; a part is a function of what all parts share and of a task of its own.

Parts are formed by the work alone, never by the number of workers, and results are put together in the order of the
parts: so a result does not depend, not in the last bit, on where and how many at a time they were computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

ExecutorName: TypeAlias = Literal["local", "dask"]

MAX_DEATHS = 3
"""A part whose worker died so often is not tried again: it is what kills them."""


def _tell_nobody(address: str | None) -> None:
    """What is done with a dashboard's address where nothing was asked for; a function, so that it can be sent."""


@dataclass(frozen=True)
class ExecutorChoice:
    """What the command line asks for.

    workers: each uses one core; None lets the amount of work and the host decide. scheduler: address of a Dask
    scheduler; None makes a cluster on this host. dashboard: told the address of a cluster's dashboard, or None.
    """

    name: ExecutorName = "local"
    workers: int | None = None
    scheduler: str | None = None
    dashboard: Callable[[str | None], object] = field(default=_tell_nobody, repr=False)


THIS_HOST = ExecutorChoice()
"""What is taken where nothing is asked for."""


class Executor(Protocol):
    """Runs parts. `workers` is how many at a time. dashboard: where a browser sees them run; None: nowhere."""

    @property
    def workers(self) -> int:
        """Parts that run at one time."""

    @property
    def dashboard(self) -> str | None:
        """Address of a page that shows what runs."""

    def map(
        self, function: Callable[[Any, Any], Any], shared: Any, tasks: Sequence[Any]
    ) -> Iterator[tuple[int, Any]]:
        """(index of the task, function(shared, task)) in the order in which they are done.

        function: importable by its name (it is sent by name). shared, tasks and results: can be pickled.
        A worker that dies loses nothing: its part runs again.

        Raises what the function raises, and ToolError where a part kills its worker again and again, or the cluster
        is lost.
        """
