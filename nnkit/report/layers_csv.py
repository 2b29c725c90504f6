"""`layers.csv`: what each layer is, what it takes in memory and where, and what was measured of it."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from nnkit.memory.plan import MemoryPlan, WeightChunk
from nnkit.program import Concat, OpBase, Program, Reshape, macs
from nnkit.report.csv_cell import plain_cell

PLANNED = (
    "layer",
    "op",
    "placement",
    "tags",
    "shape",
    "format",
    "macs",
    "input_bytes",
    "output_bytes",
    "weight_bytes",
    "first_step",
    "last_step",
    "peak_bytes",
    "scratch_bytes",
    "weight_chunks",
    "chunk_bytes",
    "in_place",
    "input_addresses",
    "output_address",
    "weight_addresses",
)
"""What is known before anything has run: the keys of `layer_table`."""

MEASURED = (
    *("accumulator", "proof", "instructions", "cycles", "milliseconds"),
    *("sqnr_db", "isolated_sqnr_db", "clip_rate"),
)
"""What a run adds, as a report's layers have it; cycles and milliseconds are estimates, at the clock that `speed` of
the report states."""

COLUMNS = PLANNED + MEASURED
"""The columns of `layers.csv`, the same for every target."""


def layer_table(program: Program, plan: MemoryPlan) -> list[dict[str, Any]]:
    """One row per layer in order of execution, with the keys of `PLANNED`, whatever the target.

    What nnkit does not place itself (the vendor's tool does) has no addresses: these cells are empty, and a step is
    the place in the order of execution.

    shape: of the output, without the batch axis. weight_bytes: as stored, with all packing where there is a plan.
    chunk_bytes: the largest weight chunk. scratch_bytes: over all regions. Addresses: region and offset in bytes.
    in_place: nothing is computed or moved (a reshape, a concatenation whose parts were written in place).
    peak_bytes: the most that the layer's steps take of the region where its output lies.
    """
    steps, chunks = defaultdict[str, list[int]](list), defaultdict[str, list[WeightChunk]](list)
    for step in plan.steps:
        steps[step.op].append(step.index)
    for chunk in plan.chunks:
        chunks[chunk.op].append(chunk)
    return [
        _planned(op, index, program, plan, steps[op.name], chunks[op.name]) for index, op in enumerate(program.ops)
    ]


def _planned(
    op: OpBase, index: int, program: Program, plan: MemoryPlan, steps: Sequence[int], chunks: Sequence[WeightChunk]
) -> dict[str, Any]:
    output = program.tensors[op.output]
    placed = op.output in plan.places and bool(steps)
    row: dict[str, Any] = dict.fromkeys(PLANNED, "") | {
        "layer": op.name,
        "op": op.kind,
        "placement": op.placement,
        "tags": " ".join(op.tags),
        "shape": "x".join(str(side) for side in output.shape),
        "format": str(output.format),
        "macs": macs(op, program),
        "input_bytes": sum(program.tensors[name].size_bytes for name in op.inputs),
        "output_bytes": output.size_bytes,
        "weight_bytes": sum(chunk.size_bytes for chunk in chunks) if placed else op.weight_bytes(),
        "first_step": steps[0] if steps else index,
        "last_step": steps[-1] if steps else index,
    }
    if not placed:
        return row
    scratch = [
        buffer
        for buffer in plan.buffers.values()
        if buffer.kind == "scratch" and buffer.first_step <= steps[0] and steps[-1] <= buffer.last_step
    ]
    region = plan.buffers[plan.places[op.output].buffer].region
    return row | {
        "peak_bytes": max(plan.step_peak_bytes(region, step) for step in steps),
        "scratch_bytes": sum(buffer.size_bytes for buffer in scratch),
        "weight_chunks": len(chunks),
        "chunk_bytes": max((chunk.size_bytes for chunk in chunks), default=0),
        "in_place": "yes" if _moves_nothing(op, program, plan) else "no",
        "input_addresses": " ".join(_address(plan, name) for name in op.inputs),
        "output_address": _address(plan, op.output),
        "weight_addresses": " ".join(_buffer_address(plan, chunk.buffer) for chunk in chunks),
    }


def layer_table_csv(program: Program, plan: MemoryPlan, measured: Sequence[Mapping[str, Any]] = ()) -> str:
    """`layer_table` with what the run has measured, as CSV with a heading line; lines end in a line feed.

    measured: the layers of the report; without them these cells are empty.
    """
    by_name = {layer["name"]: layer for layer in measured}
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    for row in layer_table(program, plan):
        layer = by_name.get(row["layer"], {})
        cells = row | {key: layer[key] for key in MEASURED if layer.get(key) is not None}
        writer.writerow({key: plain_cell(cell) for key, cell in cells.items()})
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
