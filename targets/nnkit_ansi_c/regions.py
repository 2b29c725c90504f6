"""Several memories of different speed: which values, scratch and weights go where.

Every buffer has a traffic, the bytes that the kernels read and write of it, counted from the shapes of the layers.
Values and scratch are placed by the general allocator so that the sum of traffic times the cycles of an access is
least, as far as its effort goes; tables of weights go by traffic for each byte, the most used first, to the fastest
region with room.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from nnkit.c.affine.call import Table
from nnkit.c.affine.layout import ARENA, Room, Work
from nnkit.c.affine.statements import stored
from nnkit.cpu_segments.arena import ALIGNMENT_BYTES as FLOAT_ALIGNMENT_BYTES
from nnkit.cpu_segments.arena import Memories
from nnkit.errors import DoesNotFitError
from nnkit.memory.plan import Region
from nnkit.program.affine import AffineProgram
from nnkit_ansi_c import cycles
from nnkit_ansi_c.options import MemoryRegion

ALIGNMENT_BYTES = 4
_ACCESS_BYTES = 4
_TENTHS = 10  # costs are whole numbers: tenths of a cycle
_COLUMNS = 4  # pixels that meet a row of weights at a time


@dataclass(frozen=True)
class Regions:
    """values, weights: the regions of each, fastest first; none: one arena of any size, one table of weights."""

    values: tuple[MemoryRegion, ...] = ()
    weights: tuple[MemoryRegion, ...] = ()

    @classmethod
    def of(cls, written: Sequence[MemoryRegion]) -> Regions:
        """As the recipe has them."""
        ordered = sorted(written, key=lambda region: region.cycles)
        by_use = [tuple(each for each in ordered if each.holds == use) for use in ("values", "weights")]
        return cls(by_use[0], by_use[1])

    def places(self) -> tuple[Region, ...]:
        """Where values may lie."""
        if not self.values:
            return (ARENA,)
        return tuple(Region(each.name, each.size, ALIGNMENT_BYTES) for each in self.values)

    def memories(self) -> Memories | None:
        """Those of float32 values, which are aligned for vectors; None where there is one arena."""
        if not self.values:
            return None
        places = tuple(Region(each.name, each.size, FLOAT_ALIGNMENT_BYTES) for each in self.values)
        return Memories(places, self._cost_of)

    def _cost_of(self, moved_bytes: int) -> Mapping[str, int]:
        """By region, of an access to each word."""
        return {each.name: round(_TENTHS * each.cycles * moved_bytes / _ACCESS_BYTES) for each in self.values}

    def costs(self, program: AffineProgram, work: Work) -> Callable[[Room], Mapping[str, int]] | None:
        """By room and region what its traffic costs; None where there is one arena."""
        if not self.values:
            return None
        traffic = value_traffic(program, work)

        def of(room: Room) -> Mapping[str, int]:
            moved = scratch_traffic(program, work, room) if room.kind == "scratch" else traffic.get(room.name, 0)
            return self._cost_of(moved)

        return of

    def weight_regions(self, tables: Mapping[bytes, tuple[int, float]], name: str) -> Mapping[bytes, str]:
        """By table its region, `""` where weights are one file.

        tables: bytes and traffic of each, by its content. Raises DoesNotFitError.
        """
        if not self.weights:
            return dict.fromkeys(tables, "")
        left = {each.name: each.size for each in self.weights}
        placed: dict[bytes, str] = {}
        for key in sorted(tables, key=lambda key: (-tables[key][1] / max(tables[key][0], 1), -tables[key][0])):
            size = -(-tables[key][0] // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
            region = next((each.name for each in self.weights if left[each.name] >= size), None)
            if region is None:
                total = sum(size for size, _ in tables.values())
                raise DoesNotFitError(
                    f"the weights take {total:,} bytes, and a table of {size:,} finds no room in "
                    f"{', '.join(each.name for each in self.weights)}",
                    where=name,
                    remedy="raise `size` of a region that holds weights, or remove these regions",
                )
            placed[key] = region
            left[region] -= size
        return placed


def value_traffic(program: AffineProgram, work: Work) -> Mapping[str, int]:
    """Bytes that are written to and read from each value, those of views counted to what they show."""
    moved: dict[str, int] = {}

    def count(name: str, values: int) -> None:
        root = work.root(name)
        moved[root] = moved.get(root, 0) + values * program.tensors[name].format.bytes

    for op in program.ops:
        if cycles.moves_nothing(op):
            continue
        done = cycles.work_of(op, program)
        for name in op.inputs:
            elements = program.tensors[name].elements
            count(name, max(elements, done.gathered) if done is not None and len(op.inputs) == 1 else elements)
        count(op.output, program.tensors[op.output].elements)
    return moved


def scratch_traffic(program: AffineProgram, work: Work, room: Room) -> int:
    """Bytes of a call's working memory that are moved: every product reads what was gathered there."""
    done = cycles.work_of(program.ops[work.owners[room.first_step]], program)
    return max(room.size_bytes, done.macs if done is not None else 0)


def table_traffic(program: AffineProgram, work: Work, step: int, table: Table) -> float:
    """Bytes of a table that a call reads."""
    size = stored(table).nbytes
    op = program.ops[work.owners[step]]
    done = cycles.work_of(op, program)
    if done is None:
        return float(max(size, program.tensors[op.output].size_bytes))
    return size * max(1.0, done.positions if done.kind == "depthwise" else done.positions / _COLUMNS)
