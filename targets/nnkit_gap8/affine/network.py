"""An affine program as calls of the integer kernels, on one core: everything in L2, weights streamed into it.

Convolutions may be cut into several calls, each for some of the output channels with their weights alone, so that
fewer bytes of weights need to be in L2 at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from nnkit.c.affine.call import Call, Code, Join, Table, View
from nnkit.c.affine.layout import Layout, Place, Work, layout_of, work_of
from nnkit.c.affine.packed import LANES
from nnkit.c.affine.statements import TABLE_TYPES, Statements, byte_pointer, stored, table_pointer
from nnkit.c.text import identifier
from nnkit.memory.engine import Effort
from nnkit.memory.packing import align_up
from nnkit.memory.plan import Region
from nnkit.memory.problem import UNBOUNDED_BYTES
from nnkit.program.affine import AffineProgram, AffineTensor
from nnkit_gap8.network_code import RESERVED
from nnkit_gap8.streaming import split_blocks

L2 = Region("l2", UNBOUNDED_BYTES, 4)
_TABLE_ORDER = ("ints", "shorts", "bytes")  # of a call's tables in weights.bin, so that none needs padding before it


def channel_bytes(call: Call) -> int:
    """Bytes of the tables of one output channel, where the call can be cut between channels; otherwise 0."""
    if call.kernel.structure == "packed":
        return -(-call.numbers["block_bytes"] // LANES)
    if call.kernel.structure != "conv" or call.numbers["groups"] != 1:
        return 0
    return sum(stored(table).nbytes // len(table.values) for table in call.tables.values())


def streamed_bytes(call: Call) -> int:
    """Bytes of all tables of a call, as they lie in weights.bin."""
    return align_up(sum(stored(table).nbytes for table in call.tables.values()), 4)


def in_channel_parts(call: Call, most_bytes: int) -> list[Call]:
    """The call, or several for consecutive output channels whose tables take at most so many bytes where they can."""
    per_channel = channel_bytes(call)
    if not per_channel or streamed_bytes(call) <= most_bytes:
        return [call]
    together = LANES if call.kernel.structure == "packed" else 1  # channels of a row of its tables
    if together > 1:
        per_channel = call.numbers["block_bytes"]
    channels = call.numbers["out_channels"]
    counts = split_blocks([per_channel] * -(-channels // together), max(most_bytes, per_channel))
    parts, first = [], 0
    for count in counts:
        tables = {name: Table(table.kind, table.values[first : first + count]) for name, table in call.tables.items()}
        numbers = {**call.numbers, "out_channels": min(count * together, channels - first * together)}
        # Later parts read the whole input again, so that no part may write over it.
        parts.append(
            replace(
                call,
                numbers=numbers,
                tables=tables,
                accesses=None,
                first_channel=call.first_channel + first * together,
            )
        )
        first += count
    return parts


@dataclass(frozen=True, eq=False)
class AffineNetwork:
    """The calls, and where everything lies in L2. codes: of each op, with its parts."""

    program: AffineProgram
    prefix: str
    work: Work
    layout: Layout

    @staticmethod
    def of(
        program: AffineProgram, codes: Sequence[Code], room_bytes: Callable[[int], int], effort: Effort | None = None
    ) -> AffineNetwork:
        """room_bytes: most bytes of weights of a call of an op, given by its index."""
        cut = [
            [part for each in code for part in _parts(each, room_bytes(index))] for index, code in enumerate(codes)
        ]
        work = work_of(program, cut, outside=())
        sizes = {step: size for step, call in enumerate(work.calls) if (size := streamed_bytes(call))}
        layout = layout_of(program, work, (), (L2,), sizes, effort)
        return AffineNetwork(program, f"{identifier(program.name, RESERVED)}", work, layout)

    @property
    def pool_bytes(self) -> int:
        """Bytes of L2 for activations, scratch and weights, each chunk fetched in its own step."""
        return self.layout.placement.peaks["l2"].peak_bytes

    def statements(self, weights: Mapping[int, int]) -> Statements:
        """The calls in C. weights: by call, where its tables lie in L2."""

        def table(step: int, name: str) -> str:
            call = self.work.calls[step]
            offset = weights[step] + self.table_offsets(step)[name]
            kind = {"ints": "int", "shorts": "short", "bytes": "signed char"}[call.tables[name].kind]
            return table_pointer(f"(const {kind} *)(const void *)(l2 + {offset})", call.kernel)

        def scratch(step: int) -> str:
            return f"l2 + {self.layout.scratch[step]}"

        return Statements(self.program, self.work, self.layout, self.prefix, _value, table, scratch)

    def table_offsets(self, step: int) -> dict[str, int]:
        """By table of a call, where it begins among the call's weights, in bytes."""
        offsets, offset = {}, 0
        for name, table in self._ordered(step):
            offsets[name] = offset
            offset += table.values.size * TABLE_TYPES[table.kind].itemsize
        return offsets

    def weights(self, step: int) -> bytes:
        """A call's tables, one behind the other."""
        data = b"".join(stored(table).tobytes() for _, table in self._ordered(step))
        return data + bytes(-len(data) % 4)

    @cached_property
    def held(self) -> tuple[tuple[int, int, int, int], ...]:
        """Start and end in L2 of all that is not weights, with the first and last call in which it holds anything.

        What shares bytes lives as one, from the first of it to the last.
        """
        lives: dict[str, tuple[int, int]] = {}
        sizes = {room.name: room.size_bytes for room in self.layout.rooms if room.kind != "weights"}
        for room in self.layout.rooms:
            if room.kind != "weights":
                name = self.layout.outermost(room.name)
                first, last = lives.get(name, (room.first_step, room.last_step))
                lives[name] = min(first, room.first_step), max(last, room.last_step)
        places = self.layout.placement.places
        spans = [(places[name].offset_bytes, sizes[name], *life) for name, life in lives.items()]
        return tuple((start, start + size, first, last) for start, size, first, last in spans)

    @cached_property
    def steps_of(self) -> Mapping[int, tuple[int, ...]]:
        """By op the calls that are made for it."""
        made = [step for step in range(len(self.work.calls)) if step not in self.layout.dropped]
        return {
            index: tuple(step for step in made if self.work.owners[step] == index)
            for index in range(len(self.program.ops))
        }

    def _ordered(self, step: int) -> list[tuple[str, Table]]:
        tables = self.work.calls[step].tables.items()
        return sorted(tables, key=lambda pair: _TABLE_ORDER.index(pair[1].kind))


def _parts(each: Call | View | Join, room_bytes: int) -> Sequence[Call | View | Join]:
    return in_channel_parts(each, room_bytes) if isinstance(each, Call) else (each,)


def _value(place: Place, tensor: AffineTensor, const: bool) -> str:
    return byte_pointer(f"l2 + {place.offset_bytes}", tensor, const=const)
