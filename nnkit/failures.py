"""How the command line ends when something went wrong: a message on stderr and a documented exit code."""

from __future__ import annotations

import errno
import signal
import sys
import threading
from contextlib import suppress
from typing import NoReturn, TextIO

import typer

from nnkit.errors import ExitCode, InternalError, NnkitError, ToolError, UserFileError
from nnkit.installation import as_called
from nnkit.terminal import Coloured, flush, note_line, write_line
from nnkit.visible import visible

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
INTERRUPTED = "interrupted; the last good build is unchanged"


class Interrupts:
    """Remembers that Ctrl-C was pressed, or that the process was asked to end (SIGTERM), which ends it likewise: an
    extension module that is just loading makes an ImportError of it."""

    def __init__(self) -> None:
        self._happened = False
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not where it is ignored, as after nohup
            signal.signal(signal.SIGINT, self._interrupt)
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._interrupt)

    def check(self) -> None:
        """End with the exit code of an interruption if there was one."""
        if self._happened:
            fail(INTERRUPTED, ExitCode.INTERRUPTED, "NK130")

    def _interrupt(self, number: int, frame: object) -> None:
        self._happened = True
        raise KeyboardInterrupt


def fail_unexpected(error: Exception) -> None:
    """End with the message and the exit code of what is no NnkitError."""
    if isinstance(error, typer.Abort):
        fail(INTERRUPTED, ExitCode.INTERRUPTED, "NK130")
    told = as_error(error)
    fail(str(told), told.exit_code, told.code)


def as_error(error: Exception) -> NnkitError:
    """What is no NnkitError as one: what the system or a plugin failed by, and else a bug of ours."""
    if isinstance(error, NnkitError):
        return error
    if isinstance(error, MemoryError):
        made = UserFileError(
            "this machine ran out of memory", remedy="close other programs, or use a machine with more"
        )
        made.code = "NK222"
        return made
    if isinstance(error, OSError) and error.filename:
        reason = error.strerror or type(error).__name__
        remedy = "check that the file or folder is there and allowed"
        return UserFileError(reason, where=str(error.filename), remedy=remedy)
    if isinstance(error, OSError) and error.errno in _NO_ROOM:
        return UserFileError(
            f"a file, or the output, cannot be written: {error.strerror}",
            remedy="free some space, or write to another disk",
        )
    plugin = _plugin_of(error)
    if plugin is not None:
        name, place = plugin
        broken = ToolError(
            f"the target plugin {name!r} failed: {type(error).__name__}: {error}",
            where=place,
            remedy="report it to who provides the plugin, with the output of --debug, or build for another target",
        )
        broken.code = "NK503"
        return broken
    return InternalError(
        f"a bug in nnkit: {type(error).__name__}: {error}", remedy="run again with --debug and report the traceback"
    )


def _plugin_of(error: BaseException) -> tuple[str, str] | None:
    """The third-party target in whose code an exception arose or came by, and the last place there; None: in none.

    Built-in targets come with nnkit: their mistakes are its own.
    """
    from nnkit.installation import own_distribution, target_plugins

    own, modules = own_distribution(), dict[str, str]()
    for entry in target_plugins():
        if entry.dist is None or own is None or entry.dist.name != own.name:
            modules[entry.value.partition(":")[0].partition(".")[0]] = entry.name
    last_place = None
    trace = error.__traceback__
    while trace is not None:
        top = str(trace.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
        if top in modules:
            last_place = modules[top], f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
        trace = trace.tb_next
    return last_place


def fail(message: str, exit_code: ExitCode, code: str) -> NoReturn:
    """End with a message on stderr. code: of `nnkit.error_codes`."""
    with suppress(UserFileError):  # what failed is reported below, and gives the exit code
        flush(sys.stdout)
    write_error(message, code)
    raise SystemExit(int(exit_code))


def write_error(message: str, code: str) -> None:
    """An error on stderr, its remedies marked, and where to read more."""
    for number, line in enumerate(as_called(visible(message)).split("\n")):
        begin: list[str | Coloured] = [] if number else [Coloured("error:", "red"), " "]
        before, fix, after = line.partition("fix: ")
        if fix and not before.strip():
            note_line(*begin, before, Coloured("fix:", "green"), f" {after}")
        else:
            note_line(*begin, line)
    note_line(f"  more: {as_called(f'nnkit explain {code}')}")


def write_traceback(error: BaseException, stream: TextIO | None) -> None:
    """An exception as Python writes it; later lines of a message are indented, so that none looks like ours."""
    from traceback import format_exception

    for part in format_exception(error):
        for number, line in enumerate(part.rstrip("\n").split("\n")):
            write_line(stream, "  " if number and not line.startswith("  ") else "", line)


def make_debug_output_visible() -> None:
    """Tracebacks and warnings, which only --debug shows, are written as all other output."""
    import warnings

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        note_line(f"{filename}:{lineno}: {category.__name__}: {message}")

    def thread(given: threading.ExceptHookArgs) -> None:
        if given.exc_value is not None:
            write_traceback(given.exc_value, sys.stderr)

    def main(kind: type[BaseException], error: BaseException, trace: object) -> None:
        write_traceback(error, sys.stderr)

    sys.excepthook = main
    threading.excepthook = thread
    warnings.showwarning = show
