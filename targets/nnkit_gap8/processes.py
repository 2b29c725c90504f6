"""Running compilers and the emulator: found or explained, bounded in time, failures with the end of their log."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from nnkit.errors import ToolError
from nnkit_gap8.tools import QEMU, RV32_COMPILER

_LOG_LINES = 20
RV32_SIZE = "riscv64-unknown-elf-size"
_INSTALL = {
    RV32_COMPILER: "apt-get install gcc-riscv64-unknown-elf",
    RV32_SIZE: "apt-get install binutils-riscv64-unknown-elf",
    QEMU: "apt-get install qemu-system-misc",
}


def missing_tools(names: Sequence[str]) -> str | None:
    """None when all are on PATH, otherwise which are not and how to get them."""
    absent = [f"{name} is not on PATH ({_INSTALL[name]})" for name in names if shutil.which(name) is None]
    return "; ".join(absent) or None


def require(name: str) -> str:
    """Path of a tool. Raises ToolError with the way to get it."""
    found = shutil.which(name)
    if found is None:
        raise ToolError("this tool is not on PATH", where=name, remedy=_INSTALL[name])
    return found


def run_tool(command: Sequence[str], folder: Path, timeout_s: float) -> str:
    """Run a program in `folder`; returns its standard output.

    Raises ToolError with the end of its log when it fails or takes longer than `timeout_s`.
    """
    program = Path(command[0]).name
    try:
        done = subprocess.run(
            list(command),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ToolError(f"it did not end within {timeout_s:.0f} s", where=program) from error
    except OSError as error:
        raise ToolError(f"it cannot be started: {error.strerror}", where=command[0]) from error
    if done.returncode != 0:
        log = (done.stdout + done.stderr).strip().splitlines()[-_LOG_LINES:]
        raise ToolError("\n  ".join([f"it ended with code {done.returncode}", *log]), where=program)
    return done.stdout
