"""Several memories of different speed: which values, scratch and weights go where.

Every buffer has a traffic, the bytes that the kernels read and write of it, counted from the shapes of the layers.
Values and scratch are placed by the general allocator so that the sum of traffic times the cycles of an access is
least, as far as its effort goes; tables of weights go by traffic for each byte, the most used first, to the fastest
region with room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from nnkit.c.affine.layout import ARENA, Room, Work
from nnkit.cpu_segments.arena import ALIGNMENT_BYTES as FLOAT_ALIGNMENT_BYTES
from nnkit.cpu_segments.arena import Arena, Memories
from nnkit.cpu_segments.assemble import TablePlaces
from nnkit.errors import DoesNotFitError
from nnkit.memory.plan import Buffer, Region, RegionUse
from nnkit.program import OpBase, Program
from nnkit.program.affine import AffineProgram
from nnkit_ansi_c import cycles
from nnkit_ansi_c.ops import FloatLayer
from nnkit_ansi_c.options import MemoryRegion

ALIGNMENT_BYTES = 4
_ACCESS_BYTES = 4
_TENTHS = 10  # costs are whole numbers: tenths of a cycle
_PIXELS = {("integers", ""): 4, ("integers", "depthwise"): 1, ("floats", ""): 2, ("floats", "depthwise"): 4}
"""How many pixels meet a weight each time that the kernels of a board read it."""


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

    def check_integers(self, arena: Arena, name: str) -> None:
        """Raises DoesNotFitError where the integers find no room behind the floats of the last region."""
        if self.values:
            last = self.values[-1]
            taken = arena.peaks[last.name].peak_bytes + arena.int_bytes
            if taken > last.size:
                raise DoesNotFitError(
                    f"the floats and integers in {last.name} take {taken:,} bytes of {last.size:,}",
                    where=name,
                    remedy=f"set its `size` to at least {taken:,} bytes",
                )

    def costs(self, program: AffineProgram, work: Work) -> Callable[[Room], Mapping[str, int]] | None:
        """By room and region what its traffic costs; None where there is one arena."""
        if not self.values:
            return None
        traffic = value_traffic(program, work)

        def of(room: Room) -> Mapping[str, int]:
            moved = scratch_traffic(program, work, room) if room.kind == "scratch" else traffic.get(room.name, 0)
            return self._cost_of(moved)

        return of

    def table_places(self, program: Program) -> TablePlaces | None:
        """Where tables of float32 lie; None where weights are one file."""
        if not self.weights:
            return None
        ops = {op.output: op for op in program.ops}

        def of(uses: Iterable[tuple[str, bytes]]) -> Mapping[bytes, str]:
            return self.weight_regions(program, ((ops.get(output), table) for output, table in uses))

        return of

    def weight_regions(
        self, program: Program, uses: Iterable[tuple[OpBase | None, bytes]], reserved_bytes: int = 0
    ) -> Mapping[bytes, str]:
        """By the content of a table its region, `""` where weights are one file.

        uses: every layer that reads a table, None for none, and the table's content. reserved_bytes: of each region,
        for what is no table. Raises DoesNotFitError.
        """
        traffic: dict[bytes, float] = {}
        for op, table in uses:
            moved = 0.0 if op is None else table_traffic(op, program, len(table))
            traffic[table] = traffic.get(table, 0.0) + moved
        if not self.weights:
            return dict.fromkeys(traffic, "")
        left = {each.name: each.size - reserved_bytes for each in self.weights}
        placed: dict[bytes, str] = {}
        for key in sorted(traffic, key=lambda key: (-traffic[key] / max(len(key), 1), -len(key))):
            size = -(-len(key) // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
            region = next((each.name for each in self.weights if left[each.name] >= size), None)
            if region is None:
                raise DoesNotFitError(
                    f"the weights take {sum(map(len, traffic)):,} bytes, and a table of {size:,} finds no room in "
                    f"{', '.join(each.name for each in self.weights)}",
                    where=program.name,
                    remedy="raise `size` of a region that holds weights, or remove these regions",
                )
            placed[key] = region
            left[region] -= size
        return placed

    def weight_buffers(self, held_bytes: Mapping[str, int], last_step: int) -> dict[str, Buffer]:
        """The weights of each region as one buffer, which lives all the time. held_bytes: by region."""
        names = {each.name: f"weights in {each.name}" for each in self.weights}
        return {
            name: Buffer(name, "weights", region, 0, held_bytes[region], 0, last_step)
            for region, name in names.items()
        }

    def weight_uses(self, held_bytes: Mapping[str, int]) -> dict[str, RegionUse]:
        """What the weights take of each region."""
        held = {each: held_bytes[each.name] for each in self.weights}
        return {each.name: RegionUse(each.size, size, size, True) for each, size in held.items()}


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


def table_traffic(op: OpBase, program: Program, size_bytes: int) -> float:
    """Bytes of a table of so many that a layer reads."""
    done = cycles.work_of(op, program)
    if done is None:
        # Products that no measurement covers read a weight for each.
        products = 4 * op.multiply_accumulates(program.tensors) if isinstance(op, FloatLayer) else 0
        return float(max(size_bytes, program.tensors[op.output].size_bytes, products))
    numbers, kind = "floats" if done.numbers == "float32" else "integers", done.kind
    pixels = _PIXELS[numbers, kind if kind == "depthwise" else ""]
    return size_bytes * max(1.0, done.positions / pixels)
