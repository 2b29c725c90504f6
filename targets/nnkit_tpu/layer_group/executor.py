"""The local-memory executor: runs a sliced, scheduled, placed group on one byte array and compares nothing by trust.

Every global step is executed as unkindly as hardware may: the bytes that a load will fill are unusable from the
step's beginning, an output's bytes from the moment its op has read its inputs, and nothing written in a step can
be read in it. Every read checks, byte by byte, that the bytes were last written by the very tensor and slice that
the reader means. An address, lifetime, halo or timestep that is wrong therefore shows as a violation with its
step, and as wrong values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit_tpu.layer_group.chips import Chip
from nnkit_tpu.layer_group.data_flow import Arithmetic, DataFlow, Values
from nnkit_tpu.layer_group.kernels import MissingRowsError, Rows, stored_dtype
from nnkit_tpu.layer_group.local_memory import LocalMemory
from nnkit_tpu.layer_group.model import GroupGraph, GroupOp
from nnkit_tpu.layer_group.plan import GroupPlan
from nnkit_tpu.layer_group.slices import Part
from nnkit_tpu.layer_group.timesteps import Transfer

_MOST_VIOLATIONS = 20


@dataclass(frozen=True)
class Violation:
    """step: global step. where: the op or tensor. reason: what is wrong there."""

    step: int
    where: str
    reason: str


@dataclass(frozen=True, eq=False)
class Execution:
    """What a run of all groups gave. values, mismatches: values of all stored tensors, and how many are not those of
    the unsliced reference. violations: the first ones."""

    values: int
    mismatches: int
    violations: tuple[Violation, ...]
    steps: int
    load_bytes: int
    store_bytes: int

    @property
    def proven(self) -> bool:
        """Whether nothing at all was wrong."""
        return not self.mismatches and not self.violations


def reference(
    graph: GroupGraph,
    inputs: Mapping[str, NDArray[Any]],
    weights: Values,
    arithmetic: Arithmetic | None = None,
) -> Values:
    """All tensors of the graph, every op computed whole."""
    values = dict(inputs)
    for op in graph.ops:
        values[op.output] = (arithmetic or DataFlow()).whole(graph, op, values, weights)
    return values


def execute(
    chip: Chip,
    graph: GroupGraph,
    parts: Sequence[GroupPlan | GroupOp],
    seed: int = 1,
    arithmetic: Arithmetic | None = None,
) -> Execution:
    """Run `parts` (groups, and ops that work in global memory) in order and compare with the unsliced reference.

    arithmetic: what the ops compute; by default that of the data flow alone (`data_flow.py`).
    """
    how = arithmetic or DataFlow()
    inputs, weights = how.values(graph, seed)
    expected = reference(graph, inputs, weights, how)
    world = dict(inputs)
    violations: list[Violation] = []
    totals = [0, 0, 0]
    for part in parts:
        if isinstance(part, GroupOp):
            world[part.output] = how.whole(graph, part, world, weights)
            continue
        run = _GroupRun(chip, graph, part, world, weights, how)
        run.run()
        violations += run.violations
        totals = [
            total + new for total, new in zip(totals, (run.steps, run.load_bytes, run.store_bytes), strict=True)
        ]
    stored = [name for name in world if name not in inputs]
    mismatches = sum(int(np.count_nonzero(world[name] != expected[name])) for name in stored)
    absent = [name for name in graph.outputs if name not in world]
    violations += [Violation(0, name, "the plan never computes this output") for name in absent]
    return Execution(
        sum(world[name].size for name in stored), mismatches, tuple(violations[:_MOST_VIOLATIONS]), *totals
    )


class _GroupRun:
    """One group in one local memory. `world` is global memory: read by loads, written by stores."""

    def __init__(
        self,
        chip: Chip,
        graph: GroupGraph,
        plan: GroupPlan,
        world: dict[str, NDArray[Any]],
        weights: Mapping[str, NDArray[Any]],
        arithmetic: Arithmetic,
    ) -> None:
        self.arithmetic = arithmetic
        self.graph, self.plan, self.world, self.weights = graph, plan, world, weights
        self.memory = LocalMemory(chip)
        self.violations: list[Violation] = []
        self.load_bytes = self.store_bytes = self.steps = 0
        self.step = 0
        self.numbers: dict[tuple[str, int], int] = {}
        self.stored: dict[str, NDArray[np.bool_]] = {}

    def run(self) -> None:
        """All global steps, from the first transfer before the loop to the last one after it."""
        schedule = self.plan.schedule
        passes, period = schedule.passes, schedule.period
        actions: dict[int, tuple[list[tuple[Transfer, int]], list[tuple[int, int]]]] = {}
        for index in range(passes):
            for number in range(len(self.plan.ops)):
                actions.setdefault(index * period + number, ([], []))[1].append((number, index))
            for transfer in schedule.transfers:
                if transfer.resident and index:
                    continue
                actions.setdefault(index * period + transfer.step, ([], []))[0].append((transfer, index))
        for self.step in sorted(actions):
            self._run_step(*actions[self.step])
        self.steps = len(actions)
        for name in self.graph.group_outputs(self.plan.ops):
            if name not in self.stored or not self.stored[name].all():
                self._violate(name, "parts of this output are never stored")
                self.world.setdefault(name, self._blank(name))

    def _run_step(self, transfers: list[tuple[Transfer, int]], computes: list[tuple[int, int]]) -> None:
        loads = [(t, index) for t, index in transfers if t.kind == "load"]
        for transfer, index in loads:
            self._poison(transfer.tensor, self._extent(transfer.tensor, index))
        results = []
        for number, index in computes:
            op = self.plan.ops[number]
            results.append((op, index, self._compute(op, index)))
            self._poison(op.output, self._extent(op.output, index))
            self._poison(f"{op.name}:buffer", self.plan.placement.sizes.get(f"{op.name}:buffer", 0))
        for transfer, index in transfers:
            if transfer.kind == "store":
                self._store(transfer.tensor, index)
        for op, index, values in results:
            self._write(op.output, index, values)
        for transfer, index in loads:
            self._load(transfer.tensor, index)

    def _compute(self, op: GroupOp, index: int) -> NDArray[Any]:
        self._check_overlap(op, index)
        result = self.graph.tensors[op.output]
        part = self.plan.slices.parts[op.output][index]
        dtype = stored_dtype(result.dtype_bytes)
        sources = []
        for name in op.inputs:
            held = self.plan.slices.parts[name][index]
            sources.append(Rows(self._read(name, index, op.name), held.rows.start, self.graph.tensors[name].shape[2]))
        blobs = [self._read(name, index, op.name) for name in op.weights]
        shape = (part.images.length, result.shape[1], part.rows.length, result.shape[3])
        try:
            values = self.arithmetic.compute(self.graph, op, sources, blobs, part.rows)
        except MissingRowsError as error:
            self._violate(op.name, f"slice {index}: {error}")
            return np.zeros(shape, dtype)
        if values.shape != shape:
            self._violate(op.name, f"slice {index}: {values.shape} computed, {shape} planned")
            return np.zeros(shape, dtype)
        return values

    def _check_overlap(self, op: GroupOp, index: int) -> None:
        """An op must not write where it still reads, unless it is elementwise and writes the same bytes."""
        addresses, sizes = self.plan.placement.addresses, self.plan.placement.sizes
        buffer = f"{op.name}:buffer"
        writes = [(op.output, addresses[op.output], self._extent(op.output, index))]
        if buffer in addresses:
            writes.append((buffer, addresses[buffer], sizes[buffer]))
        reads = [(name, addresses[name], self._extent(name, index)) for name in (*op.inputs, *op.weights)]
        for name, start, size in writes:
            others = [*reads, *(w for w in writes if w[0] != name)]
            for other, there, extent in others:
                in_place = op.in_place and name == op.output and other == op.inputs[0] and start == there
                if start < there + extent and there < start + size and not in_place:
                    self._violate(op.name, f"{name!r} is written over {other!r} while the op works")

    def _part(self, name: str, index: int) -> Part:
        return self.plan.slices.parts[name][index]

    def _shape(self, name: str, index: int) -> tuple[tuple[int, int, int, int], np.dtype[Any], bool]:
        """(shape, stored type, whether aligned) of a tensor's slice or of weights."""
        if name in self.graph.weights:
            weight = self.graph.weights[name]
            images, channels, height, width = weight.shape
            return (images, channels, height, width * weight.dtype_bytes), np.dtype(np.int8), weight.eu_aligned
        tensor, part = self.graph.tensors[name], self._part(name, index)
        shape = (part.images.length, tensor.shape[1], part.rows.length, tensor.shape[3])
        return shape, stored_dtype(tensor.dtype_bytes), True

    def _extent(self, name: str, index: int) -> int:
        shape, dtype, aligned = self._shape(name, index)
        return self.memory.extent(shape, dtype.itemsize, aligned)

    def _number(self, name: str, index: int) -> int:
        """The owner's number of a tensor's slice; weights that stay have one for all slices."""
        resident = any(t.resident for t in self.plan.schedule.transfers if t.tensor == name)
        return self.numbers.setdefault((name, 0 if resident else index), len(self.numbers) + 1)

    def _violate(self, where: str, reason: str) -> None:
        self.violations.append(Violation(self.step, where, reason))

    def _poison(self, name: str, size_bytes: int) -> None:
        if size_bytes:
            try:
                self.memory.poison(self.plan.placement.addresses[name], size_bytes)
            except IndexError as error:
                self._violate(name, str(error))

    def _read(self, name: str, index: int, reader: str) -> NDArray[Any]:
        shape, dtype, aligned = self._shape(name, index)
        address = self.plan.placement.addresses[name]
        try:
            values, foreign = self.memory.read(address, shape, dtype, aligned, self._number(name, index))
        except IndexError as error:
            self._violate(name, str(error))
            return np.zeros(shape, dtype)
        if foreign:
            self._violate(reader, f"slice {index}: {foreign} bytes of {name!r} are not there")
        return values

    def _write(self, name: str, index: int, values: NDArray[Any]) -> None:
        aligned = self._shape(name, index)[2]
        address = self.plan.placement.addresses[name]
        try:
            self.memory.write(address, values, aligned, self._number(name, index))
        except IndexError as error:
            self._violate(name, str(error))

    def _load(self, name: str, index: int) -> None:
        if name in self.weights:
            values = self.weights[name]
        else:
            part = self._part(name, index)
            if name not in self.world:
                self._violate(name, "loaded before anything stored it")
                self.world[name] = self._blank(name)
            values = self.world[name][part.images.start : part.images.stop, :, part.rows.start : part.rows.stop]
        self.load_bytes += values.nbytes
        self._write(name, index, values)

    def _store(self, name: str, index: int) -> None:
        values = self._read(name, index, f"store of {name}")
        held, share = self._part(name, index), self.plan.slices.shares[name][index]
        images = slice(share.images.start - held.images.start, share.images.stop - held.images.start)
        rows = slice(share.rows.start - held.rows.start, share.rows.stop - held.rows.start)
        stored = values[images, :, rows]
        self.store_bytes += stored.nbytes
        target = self.world.setdefault(name, self._blank(name))
        done = self.stored.setdefault(name, np.zeros((target.shape[0], target.shape[2]), np.bool_))
        target[share.images.start : share.images.stop, :, share.rows.start : share.rows.stop] = stored
        done[share.images.start : share.images.stop, share.rows.start : share.rows.stop] = True

    def _blank(self, name: str) -> NDArray[Any]:
        tensor = self.graph.tensors[name]
        return np.zeros(tensor.shape, stored_dtype(tensor.dtype_bytes))
