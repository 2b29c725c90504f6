"""From op time to step time: an op with weights takes a step for each chunk, every other op takes one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nnkit.memory.lifetimes import Storages, moves_nothing
from nnkit.program import Program


@dataclass(frozen=True)
class Timeline:
    """first, last: step range of each op. ops: op index of each step. idle: ops that move and compute nothing."""

    first: tuple[int, ...]
    last: tuple[int, ...]
    ops: tuple[int, ...]
    idle: frozenset[int]

    @property
    def step_count(self) -> int:
        """Number of steps."""
        return len(self.ops)

    def busy_steps_before(self, step: int, most: int) -> tuple[int, ...]:
        """Up to `most` earlier steps that compute something, the farthest first."""
        busy = [earlier for earlier in range(step) if self.ops[earlier] not in self.idle]
        return tuple(busy[-most:])


def timeline(program: Program, storages: Storages, chunks_per_op: Sequence[int]) -> Timeline:
    """Lay the ops out in steps; `chunks_per_op` counts weight chunks, 0 for an op without weights."""
    first: list[int] = []
    last: list[int] = []
    ops: list[int] = []
    for index, count in enumerate(chunks_per_op):
        first.append(len(ops))
        ops.extend([index] * max(count, 1))
        last.append(len(ops) - 1)
    idle = frozenset(i for i, op in enumerate(program.ops) if moves_nothing(op, storages, program))
    return Timeline(tuple(first), tuple(last), tuple(ops), idle)
