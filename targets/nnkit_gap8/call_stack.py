"""Worst-case stack of a function, from GCC's call graphs (`-fcallgraph-info=su`)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from nnkit.errors import InternalError

_NODE = re.compile(r'node: \{ title: "([^"]*)" label: "([^"]*)"')
_EDGE = re.compile(r'edge: \{ sourcename: "([^"]*)" targetname: "([^"]*)"')
_FRAME = re.compile(r"(\d+) bytes \((static|dynamic|dynamic,bounded)\)")
# 64-bit arithmetic of the compiler's own library: leaves that use no stack on rv32.
_LEAF = re.compile(r"^__(mul|ashl|ashr|lshr)[sd]i3$")


def worst_stack_bytes(graphs: Iterable[str], root: str) -> int:
    """Deepest sum of frames from `root`, in bytes.

    Args:
        graphs: the text of every object's `.ci` file.
        root: title of the function, its name.

    Raises InternalError for what cannot be bounded: recursion, frames that grow, calls through pointers, and
    functions whose frame is not known.
    """
    frames: dict[str, int] = {}
    calls: dict[str, set[str]] = {}
    for graph in graphs:
        for title, label in _NODE.findall(graph):
            frame = _FRAME.search(label)
            if frame is None:
                continue
            if frame[2] == "dynamic":
                raise InternalError("a stack frame of unknown size", where=title)
            frames[title] = int(frame[1])
        for source, target in _EDGE.findall(graph):
            calls.setdefault(source, set()).add(target)
    known: dict[str, int] = {}

    def depth(function: str, path: tuple[str, ...]) -> int:
        if function in path:
            raise InternalError("recursion: the stack cannot be bounded", where=function)
        if function not in known:
            if function not in frames:
                if _LEAF.match(function):
                    return 0
                raise InternalError("a call to a function whose stack is not known", where=function)
            below = [depth(callee, (*path, function)) for callee in sorted(calls.get(function, ()))]
            known[function] = frames[function] + max(below, default=0)
        return known[function]

    return depth(root, ())
