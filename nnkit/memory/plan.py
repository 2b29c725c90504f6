"""MemoryPlan: where every byte lives, when, and what is proven of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from nnkit.memory.accesses import Accesses

BufferKind: TypeAlias = Literal["activation", "weights", "scratch", "context", "stack", "code"]


@dataclass(frozen=True)
class Region:
    """A memory of the machine. Names are lower case: `l1`, `l2`, `l3`. bank_bytes: size of its banks; 0: none."""

    name: str
    capacity_bytes: int
    alignment_bytes: int = 4
    bank_bytes: int = 0


@dataclass(frozen=True)
class Buffer:
    """One allocation: bytes [offset, offset + size) of `region`, live in steps first..last, both included."""

    name: str
    kind: BufferKind
    region: str
    offset_bytes: int
    size_bytes: int
    first_step: int
    last_step: int


@dataclass(frozen=True)
class TensorPlace:
    """A tensor's bytes: `offset_bytes` inside `buffer` (not 0 for a part of a concatenation)."""

    tensor: str
    buffer: str
    offset_bytes: int
    size_bytes: int


@dataclass(frozen=True)
class WeightChunk:
    """Consecutive weight blocks of one op, streamed from L3 into a buffer before `step` runs.

    fetch_step: the step at whose start the copy is issued; smaller than `step` where it is prefetched.
    """

    op: str
    first_block: int
    blocks: int
    l3_offset_bytes: int
    size_bytes: int
    buffer: str
    fetch_step: int
    step: int


@dataclass(frozen=True)
class Step:
    """One unit of execution: an op, or one weight chunk of it. `chunk` indexes `MemoryPlan.chunks`; None: no weights.

    reads/writes name tensors. A concat whose parts are written in place has a step that moves nothing.
    """

    index: int
    op: str
    chunk: int | None
    reads: tuple[str, ...]
    writes: tuple[str, ...]


@dataclass(frozen=True)
class Overlap:
    """A step writes a tensor over the one that it reads, for the last time; accesses: in which order."""

    step: int
    read: str
    written: str
    accesses: Accesses


@dataclass(frozen=True)
class RegionUse:
    """What a region's plan comes to. `proven_optimal`: peak equals the lower bound, or a search was exhausted.

    limited: whether the capacity is a limit, of the chip or the recipe; else the region is as large as what it holds.
    """

    capacity_bytes: int
    peak_bytes: int
    lower_bound_bytes: int
    proven_optimal: bool
    limited: bool = True

    @property
    def in_words(self) -> str:
        """The peak, of the capacity where that is a limit."""
        return f"{self.peak_bytes:,}{f' of {self.capacity_bytes:,}' if self.limited else ''} B"


@dataclass(frozen=True)
class MemoryPlan:
    """Every buffer of a program on one target.

    overlaps: two buffers share bytes in a step only if they are here.
    """

    planner: str
    regions: Mapping[str, RegionUse]
    buffers: Mapping[str, Buffer]
    places: Mapping[str, TensorPlace]
    steps: tuple[Step, ...]
    chunks: tuple[WeightChunk, ...]
    l3_weight_bytes: int
    notes: tuple[str, ...] = ()
    overlaps: tuple[Overlap, ...] = ()

    def __post_init__(self) -> None:
        for name in ("regions", "buffers", "places"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    def step_peak_bytes(self, region: str, step: int) -> int:
        """Bytes of `region` that `step` needs: the end of its highest buffer, plus what resides behind the pool.

        Context and stack lie behind the pool whatever a step uses of it, so they count by what they add to it.
        The maximum over all steps is the region's peak.
        """
        pool = resident = end = 0
        for buffer in self.buffers.values():
            if buffer.region != region:
                continue
            buffer_end = buffer.offset_bytes + buffer.size_bytes
            if buffer.kind in ("context", "stack", "code"):
                resident = max(resident, buffer_end)
                continue
            pool = max(pool, buffer_end)
            if buffer.first_step <= step <= buffer.last_step:
                end = max(end, buffer_end)
        return end + max(resident - pool, 0)


def nothing_placed(planner: str) -> MemoryPlan:
    """The plan of a target whose memory is planned by somebody else, `planner`."""
    return MemoryPlan(planner, regions={}, buffers={}, places={}, steps=(), chunks=(), l3_weight_bytes=0)
