"""Work for the executors' tests: importable by worker processes."""

from __future__ import annotations

import os
import sys
import time
from multiprocessing.synchronize import Lock
from pathlib import Path

from nnkit.errors import UserFileError
from nnkit.executors import local


def square(shared: int, task: int) -> int:
    return shared + task * task


def die_once(flag: str, task: int) -> int:
    """Kills its process the first time that task 3 runs; a file remembers."""
    if task == 3 and not Path(flag).exists():
        Path(flag).touch()
        os._exit(9)
    return task * 10


def process_that_waits(flag: str, waits: bool) -> int:
    """The process that ran it; a part that waits does so until the file is there."""
    while waits and not Path(flag).exists():
        time.sleep(0.02)
    return os.getpid()


def die_without_a_word() -> None:
    os._exit(9)


def die_always(shared: object, task: int) -> int:
    if task == 1:
        os._exit(9)
    return task


def refuse(shared: object, task: int) -> int:
    if task == 2:
        raise UserFileError("cannot be decoded", where="face.pgm", remedy="replace it")
    return task


def large(folder: str, task: int) -> bytes:
    """A result that takes its time to be sent; says that it is on its way."""
    Path(folder, f"running_{task}").touch()
    return bytes(100_000_000)


def started_with(shared: None, name: str) -> str | None:
    """A variable as it was when the process, or the one that it is forked from, was started: what glibc has read."""
    with open("/proc/self/environ") as file:
        return dict(line.split("=", 1) for line in file.read().split("\0") if "=" in line).get(name)


def wait_for_the_end(folder: str, task: int) -> None:
    """A part that nobody can wait for; says that it runs, and that it has cleaned up."""
    try:
        Path(folder, f"running_{task}").touch()
        time.sleep(3600)
    finally:
        Path(folder, f"cleaned_{task}").touch()


def wait_between_parts(lock: Lock, flag: str) -> None:
    """A worker that waits to send a result, and goes on whatever is raised there, as the pool's code does."""
    local._start(square, 0, {})
    lock.acquire()
    Path(flag).touch()
    while True:
        try:
            lock.acquire()
        except BaseException:
            continue


def search_path(shared: None, task: int) -> list[str]:
    """What this process searches for modules."""
    return sys.path
