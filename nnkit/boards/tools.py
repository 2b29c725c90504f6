"""Cross compilers and emulators: where they are, how to get them, and running them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nnkit.children.search import found_program
from nnkit.errors import ToolError
from nnkit.external_tool import Tool, run_tool, tool_version

ARM_COMPILER = "arm-none-eabi-gcc"
ARM_SIZE = "arm-none-eabi-size"
RV32_COMPILER = "riscv64-unknown-elf-gcc"
RV32_SIZE = "riscv64-unknown-elf-size"
QEMU_ARM = "qemu-system-arm"
QEMU_RV32 = "qemu-system-riscv32"
INSTALL = {
    ARM_COMPILER: "apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi",
    ARM_SIZE: "apt-get install binutils-arm-none-eabi",
    RV32_COMPILER: "apt-get install gcc-riscv64-unknown-elf picolibc-riscv64-unknown-elf",
    RV32_SIZE: "apt-get install binutils-riscv64-unknown-elf",
    QEMU_ARM: "apt-get install qemu-system-arm",
    QEMU_RV32: "apt-get install qemu-system-misc",
}


def found_tool(name: str, purpose: str) -> Tool:
    """One of the tools above, with path and version where it is on PATH."""
    path = found_program(name)
    return Tool(name, purpose, path, tool_version(path) if path else "", INSTALL[name])


def missing_tools(names: Sequence[str]) -> str | None:
    """None when all are on PATH, otherwise which are not and how to get them."""
    absent = [f"{name} is not on PATH ({INSTALL[name]})" for name in names if found_program(name) is None]
    return "; ".join(absent) or None


def require(name: str) -> str:
    """Path of a tool. Raises ToolError with the way to get it."""
    path = found_program(name)
    if path is None:
        raise ToolError("this tool is not on PATH", where=name, remedy=INSTALL[name])
    return path


def run_in(folder: Path, command: Sequence[str], timeout_s: float) -> str:
    """Run a compiler, the emulator or a compiled network in `folder`; returns its standard output.

    Raises ToolError with the end of its log when it fails or takes longer than `timeout_s`.
    """
    remedy = "generated code should compile and run: please report this with the build folder's artifact/"
    return run_tool(command, folder=folder, timeout_s=timeout_s, remedy=remedy).checked(remedy=remedy).output
