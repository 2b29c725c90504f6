"""The C compiler of this machine, which runs generated code and makes the counting of calibration faster."""

from __future__ import annotations

import os

from nnkit.children.search import found_program
from nnkit.external_tool import Tool, tool_version

_COMPILERS = ("cc", "gcc", "clang")


def host_compiler() -> str | None:
    """Path of the C compiler: `CC`, or the first of cc, gcc and clang on PATH. None where there is none."""
    chosen = os.environ.get("CC")
    candidates = (chosen,) if chosen else _COMPILERS
    return next((path for path in map(found_program, candidates) if path is not None), None)


def host_compiler_tool(purpose: str) -> Tool:
    """The C compiler as `nnkit doctor` and `run.json` name it. purpose: what the target needs it for."""
    path = host_compiler()
    version = tool_version(path) if path else ""
    return Tool("C compiler", purpose, path, version, "apt-get install gcc", in_report=False)
