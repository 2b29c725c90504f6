"""The node table of a compiled network: names and sizes of what each segment reads and writes, in its order.

It follows the header of 192 bytes: for each segment 16 bytes (their second is the number of inputs, their third that
of outputs), then 64 bytes a node: H, W and C, four more bytes, the name, 16 more bytes. A name has 31 bytes at most,
and NUL; a longer one is cut there.

Source: files that the vendor's mapper made; what the other bytes mean is not known.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Literal, TypeAlias

HEADER_BYTES = 192
NAME_BYTES = 31
"""Most bytes of a node's name."""

_SEGMENT_BYTES, _NODE_BYTES = 16, 64
_NAME_AT, _NAME_END = 16, 48

Sort: TypeAlias = Literal["input", "output"]


@dataclass(frozen=True)
class WkNode:
    """An input or output of a segment: its name as stored, and height, width and channels."""

    sort: Sort
    name: str
    hwc: tuple[int, int, int]

    def __str__(self) -> str:
        return f"{self.name} {'x'.join(map(str, self.hwc))}"


def cut_name(name: str) -> str:
    """A name as the node table holds it."""
    return name.encode()[:NAME_BYTES].decode(errors="replace")


def read_nodes(head: bytes, segments: int) -> tuple[WkNode, ...]:
    """All nodes, from the bytes before the body. Raises ValueError where they do not fill them exactly."""
    nodes: list[WkNode] = []
    at = HEADER_BYTES
    for _ in range(segments):
        if at + _SEGMENT_BYTES > len(head):
            raise ValueError("its node table is cut off")
        inputs, outputs = head[at + 1], head[at + 2]
        at += _SEGMENT_BYTES
        if at + (inputs + outputs) * _NODE_BYTES > len(head):
            raise ValueError("its node table is cut off")
        for index in range(inputs + outputs):
            nodes.append(_node(head[at : at + _NODE_BYTES], "input" if index < inputs else "output"))
            at += _NODE_BYTES
    if at != len(head):
        raise ValueError(f"its node table ends at byte {at}, and what follows begins at {len(head)}")
    return tuple(nodes)


def _node(entry: bytes, sort: Sort) -> WkNode:
    name = entry[_NAME_AT:_NAME_END].split(b"\0", 1)[0].decode(errors="replace")
    height, width, channels = struct.unpack_from("<3I", entry)
    return WkNode(sort, name, (height, width, channels))
