"""The table of layers, held to the report and to the memory plan, which both say of the program what the table does.

The report names each layer with what it reads, writes and takes; the plan places exactly these tensors, in steps of
these layers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nnkit.package.contradiction import ContradictionError, hold_equal
from nnkit.package.evidence import LAYERS, PLAN, REPORT, Evidence

Layer: TypeAlias = Mapping[str, Any]
Row: TypeAlias = Mapping[str, str]
_MEASURED = (
    *("accumulator", "proof", "instructions", "cycles", "milliseconds"),
    *("sqnr_db", "isolated_sqnr_db", "clip_rate"),
)
_BEHIND = ("context", "stack", "code")
"""Kinds of buffers that lie behind the pool, whatever a step uses of it."""


def check_layers(evidence: Evidence) -> None:
    """Raises ContradictionError for the first cell of `layers.csv` that is not what report and plan say, for a layer
    of the report that the plan computes otherwise, and for a sum over the layers that is another."""
    report, file = evidence.report, evidence.file(LAYERS)
    layers: Sequence[Layer] = report["layers"]
    names = [layer["name"] for layer in layers]
    hold_equal(file, [_plain(row["layer"]) for row in evidence.layers], evidence.file(REPORT), names, at="layers")
    total = sum(layer["macs"] for layer in layers)
    hold_equal(evidence.file(REPORT), report["macs"], "the sum of its layers", total, at="macs")
    placed = _Placed(evidence.plan)
    _check_steps(evidence, placed)
    ports = {port["name"]: _bytes_of(port["shape"], port["format"]) for port in report["inputs"]}
    sizes = ports | {layer["output"]: _bytes_of(layer["shape"], layer["formats"]["output"]) for layer in layers}
    for index, (layer, row) in enumerate(zip(layers, evidence.layers, strict=True)):
        at = f"layer {layer['name']!r}: "
        of_report = _of_report(layer, index, sizes)
        of_plan = placed.cells(layer) | {"in_place": _in_place(layer, row, placed)}
        for column, value in (of_report | of_plan).items():
            other = evidence.file(PLAN if column in of_plan else REPORT)
            _hold_cell(file, row[column], other, value, at + column)
        odd = sorted(row.keys() - of_report.keys() - of_plan.keys() - {"layer"})
        if odd:
            raise ContradictionError(file, f"it has a column {odd[0]!r}, which tables of layers do not have")
        if placed.is_placed(layer):
            peak = placed.peak_bytes(layer)
            hold_equal(evidence.file(REPORT), layer["peak_bytes"], evidence.file(PLAN), peak, at=at + "peak_bytes")
    _check_sizes(evidence)


def check_joint_layers(evidence: Evidence) -> None:
    """Raises ContradictionError where the table of a deployment is not that of its networks, one after another."""
    rows = iter(evidence.layers)
    file = evidence.file(LAYERS)
    for name, network in evidence.networks.items():
        for own in network.layers:
            row = next(rows, None)
            planned = {key: cell for key, cell in own.items() if key not in _MEASURED} | dict.fromkeys(_MEASURED, "")
            hold_equal(file, row, network.file(LAYERS), {"network": name, **planned}, at=f"{name}/{own['layer']}")
    if next(rows, None) is not None:
        raise ContradictionError(file, "it has more layers than the networks")


class _Placed:
    """What a plan says of layers."""

    def __init__(self, plan: Mapping[str, Any]) -> None:
        self.buffers: Mapping[str, Mapping[str, Any]] = plan["buffers"]
        self.tensors: Mapping[str, Mapping[str, Any]] = plan["tensors"]
        self.steps: dict[str, list[Mapping[str, Any]]] = {}
        for step in plan["steps"]:
            self.steps.setdefault(step["op"], []).append(step)
        self._chunks: dict[str, list[Mapping[str, Any]]] = {}
        for chunk in plan["chunks"]:
            self._chunks.setdefault(chunk["op"], []).append(chunk)
        self._peaks = {region: _step_peaks(self.buffers, region, len(plan["steps"])) for region in plan["regions"]}

    def is_placed(self, layer: Layer) -> bool:
        """Whether the plan has the layer's output, and steps of it."""
        return layer["output"] in self.tensors and layer["name"] in self.steps

    def lives(self, tensor: str, step: int) -> bool:
        """Whether the tensor's buffer is its own in a step."""
        buffer = self.buffers[self.tensors[tensor]["buffer"]]
        return bool(buffer["first_step"] <= step <= buffer["last_step"])

    def address(self, tensor: str) -> str:
        """`region+offset` of a tensor."""
        place = self.tensors[tensor]
        buffer = self.buffers[place["buffer"]]
        return f"{buffer['region']}+{buffer['offset_bytes'] + place['offset_bytes']}"

    def holds_its_inputs(self, layer: Layer) -> bool:
        """Whether the inputs lie one after another in the output."""
        ends = self.address(layer["output"])
        for name in layer["inputs"]:
            if self.address(name) != ends:
                return False
            region, _, offset = ends.rpartition("+")
            ends = f"{region}+{int(offset) + self.tensors[name]['size_bytes']}"
        return True

    def peak_bytes(self, layer: Layer) -> int:
        """The most that the layer's steps take of the region where its output lies."""
        region = self.buffers[self.tensors[layer["output"]]["buffer"]]["region"]
        return max(int(self._peaks[region][step["index"]]) for step in self.steps[layer["name"]])

    def cells(self, layer: Layer) -> dict[str, Any]:
        """What `layers.csv` has of the plan; empty cells where nnkit does not place the layer."""
        columns = ("peak_bytes", "scratch_bytes", "weight_chunks", "chunk_bytes")
        addresses = ("input_addresses", "output_address", "weight_addresses")
        steps = self.steps.get(layer["name"], [])
        life = {"first_step": steps[0]["index"], "last_step": steps[-1]["index"]} if steps else {}
        if not self.is_placed(layer):
            return dict.fromkeys((*columns, *addresses), "") | life
        chunks = self._chunks.get(layer["name"], [])
        weights = [self.buffers[chunk["buffer"]] for chunk in chunks]
        scratch = [
            buffer["size_bytes"]
            for buffer in self.buffers.values()
            if buffer["kind"] == "scratch"
            and buffer["first_step"] <= life["first_step"]
            and life["last_step"] <= buffer["last_step"]
        ]
        return life | {
            "input_bytes": sum(self.tensors[name]["size_bytes"] for name in layer["inputs"]),
            "output_bytes": self.tensors[layer["output"]]["size_bytes"],
            "weight_bytes": sum(chunk["size_bytes"] for chunk in chunks),
            "peak_bytes": self.peak_bytes(layer),
            "scratch_bytes": sum(scratch),
            "weight_chunks": len(chunks),
            "chunk_bytes": max((chunk["size_bytes"] for chunk in chunks), default=0),
            "input_addresses": " ".join(self.address(name) for name in layer["inputs"]),
            "output_address": self.address(layer["output"]),
            "weight_addresses": " ".join(f"{each['region']}+{each['offset_bytes']}" for each in weights),
        }


def _in_place(layer: Layer, row: Row, placed: _Placed) -> str:
    """What the table may say of whether the layer moves nothing: `yes` where its inputs lie one after another in its
    output, or it changes a shape alone; many kernels write what lies there already, so that `no` is never wrong."""
    if not placed.is_placed(layer):
        return ""
    may = layer["op"] == "reshape" or (layer["op"] == "concat" and placed.holds_its_inputs(layer))
    return "yes" if may and row["in_place"] == "yes" else "no"


def _of_report(layer: Layer, index: int, sizes: Mapping[str, int]) -> dict[str, Any]:
    """sizes: bytes of tensors by name."""
    measured = {key: layer.get(key) for key in _MEASURED}
    return {
        "op": layer["op"],
        "placement": layer["placement"],
        "tags": " ".join(layer["tags"]),
        "shape": "x".join(str(side) for side in layer["shape"]),
        "format": layer["formats"]["output"],
        "macs": layer["macs"],
        "input_bytes": sum(sizes[name] for name in layer["inputs"]),
        "output_bytes": sizes[layer["output"]],
        "weight_bytes": layer["weight_bytes"],
        "first_step": index,
        "last_step": index,
        **{key: "" if value is None else value for key, value in measured.items()},
    }


def _check_steps(evidence: Evidence, placed: _Placed) -> None:
    """Whether the plan has steps of the report's layers alone, what a layer reads lives when it begins, and one of
    its steps writes its output, maybe by the name of another tensor in its place, of which it is a view."""
    layers = {layer["name"]: layer for layer in evidence.report["layers"]}
    file = evidence.file(PLAN)
    for name, steps in placed.steps.items():
        if name not in layers:
            raise ContradictionError(file, f"it has steps of {name!r}, which is no layer of {evidence.file(REPORT)}")
        layer = layers[name]
        if not placed.is_placed(layer):
            continue
        written = {placed.address(tensor) for step in steps for tensor in step["writes"] if tensor in placed.tensors}
        for tensor in layer["inputs"]:
            if not placed.lives(tensor, steps[0]["index"]):
                raise ContradictionError(file, f"{name!r} reads {tensor!r}, which does not live in its first step")
        if placed.address(layer["output"]) not in written:
            raise ContradictionError(file, f"no step of {name!r} writes {layer['output']!r}")
    ports = evidence.report["inputs"], evidence.report["outputs"]
    for name in (tensor["name"] for tensors in ports for tensor in tensors):
        if placed.tensors and name not in placed.tensors:
            raise ContradictionError(file, f"it does not place {name!r}, which {evidence.file(REPORT)} names")


def _check_sizes(evidence: Evidence) -> None:
    """Whether the tensors of the plan have the bytes of their shape and format."""
    report, tensors = evidence.report, evidence.plan["tensors"]
    shapes = [(layer["output"], layer["shape"], layer["formats"]["output"]) for layer in report["layers"]]
    shapes += [(port["name"], port["shape"], port["format"]) for port in (*report["inputs"], *report["outputs"])]
    for name, shape, form in shapes:
        if name not in tensors:
            continue
        at, size = f"the bytes of {name!r}", _bytes_of(shape, form)
        hold_equal(evidence.file(PLAN), tensors[name]["size_bytes"], evidence.file(REPORT), size, at=at)


def _bytes_of(shape: Sequence[int], form: str) -> int:
    """Bytes of a tensor. Raises ValueError for what is no format."""
    bits = re.match(r"[suf](\d+)", form)
    if bits is None:
        raise ValueError(f"{form!r} is no format")
    return math.prod(shape) * (int(bits[1]) // 8)


def _step_peaks(buffers: Mapping[str, Mapping[str, Any]], region: str, count: int) -> NDArray[np.int64]:
    """By step the end of its highest buffer, and what lies behind the pool: [steps] int64."""
    ends = np.zeros(max(count, 1), np.int64)
    pool = behind = 0
    for buffer in buffers.values():
        if buffer["region"] != region:
            continue
        end = buffer["offset_bytes"] + buffer["size_bytes"]
        if buffer["kind"] in _BEHIND:
            behind = max(behind, end)
            continue
        pool = max(pool, end)
        life = slice(buffer["first_step"], buffer["last_step"] + 1)
        ends[life] = np.maximum(ends[life], end)
    return ends + max(behind - pool, 0)


def _hold_cell(file: str, cell: str, other_file: str, value: Any, at: str) -> None:
    hold_equal(file, _plain(cell), other_file, str(value), at=at)


def _plain(cell: str) -> str:
    """The text of a cell; one that a spreadsheet would take for a formula has an apostrophe before it."""
    return cell[1:] if cell[:1] == "'" and cell[1:2] in ("=", "+", "-", "@", "\t", "\r") else cell
