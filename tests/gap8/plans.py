"""A plan without any reuse: what the tests of kernels run under."""

from __future__ import annotations

from nnkit.c.fixed.catalogue import operator_c
from nnkit.c.fixed.machine import CoreMachine
from nnkit.c.fixed.weight_blocks import align4
from nnkit.memory.plan import Buffer, MemoryPlan, RegionUse, Step, TensorPlace, WeightChunk
from nnkit.program import Program
from nnkit_gap8.emit import CONTEXT_BYTES, STACK_BYTES

L1_BYTES = 64 << 10


def naive_plan(
    program: Program,
    cores: int = 1,
    blocks_per_chunk: int | None = None,
    l2_capacity: int = 512 << 10,
    l1_bytes: int = L1_BYTES,
) -> MemoryPlan:
    """Every tensor and chunk has bytes of its own; scratch of every op starts at L1's base.

    blocks_per_chunk: None streams each layer's weights as one chunk.
    """
    buffers: dict[str, Buffer] = {}
    places: dict[str, TensorPlace] = {}
    steps: list[Step] = []
    chunks: list[WeightChunk] = []
    offset = l3_offset = l1_peak = 0
    machine = CoreMachine(cores, l1_bytes)
    needs = {op.name: operator_c(op).needs(op, program, machine) for op in program.ops}
    total = sum(_chunk_count(len(need.weight_block_bytes), blocks_per_chunk) for need in needs.values())
    for tensor in program.tensors.values():
        buffers[tensor.name] = Buffer(tensor.name, "activation", "l2", offset, tensor.size_bytes, 0, total)
        places[tensor.name] = TensorPlace(tensor.name, tensor.name, 0, tensor.size_bytes)
        offset = align4(offset + tensor.size_bytes)
    for op in program.ops:
        need = needs[op.name]
        first_step = len(steps)
        blocks = need.weight_block_bytes
        size = blocks_per_chunk or max(len(blocks), 1)
        for first in range(0, max(len(blocks), 1), size):
            part = blocks[first : first + size]
            index = None
            if part:
                name = f"{op.name}:weights:{first}"
                buffers[name] = Buffer(name, "weights", "l2", offset, sum(part), len(steps), len(steps))
                index = len(chunks)
                fetch = max(len(steps) - 1, 0)
                chunks.append(WeightChunk(op.name, first, len(part), l3_offset, sum(part), name, fetch, len(steps)))
                offset += sum(part)
                l3_offset += sum(part)
            steps.append(Step(len(steps), op.name, index, op.inputs, (op.output,)))
        for region, size_bytes in need.scratch_bytes:
            name = f"{op.name}:scratch"
            buffers[name] = Buffer(name, "scratch", region, 0, size_bytes, first_step, len(steps) - 1)
            l1_peak = max(l1_peak, size_bytes)
    for kind, size_bytes in (("context", CONTEXT_BYTES), ("stack", STACK_BYTES)):
        buffers[kind] = Buffer(kind, kind, "l2", offset, size_bytes, 0, len(steps))  # type: ignore[arg-type]
        offset += size_bytes
    regions = {
        "l1": RegionUse(l1_bytes, l1_peak, l1_peak, True),
        "l2": RegionUse(l2_capacity, offset, offset, False),
        "l3": RegionUse(8 << 20, l3_offset, l3_offset, True),
    }
    return MemoryPlan("naive", regions, buffers, places, tuple(steps), tuple(chunks), l3_offset)


def _chunk_count(blocks: int, per_chunk: int | None) -> int:
    return 1 if not blocks or per_chunk is None else -(-blocks // per_chunk)
