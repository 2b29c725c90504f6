"""The external programs of the gap8 target, for `nnkit doctor`."""

from __future__ import annotations

from nnkit.boards.tools import QEMU_RV32, RV32_COMPILER, found_tool
from nnkit.c.host_compiler import host_compiler_tool
from nnkit.target import Tool
from nnkit_gap8.gvsoc_runner import gvsoc_tool


def found_tools() -> tuple[Tool, ...]:
    """All tools with path and version; a missing one says how to get it."""
    return (
        host_compiler_tool("runs the generated C on this machine"),
        found_tool(RV32_COMPILER, "compiles it for rv32imc"),
        found_tool(QEMU_RV32, "runs rv32imc and counts instructions"),
        gvsoc_tool(),
    )
