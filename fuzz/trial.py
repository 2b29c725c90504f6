"""Inputs of one class in a process of its own: with a limit of memory, an alarm, and a parent that watches both."""

from __future__ import annotations

import contextlib
import functools
import io
import multiprocessing
import os
import resource
import shutil
import signal
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any, Literal, NoReturn

from fuzz.classes import CLASSES
from nnkit.trust import VALUES_VARIABLE

LIMIT_SECONDS = 20
"""Of the processor: what else runs on the machine makes no input hang. By the clock it may take `_BY_THE_CLOCK` times
as long, for what waits instead of working."""
_BY_THE_CLOCK = 60
LIMIT_BYTES = 1 << 30
VALUES_GIB = 1 / 8
"""What a network's values may take: a comparison holds those before and after a rewrite, and a run of another's."""
_GRACE_SECONDS = 10  # for code of an extension module, in which no alarm rings
_START_SECONDS = 120
_BLOCK = 20000  # inputs of one process

Kind = Literal["passed", "refused", "traceback", "hang", "over_memory", "no_remedy"]


@dataclass
class Tally:
    """How many ended how, and what is to be mended: the input's number, kind, and the traceback or message."""

    counts: dict[str, int] = field(default_factory=dict)
    findings: list[tuple[int, Kind, str]] = field(default_factory=list)

    def add(self, number: int, kind: Kind, said: str) -> None:
        """One input."""
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if kind not in ("passed", "refused"):
            self.findings.append((number, kind, said))


class _LateError(BaseException):
    """Over the limit of time; no reader's `except Exception` holds it up."""


def try_inputs(name: str, count: int, seed: int, first: int = 0) -> Tally:
    """Inputs `first` to `first + count - 1` of a class; the same number and seed give the same input."""
    tally = Tally()
    folder = Path(tempfile.mkdtemp(prefix="nnkit_fuzz_"))
    try:
        with _silence():
            given = CLASSES[name].seeds(folder)
        number = first
        while number < first + count:
            number = _block(tally, name, given, (seed, number, min(first + count, number + _BLOCK)))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return tally


def _block(tally: Tally, name: str, given: Any, numbers: tuple[int, int, int]) -> int:
    """Inputs in one process, until all are done or it has to be replaced; gives the number to go on with."""
    seed, number, end = numbers
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    folder = Path(tempfile.mkdtemp(prefix="nnkit_fuzz_"))
    process = context.Process(target=_work, args=(sender, name, given, seed, number, end, folder))
    process.start()
    sender.close()
    most_seconds = _START_SECONDS
    try:
        while number < end:
            try:
                if not _spoke(receiver, process.pid, most_seconds):
                    tally.add(number, "hang", f"nothing in {most_seconds} seconds of the processor")
                    return number + 1
                at, kind, said = receiver.recv()
            except EOFError:
                process.join()
                tally.add(number, "traceback", f"the process died with exit code {process.exitcode}")
                return number + 1
            most_seconds = LIMIT_SECONDS + _GRACE_SECONDS
            tally.add(at, kind, said)
            number = at + 1
            if kind == "over_memory":  # its peak would hide the next one's
                break
        return number
    finally:  # also where the command is interrupted
        process.kill()
        process.join()
        receiver.close()
        shutil.rmtree(folder, ignore_errors=True)


def _spoke(receiver: Connection, process: int | None, most_seconds: float) -> bool:
    """Wait for a message, until the process has worked for so long, or waited `_BY_THE_CLOCK` times as long."""
    began, before = time.monotonic(), _worked_seconds(process)
    while not receiver.poll(1):
        by_the_clock = time.monotonic() - began
        if by_the_clock > most_seconds and _worked_seconds(process) - before > most_seconds:
            return False
        if by_the_clock > most_seconds * _BY_THE_CLOCK:
            return False
    return True


def _worked_seconds(process: int | None) -> float:
    """Of the processor, in all; 0 where the process has ended."""
    try:
        with open(f"/proc/{process}/stat", encoding="ascii") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _work(sender: Connection, name: str, given: Any, seed: int, first: int, end: int, folder: Path) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # for the parent, which ends this process and removes the folder
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGALRM, _late)
    signal.signal(signal.SIGPROF, _late)
    os.environ[VALUES_VARIABLE] = str(VALUES_GIB)
    with _silence():
        _find_targets_once()
        for warm_up in range(CLASSES[name].warm_up):
            _attempt(name, given, Random(warm_up), folder)
        _limit_memory()
        for number in range(first, end):
            sender.send((number, *_attempt(name, given, Random(f"{name} {seed} {number}"), folder)))


def _attempt(name: str, given: Any, chance: Random, folder: Path) -> tuple[Kind, str]:
    from nnkit.errors import GateFailedError, InternalError, NnkitError

    place = folder / "input"
    place.mkdir(exist_ok=True)
    before_bytes = _peak_bytes()
    signal.setitimer(signal.ITIMER_PROF, LIMIT_SECONDS)
    signal.setitimer(signal.ITIMER_REAL, LIMIT_SECONDS * _BY_THE_CLOCK)
    kind: Kind = "passed"
    said = ""
    try:
        CLASSES[name].attempt(given, chance, place)
    except _LateError:
        kind, said = "hang", traceback.format_exc()
    except MemoryError:
        kind, said = "over_memory", traceback.format_exc()
    except InternalError:
        kind, said = "traceback", traceback.format_exc()
    except GateFailedError:  # `compare` says that files differ: nothing is to be mended
        kind = "passed"
    except NnkitError as error:
        mended = error.reason and "fix: " in str(error)  # an error of several problems has a remedy for each
        kind, said = ("refused", "") if mended else ("no_remedy", str(error))
    except BaseException:
        kind, said = "traceback", traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        _empty(place)
    grown_bytes = _peak_bytes() - before_bytes
    return ("over_memory", f"{grown_bytes:,} bytes") if grown_bytes > LIMIT_BYTES else (kind, said)


def _empty(folder: Path) -> None:
    """Remove what is in it; a folder of its own for each input would take most of the time of quick ones."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                os.unlink(entry.path)


def _find_targets_once() -> None:
    """A command looks through the metadata of all installed packages for targets; here one look has to do for all."""
    from nnkit.target import loading

    loading.target_plugins = functools.cache(loading.target_plugins)


def _late(signum: int, frame: FrameType | None) -> NoReturn:
    raise _LateError


def _limit_memory() -> None:
    """Twice the limit of address space beyond what is in use; the limit itself is measured."""
    with open("/proc/self/statm", encoding="ascii") as file:
        in_use = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (in_use + 2 * LIMIT_BYTES, resource.getrlimit(resource.RLIMIT_AS)[1]))


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """What commands print, and warnings, go nowhere."""
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        yield
