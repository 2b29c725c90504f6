"""A build for the cluster: which kernels its layers have, and the tiles of every step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from nnkit.c.fixed.catalogue import OperatorOf, operator_c
from nnkit.c.fixed.conv2d_packed import PackedConv2dC
from nnkit.c.fixed.conv_transpose2d_packed import PackedConvTranspose2dC
from nnkit.c.fixed.layer import Call
from nnkit.c.fixed.machine import CoreMachine
from nnkit.c.fixed.operator import Function, OperatorC
from nnkit.errors import InternalError
from nnkit.memory.needs import KernelNeeds
from nnkit.memory.plan import MemoryPlan, Step
from nnkit.memory.same_weights import first_with_same_weights
from nnkit.program import Conv2d, ConvTranspose2d, OpBase, Program
from nnkit_gap8.cluster import costs
from nnkit_gap8.cluster.tile_plan import TiledOp, TilePlan, Tiling, check_tile_plan, least_l1_bytes
from nnkit_gap8.cluster.tile_search import Part, best_tilings
from nnkit_gap8.cluster.tiled_ops import TileCosts, depthwise_machine, describe, packed_of

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
                least = least_l1_bytes(answer[0])
                if least > self.budget_bytes:
                    answer = f"its smallest tile takes {least:,} bytes of L1"
            described[op.name] = answer
        return described

    def operators(self, plan: MemoryPlan) -> OperatorOf:
        """The C of every op: where weights lie decides the tiles, and these the order of packed weights."""
        slices = self.tile_plan(plan).slice_groups
        return lambda op: self.operator(op, slices.get(op.name, 0))

    def operator(self, op: OpBase, slice_groups: int = 0) -> OperatorC[Any]:
        """The C of an op, with such slices of its input channels (see `Tiling`)."""
        if isinstance(self.described[op.name], str):
            return operator_c(op)
        if isinstance(op, ConvTranspose2d):
            return PackedConvTranspose2dC(self.program)
        if packed_of(op, self.program) is not None:
            return PackedConv2dC(self.program, slice_groups)
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
        pieces = {step.index: (step.op, self._channels(step, plan)) for step in plan.steps if self._in_tiles(step.op)}
        tilings: dict[tuple[str, int], Tiling] = {}
        for group in self._stored_alike({name for name, _ in pieces.values()}):
            counts = Counter(piece for piece in pieces.values() if piece[0] in group)
            parts = []
            for (name, channels), count in counts.items():
                described = self.described[name]
                if not isinstance(described, str):
                    parts.append(Part(*described, channels, count))
            best = best_tilings(parts, self.budget_bytes)
            if best is None:
                raise InternalError("no cut fits L1", where=parts[0].op.name)
            tilings |= dict(zip(counts, best, strict=True))
        steps = {index: tilings[piece] for index, piece in pieces.items()}
        tiles = TilePlan(
            budget_bytes=self.budget_bytes,
            cores=self.machine.cores,
            steps=steps,
            untiled={name: answer for name, answer in self.described.items() if isinstance(answer, str)},
            l3_cycles=costs.fetch_cycles(plan),
        )
        check_tile_plan(tiles)
        return tiles

    def _in_tiles(self, name: str) -> bool:
        return not isinstance(self.described[name], str)

    def _channels(self, step: Step, plan: MemoryPlan) -> int:
        """Output channels of a step in tiles: of its weight chunk, or all."""
        described = self.described[step.op]
        channels = 0 if isinstance(described, str) else described[0].channels
        if step.chunk is None:
            return channels
        chunk = plan.chunks[step.chunk]
        return min(channels - 4 * chunk.first_block, 4 * chunk.blocks)

    def _stored_alike(self, names: Collection[str]) -> list[set[str]]:
        """The layers in groups whose weights are stored once."""
        groups: dict[int, set[str]] = {}
        for op, source in zip(self.program.ops, first_with_same_weights(self.program), strict=True):
            if op.name in names:
                groups.setdefault(source, set()).add(op.name)
        return list(groups.values())


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
