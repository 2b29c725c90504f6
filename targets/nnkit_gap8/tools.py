"""The external programs of the gap8 target: where they are, how to get them, and running them."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from nnkit.c.host_compiler import host_compiler
from nnkit.errors import ToolError
from nnkit.external_tool import run_tool, tool_version
from nnkit.target import Tool

RV32_COMPILER = "riscv64-unknown-elf-gcc"
RV32_SIZE = "riscv64-unknown-elf-size"
QEMU = "qemu-system-riscv32"
_INSTALL = {
    RV32_COMPILER: "apt-get install gcc-riscv64-unknown-elf",
    RV32_SIZE: "apt-get install binutils-riscv64-unknown-elf",
    QEMU: "apt-get install qemu-system-misc",
}


def found_tools() -> tuple[Tool, ...]:
    """All tools with path and version; a missing one says how to get it."""
    return (
        _tool("C compiler", host_compiler(), "runs the generated C on this machine", "apt-get install gcc"),
        _tool(RV32_COMPILER, shutil.which(RV32_COMPILER), "compiles it for rv32imc", _INSTALL[RV32_COMPILER]),
        _tool(QEMU, shutil.which(QEMU), "runs rv32imc and counts instructions", _INSTALL[QEMU]),
    )


def _tool(name: str, path: str | None, purpose: str, install: str) -> Tool:
    return Tool(name, purpose, path, tool_version(path) if path else "", install)


def missing_tools(names: Sequence[str]) -> str | None:
    """None when all are on PATH, otherwise which are not and how to get them."""
    absent = [f"{name} is not on PATH ({_INSTALL[name]})" for name in names if shutil.which(name) is None]
    return "; ".join(absent) or None


def require(name: str) -> str:
    """Path of a tool. Raises ToolError with the way to get it."""
    path = shutil.which(name)
    if path is None:
        raise ToolError("this tool is not on PATH", where=name, remedy=_INSTALL[name])
    return path


def run_in(folder: Path, command: Sequence[str], timeout_s: float) -> str:
    """Run a compiler, the emulator or a compiled network in `folder`; returns its standard output.

    Raises ToolError with the end of its log when it fails or takes longer than `timeout_s`.
    """
    remedy = "generated code should compile and run: please report this with the build folder's artifact/"
    return run_tool(command, folder=folder, timeout_s=timeout_s, remedy=remedy).checked(remedy=remedy).output
