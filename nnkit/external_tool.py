"""Running a program that is not ours: limited in time, ended with all that it started, failures told with its log.

Its temporary files go with it, and it ends with this process, also where that is killed. Programs that a thread of
`one_beside` waits for end with the main one's work, when that fails or is interrupted.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from nnkit.children.start import start
from nnkit.errors import ToolError
from nnkit.keeper import keep
from nnkit.owned_folder import temporary_folder
from nnkit.trust import TIME_VARIABLE, user_settings
from nnkit.visible import Visible, with_lines

_TAIL_LINES = 20

SLOW = f"if this machine is slow or busy, give it longer: {TIME_VARIABLE}=4 (four times)"
"""The remedy of what did not end in time."""


_VERSION_TIMEOUT_S = 20.0
_AWAKE_S = 0.5
"""How long this process sleeps at a time while it waits. A signal that comes as a program is started goes to another
thread, as starting one blocks signals; the main thread then learns of it when it wakes, not in its sleep."""


@dataclass(frozen=True)
class Tool:
    """An external program: where it was found, its version, or how to get it.

    damage: what is wrong with the one that was found, empty where nothing is; `nnkit doctor` asks, as it may take a
    second. in_report: whether `report.json` names its version. False where no byte and no figure of a build comes
    from it, as with the C compiler that runs generated code on this machine: `run.json` alone names that.
    """

    name: str
    purpose: str
    found: str | None
    version: str
    install: str
    damage: Callable[[], str] = lambda: ""
    in_report: bool = True


@dataclass(frozen=True)
class ToolRun:
    """How a program ended, and what it printed.

    Attributes:
        program: as it was called.
        code: exit code; negative: the signal that ended it; None: it was stopped at the limit of time.
        timeout_s: that limit.
        output, errors: its standard output and standard error; all is in `output` where lines were followed.
    """

    program: str
    code: int | None
    timeout_s: float
    output: str
    errors: str

    @property
    def failed(self) -> bool:
        """Whether it ended otherwise than with exit code 0."""
        return self.code != 0

    @property
    def ending(self) -> str:
        """How it ended, as the rest of a sentence about it."""
        if self.code is None:
            return f"did not end within {self.timeout_s:g} s, and was stopped"
        if self.code < 0:
            name = next((each.name for each in signal.Signals if each == -self.code), f"signal {-self.code}")
            return f"crashed ({name})"
        return f"ended with code {self.code}"

    def with_tail(self, reason: str, lines: int = _TAIL_LINES) -> Visible:
        """The reason, and below it the last lines of what it printed, indented."""
        printed = [line for line in (self.output + self.errors).splitlines() if line.strip()]
        return with_lines(reason, printed[-lines:])

    def error(self, name: str = "it", *, where: str = "", remedy: str) -> ToolError:
        """The error of a failed run. where: the program, unless given."""
        if self.code is None:
            remedy = f"{SLOW}; else {remedy}"
        return ToolError(
            self.with_tail(f"{name} {self.ending}"), where=where or Path(self.program).name, remedy=remedy
        )

    def checked(self, name: str = "it", *, where: str = "", remedy: str) -> ToolRun:
        """The same run. Raises ToolError, see `error`, where it failed."""
        if self.failed:
            raise self.error(name, where=where, remedy=remedy)
        return self


_running: set[subprocess.Popen[bytes]] = set()
_interrupted = threading.Event()


@contextmanager
def one_beside() -> Iterator[Executor]:
    """A thread for work beside the main one, that ends soon where the main one fails or is interrupted.

    What it runs then is killed, it can start nothing more, and what calls `check_not_interrupted` ends there.
    """
    executor = ThreadPoolExecutor(max_workers=1)
    try:
        yield executor
    except BaseException:
        _interrupted.set()
        for process in tuple(_running):
            _kill_group(process)
        raise
    finally:
        executor.shutdown(wait=True, cancel_futures=True)
        _interrupted.clear()


def check_not_interrupted() -> None:
    """Raises ToolError where the main thread has ended: for the one beside it, between two steps of its work."""
    if _interrupted.is_set() and threading.current_thread() is not threading.main_thread():
        raise ToolError("interrupted", remedy="run the same command again")


def run_tool(
    command: Sequence[str],
    *,
    timeout_s: float,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    on_line: Callable[[str], None] | None = None,
    name: str = "it",
    remedy: str = "",
) -> ToolRun:
    """Run a program to its end or to the limit of time, after which it is killed with every process of its group.

    Args:
        command: the program's name on PATH, or its absolute path; and its arguments.
        timeout_s: the limit on a machine as it is usual; the user's `time_factor` scales it.
        folder: where it runs; without one, in an empty folder of its own, so that paths have to be absolute.
        environment: all of its variables; without them, those of this process.
        on_line: called with every line as it is printed, to standard output or standard error.
        name: what messages call it; remedy: what to do where it cannot be started.

    Raises ToolError where it cannot be started, or there is no room for its temporary files. How it ended is for the
    caller to judge.
    """
    timeout_s *= user_settings().time_factor
    with ExitStack() as stack:
        try:
            scratch = stack.enter_context(temporary_folder("nnkit-tool-"))
            given = subprocess.DEVNULL if not stdin else stack.enter_context(_file_of(stdin, scratch))
        except OSError as error:
            raise ToolError(
                f"{name} has no place for temporary files: {error.strerror or error}",
                where=tempfile.gettempdir(),
                remedy="free some space there, or set TMPDIR to another folder",
            ) from error
        own = keep() | {"TMPDIR": str(scratch)}
        variables = {**(os.environ if environment is None else environment), **own}
        return _run(command, variables, timeout_s, folder or scratch, given, on_line, (name, remedy))


def _file_of(content: bytes, folder: Path) -> BinaryIO:
    path = folder / "input"
    path.write_bytes(content)
    return path.open("rb")


def _run(
    command: Sequence[str],
    environment: Mapping[str, str],
    timeout_s: float,
    folder: Path,
    stdin: BinaryIO | int,
    on_line: Callable[[str], None] | None,
    words: tuple[str, str],
) -> ToolRun:
    name, remedy = words
    check_not_interrupted()
    try:
        process = start(
            command,
            folder=folder,
            environment=environment,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if on_line is None else subprocess.STDOUT,
        )
    except OSError as error:
        raise ToolError(
            f"{name} cannot be started: {error.strerror or error}", where=command[0], remedy=remedy
        ) from error
    late = threading.Event()

    def stop() -> None:
        late.set()
        _kill_group(process)

    timer = threading.Timer(timeout_s, stop)
    timer.daemon = True
    timer.start()
    _running.add(process)
    if _interrupted.is_set() and threading.current_thread() is not threading.main_thread():
        _kill_group(process)
    try:
        output, errors = _communicated(process) if on_line is None else _followed(process, on_line)
    finally:
        timer.cancel()
        _running.discard(process)
        if process.returncode is None:  # interrupted, or `on_line` raised
            _kill_group(process)
            process.wait()
    code = None if late.is_set() and process.returncode != 0 else process.returncode
    return ToolRun(command[0], code, timeout_s, _text(output), _text(errors))


def _communicated(process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    while True:
        with suppress(subprocess.TimeoutExpired):  # nothing that was printed so far is lost
            output, errors = process.communicate(timeout=_AWAKE_S)
            return output, errors


def _followed(process: subprocess.Popen[bytes], on_line: Callable[[str], None]) -> tuple[bytes, bytes]:
    lines: list[bytes] = []
    for line in _lines(process):
        lines.append(line)
        on_line(_text(line).rstrip())
    while process.poll() is None:
        with suppress(subprocess.TimeoutExpired):
            process.wait(_AWAKE_S)
    return b"".join(lines), b""


def _lines(process: subprocess.Popen[bytes]) -> Iterator[bytes]:
    """Each line of the standard output as it is printed, with its end."""
    pipe, rest = -1 if process.stdout is None else process.stdout.fileno(), b""
    while True:
        if not select.select([pipe], [], [], _AWAKE_S)[0]:
            continue
        chunk = os.read(pipe, 1 << 16)
        *whole, rest = (rest + chunk).split(b"\n")
        yield from (line + b"\n" for line in whole)
        if not chunk:
            break
    if rest:
        yield rest


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):  # it has just ended, or runs as another user
        os.killpg(process.pid, signal.SIGKILL)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", errors="replace")


def tool_version(path: str) -> str:
    """The first line that a program prints for `--version`."""
    try:
        run = run_tool([path, "--version"], timeout_s=_VERSION_TIMEOUT_S)
    except ToolError:
        return "does not start"
    lines = (run.output or run.errors).strip().splitlines()
    return "does not start" if run.code is None else lines[0] if lines else "unknown"
