"""`page.json`: what the page draws beyond the report: the graph before and after, histograms, the task's curves."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nnkit.graph import Model
from nnkit.graph.view import Node
from nnkit.program import Program
from nnkit.verify.float_vs_program import FloatVerdict
from nnkit.verify.tasks import TaskScore


def page_data(
    reference: Model, restructured: Model, program: Program, floats: FloatVerdict, task: TaskScore | None
) -> dict[str, Any]:
    """As JSON data; the same keys for every target.

    graph: `before` and `after`, each with `nodes` (name, op, shape, and `layer`: the index of the program's layer
    that does its work, null where none does) and `edges` (pairs of indices of nodes). histograms: by layer. task:
    what its picture needs.
    """
    return {
        "graph": {"before": _graph(reference, program), "after": _graph(restructured, program)},
        "histograms": {name: counts.as_json() for name, counts in floats.histograms.items()},
        "task": {} if task is None else dict(task.drawing),
    }


def write_page_data(path: Path, data: Mapping[str, Any]) -> None:
    """Without blanks: no one reads it."""
    path.write_text(json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")), encoding="utf-8")


def _graph(model: Model, program: Program) -> dict[str, Any]:
    proto = model.proto().graph
    nodes = [Node.of(node, index) for index, node in enumerate(proto.node) if node.op_type != "Constant"]
    shapes = {
        value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim][1:]
        for value in (*proto.value_info, *proto.output)
    }
    by_value = {op.output: index for index, op in enumerate(program.ops)}
    by_origin = {origin: index for index, op in enumerate(program.ops) for origin in (op.origins or (op.name,))}
    producer = {name: index for index, node in enumerate(nodes) for name in node.results}
    entries, edges = [], []
    for index, node in enumerate(nodes):
        layer = by_value.get(node.output, by_value.get(node.fuse_into or "", by_origin.get(node.name)))
        entries.append({"name": node.name, "op": node.op_type, "shape": shapes.get(node.output, []), "layer": layer})
        edges += [[producer[name], index] for name in node.inputs if name in producer]
    return {"nodes": entries, "edges": edges}
