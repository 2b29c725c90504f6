"""A build for the cluster: which kernels its layers have, and the tiles of every step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from nnkit.c.fixed.catalogue import operator_c
from nnkit.c.fixed.conv2d_packed import PackedConv2dC
from nnkit.c.fixed.layer import Call
from nnkit.c.fixed.machine import CoreMachine
from nnkit.c.fixed.operator import Function, OperatorC
from nnkit.errors import InternalError
from nnkit.memory.needs import KernelNeeds
from nnkit.memory.plan import MemoryPlan
from nnkit.program import Conv2d, OpBase, Program
from nnkit_gap8 import cluster_costs as costs
from nnkit_gap8.tile_plan import TiledOp, TilePlan, Tiling, check_tile_plan, layout_of
from nnkit_gap8.tile_search import best_tiling
from nnkit_gap8.tiled_ops import TileCosts, depthwise_machine, describe, packed_of

TILES_BYTES = 1024  # NNKIT_TILES_BYTES: the state of the running layer, in front of its buffers


@dataclass(frozen=True)
class Cluster:
    """The layers of a program that run in tiles on `machine`, whose scratch is the tiles' budget."""

    program: Program
    machine: CoreMachine

    @property
    def budget_bytes(self) -> int:
        """What is left of L1 for buffers."""
        return self.machine.scratch_bytes - TILES_BYTES

    @cached_property
    def described(self) -> Mapping[str, tuple[TiledOp, TileCosts] | str]:
        """The tiles of every layer, or why it has none."""
        described: dict[str, tuple[TiledOp, TileCosts] | str] = {}
        for op in self.program.ops:
            answer = describe(op, self.program, self.machine)
            if not isinstance(answer, str):
                least = layout_of(answer[0], min(4, answer[0].channels), 1, answer[0].channels, False).peak_bytes
                if least > self.budget_bytes:
                    answer = f"its smallest tile takes {least:,} bytes of L1"
            described[op.name] = answer
        return described

    def operator(self, op: OpBase) -> OperatorC[Any]:
        """The C of an op."""
        if isinstance(self.described[op.name], str):
            return operator_c(op)
        if packed_of(op, self.program) is not None:
            return PackedConv2dC(self.program)
        return _OnTiles(operator_c(op)) if isinstance(op, Conv2d) else operator_c(op)

    def needs(self, op: OpBase, tiles: TilePlan | None = None) -> KernelNeeds:
        """Weight blocks, and L1: of the tiles, or of a kernel that works on L2."""
        needs = self.operator(op).needs(op, self.program, self.machine)
        if isinstance(self.described[op.name], str) or tiles is None:
            return needs
        taken = max(tiling.layout.peak_bytes for tiling in tiles.steps.values() if tiling.op.name == op.name)
        return replace(needs, scratch_bytes=((self.machine.scratch_region, TILES_BYTES + taken),))

    def tile_plan(self, plan: MemoryPlan) -> TilePlan:
        """The tiles of every step: of its weight chunk's channels, or of all."""
        tilings: dict[tuple[str, int], Tiling] = {}
        steps = {}
        for step in plan.steps:
            described = self.described[step.op]
            if isinstance(described, str):
                continue
            op, tile_costs = described
            channels = op.channels
            if step.chunk is not None:
                chunk = plan.chunks[step.chunk]
                channels = min(op.channels - 4 * chunk.first_block, 4 * chunk.blocks)
            if (op.name, channels) not in tilings:
                tiling = best_tiling(op, tile_costs, channels, self.budget_bytes)
                if tiling is None:
                    raise InternalError("no cut fits L1", where=op.name)
                tilings[op.name, channels] = tiling
            steps[step.index] = tilings[op.name, channels]
        fetches: dict[int, float] = {}
        for chunk in plan.chunks:
            fetches[chunk.fetch_step] = fetches.get(chunk.fetch_step, 0.0) + costs.l3_cycles(chunk.size_bytes)
        tiles = TilePlan(
            budget_bytes=self.budget_bytes,
            cores=self.machine.cores,
            steps=steps,
            untiled={name: answer for name, answer in self.described.items() if isinstance(answer, str)},
            l3_cycles=fetches,
        )
        check_tile_plan(tiles)
        return tiles


class _OnTiles(OperatorC[Conv2d]):
    """A depthwise convolution whose scratch lies beside the tile and belongs to the schedule."""

    def __init__(self, whole: OperatorC[Conv2d]) -> None:
        self._whole = whole

    def functions(self, op: Conv2d, program: Program) -> tuple[Function, ...]:
        return self._whole.functions(op, program)

    def calls(self, op: Conv2d, program: Program, machine: CoreMachine, name: str) -> tuple[Call, ...]:
        return self._whole.calls(op, program, depthwise_machine(machine), name)

    def needs(self, op: Conv2d, program: Program, machine: CoreMachine) -> KernelNeeds:
        needs = self._whole.needs(op, program, depthwise_machine(machine))
        return KernelNeeds((), needs.weight_block_bytes)

    def weight_blocks(self, op: Conv2d) -> list[bytes]:
        return self._whole.weight_blocks(op)
