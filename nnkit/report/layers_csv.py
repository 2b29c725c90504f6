"""`layers.csv`: what each layer takes in memory, and where."""

from __future__ import annotations

import csv
import io
from typing import Any

from nnkit.memory.plan import MemoryPlan
from nnkit.program import Concat, OpBase, Program, Reshape

COLUMNS = (
    "layer",
    "op",
    "first_step",
    "last_step",
    "input_bytes",
    "output_bytes",
    "weight_bytes",
    "weight_chunks",
    "chunk_bytes",
    "scratch_bytes",
    "input_addresses",
    "output_address",
    "weight_addresses",
    "in_place",
    "peak_bytes",
)


def layer_table(program: Program, plan: MemoryPlan) -> list[dict[str, Any]]:
    """One row per layer in order of execution, with the keys of `COLUMNS`.

    What nnkit does not place itself (the vendor's tool does) has empty entries there.

    chunk_bytes: the largest weight chunk. scratch_bytes: over all regions. Addresses: region and offset in bytes.
    in_place: nothing is computed or moved (a reshape, a concatenation whose parts were written in place).
    peak_bytes: the most that the layer's steps take of the region where its output lies.
    """
    rows = []
    for op in program.ops:
        steps = [step.index for step in plan.steps if step.op == op.name]
        chunks = [chunk for chunk in plan.chunks if chunk.op == op.name]
        sizes = {
            "layer": op.name,
            "op": op.kind,
            "input_bytes": sum(program.tensors[name].size_bytes for name in op.inputs),
            "output_bytes": program.tensors[op.output].size_bytes,
        }
        if op.output not in plan.places or not steps:
            rows.append({column: sizes.get(column, "") for column in COLUMNS})
            continue
        scratch = [
            buffer
            for buffer in plan.buffers.values()
            if buffer.kind == "scratch" and buffer.first_step <= steps[0] and steps[-1] <= buffer.last_step
        ]
        region = plan.buffers[plan.places[op.output].buffer].region
        rows.append(
            sizes
            | {
                "first_step": steps[0],
                "last_step": steps[-1],
                "weight_bytes": sum(chunk.size_bytes for chunk in chunks),
                "weight_chunks": len(chunks),
                "chunk_bytes": max((chunk.size_bytes for chunk in chunks), default=0),
                "scratch_bytes": sum(buffer.size_bytes for buffer in scratch),
                "input_addresses": " ".join(_address(plan, name) for name in op.inputs),
                "output_address": _address(plan, op.output),
                "weight_addresses": " ".join(_buffer_address(plan, chunk.buffer) for chunk in chunks),
                "in_place": "yes" if _moves_nothing(op, program, plan) else "no",
                "peak_bytes": max(plan.step_peak_bytes(region, step) for step in steps),
            }
        )
    return rows


def layer_table_csv(program: Program, plan: MemoryPlan) -> str:
    """`layer_table` as CSV with a heading line; lines end in a line feed."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(layer_table(program, plan))
    return text.getvalue()


def tensor_address(plan: MemoryPlan, tensor: str) -> tuple[str, int]:
    """(region, offset in bytes from the region's base) of a tensor."""
    place = plan.places[tensor]
    buffer = plan.buffers[place.buffer]
    return buffer.region, buffer.offset_bytes + place.offset_bytes


def _address(plan: MemoryPlan, tensor: str) -> str:
    region, offset = tensor_address(plan, tensor)
    return f"{region}+{offset}"


def _buffer_address(plan: MemoryPlan, name: str) -> str:
    buffer = plan.buffers[name]
    return f"{buffer.region}+{buffer.offset_bytes}"


def _moves_nothing(op: OpBase, program: Program, plan: MemoryPlan) -> bool:
    if isinstance(op, Reshape):
        return True
    if not isinstance(op, Concat):
        return False
    region, offset = tensor_address(plan, op.output)
    for name in op.inputs:
        if tensor_address(plan, name) != (region, offset):
            return False
        offset += program.tensors[name].size_bytes
    return True
