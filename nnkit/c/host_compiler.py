"""The C compiler of this machine, which runs generated code and makes the counting of calibration faster."""

from __future__ import annotations

import os

from nnkit.children.search import found_program
from nnkit.errors import ToolError
from nnkit.external_tool import Tool, tool_version

_COMPILERS = ("cc", "gcc", "clang")


def host_compiler(given: str | None = None) -> str | None:
    """Path of the C compiler: `given`, else `CC`, else the first of cc, gcc and clang on PATH. None where there is
    none."""
    chosen = given or os.environ.get("CC")
    candidates = (chosen,) if chosen else _COMPILERS
    return next((path for path in map(found_program, candidates) if path is not None), None)


def why_no_compiler(given: str | None = None) -> str | None:
    """Why there is no C compiler, and what to do; None where there is one.

    `CC` is a program alone: flags in it would take part in what generated code computes, and are nnkit's own.
    """
    if host_compiler(given) is not None:
        return None
    if given:
        return f"no C compiler: {given!r} was not found"
    chosen = os.environ.get("CC")
    if not chosen:
        return "no C compiler (install gcc or clang, or set CC)"
    program, *flags = chosen.split() or [chosen]
    if flags and found_program(program) is not None:
        return f"no C compiler: CC is {chosen!r}, and takes a program without flags (set CC={program})"
    return (
        f"no C compiler: CC is {chosen!r}, which is no program on PATH or at an absolute path (correct or unset it)"
    )


def needed_compiler(given: str | None = None) -> str:
    """Path of the C compiler. Raises ToolError where there is none."""
    path = host_compiler(given)
    if path is None:
        raise ToolError(why_no_compiler(given) or "no C compiler", remedy="install gcc or clang, or set CC to one")
    return path


def host_compiler_tool(purpose: str) -> Tool:
    """The C compiler as `nnkit doctor` and `run.json` name it. purpose: what the target needs it for."""
    path = host_compiler()
    version = tool_version(path) if path else ""
    get = "apt-get install gcc" if not os.environ.get("CC") else why_no_compiler() or ""
    return Tool("C compiler", purpose, path, version, get, in_report=False)
