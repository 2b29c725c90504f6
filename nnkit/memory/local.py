"""A memory that a target's own tool plans, as far as it is known: which layers lie in it together, and how large."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Span:
    """Layers, from the first to the last by name, that lie in a memory together, and the bytes that they take.

    kind: in which colour it is drawn: one of the kinds of buffers of a memory plan.
    """

    name: str
    first_layer: str
    last_layer: str
    size_bytes: int
    kind: str = "scratch"


@dataclass(frozen=True)
class LocalMemory:
    """The memory over the layers.

    name: of the drawing, `memory_<name>.svg`. capacity_bytes: None where nothing but the board's memory bounds it.
    """

    name: str
    title: str
    capacity_bytes: int | None
    spans: tuple[Span, ...]
