"""The external programs of the gap8 target: where they are, and how to get them."""

from __future__ import annotations

import shutil
import subprocess

from nnkit.host_compiler import host_compiler
from nnkit.target import Tool

RV32_COMPILER = "riscv64-unknown-elf-gcc"
QEMU = "qemu-system-riscv32"


def found_tools() -> tuple[Tool, ...]:
    """All tools with path and version; a missing one says how to get it."""
    return (
        _tool("C compiler", host_compiler(), "runs the generated C on this machine", "apt-get install gcc"),
        _tool(
            RV32_COMPILER,
            shutil.which(RV32_COMPILER),
            "compiles it for rv32imc",
            "apt-get install gcc-riscv64-unknown-elf",
        ),
        _tool(QEMU, shutil.which(QEMU), "runs rv32imc and counts instructions", "apt-get install qemu-system-misc"),
    )


def _tool(name: str, path: str | None, purpose: str, install: str) -> Tool:
    return Tool(name, purpose, path, _version(path) if path else "", install)


def _version(path: str) -> str:
    """The first line that `--version` prints."""
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "does not start"
    lines = (done.stdout or done.stderr).strip().splitlines()
    return lines[0] if lines else "unknown"
