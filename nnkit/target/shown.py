"""What a target adds to a build's page: how fast it is, its own tables, and memory that its own tool plans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from nnkit.memory.local import LocalMemory
from nnkit.mixed_precision.tried import TriedLayers
from nnkit.runner import LayerTime, Speed


@dataclass(frozen=True)
class Table:
    """A table of the target's own. rows: a text or a number for each column. about: the tab that it stands in."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | int | float, ...], ...]
    about: Literal["memory", "accuracy"] = "memory"


@dataclass(frozen=True)
class Bar:
    """What an engine does from `start` up to `end`."""

    label: str
    start: int
    end: int


@dataclass(frozen=True)
class Lane:
    """An engine, and what it does one after the other."""

    name: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True)
class Timeline:
    """Engines side by side over the time of one inference. length: in `unit`, as are the ends of bars."""

    title: str
    unit: str
    length: int
    lanes: tuple[Lane, ...]


@dataclass(frozen=True)
class Shown:
    """All that a target adds; empty where it has nothing to add.

    tried: what the build measured beside itself. layer_times: by layer; what counted instructions do not tell.
    segments: what each segment of the report is, in its order; empty where the target has no words for it.
    proofs: by memory region, what is known of smaller plans, where that is more than the plan's own bound.
    """

    speed: tuple[Speed, ...] = ()
    tables: tuple[Table, ...] = ()
    memories: tuple[LocalMemory, ...] = ()
    timelines: tuple[Timeline, ...] = ()
    tried: tuple[TriedLayers, ...] = ()
    layer_times: Mapping[str, LayerTime] = field(default_factory=dict)
    segments: tuple[str, ...] = ()
    proofs: Mapping[str, str] = field(default_factory=dict)
