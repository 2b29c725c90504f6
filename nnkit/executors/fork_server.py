"""A process that has imported what workers need, and that they are forked from: ready in half the time.

Its environment is theirs. What glibc reads when a process starts (its malloc thresholds) therefore has to be set when
the fork server starts, and not when a worker does.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from nnkit.children.workers import fork_server_context

AVAILABLE = sys.platform == "linux"
"""Elsewhere system libraries do not survive a fork, or there is none."""


@contextmanager
def starting(environment: Mapping[str, str], modules: Sequence[str]) -> Iterator[None]:
    """Starts the fork server with these variables and modules, while the block does other things; it is there at the
    end of the block. One that is there already stays as it is.

    modules: such as start no threads, which a fork would lose.
    """
    context = fork_server_context()
    context.set_forkserver_preload(list(modules))
    before = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)
    first = threading.Thread(target=_first_process, name="fork server")
    first.start()
    try:
        yield
    finally:
        first.join()
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _first_process() -> None:
    """A process that does nothing: what it is forked from is ready behind it."""
    process = fork_server_context().Process(target=_nothing)
    process.start()
    process.join()


def _nothing() -> None:
    pass
