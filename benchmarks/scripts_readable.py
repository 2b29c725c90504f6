"""The same network in a file that the vendor's converter reads, where it does not read the exporter's.

It loses constants that the exporter stores once and hands on by Identity nodes (`operand ... not found`), takes the
axes of reductions as attributes alone, as operator sets before 18 have them, and knows Gelu as the nodes that it is
made of. All are written as it wants them; the other nodes and all weights stay.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

from benchmarks.zoo.exported import Exported

_OPERATOR_SET = 17


def readable_by_the_scripts(exported: Exported, folder: Path) -> Exported | None:
    """The network anew, beside links to its inputs; None where that is no valid file, or computes something else."""
    model = onnx.load(exported.path)
    _unshare(model.graph)
    _as_before_operator_set_18(model.graph)
    del model.opset_import[:]
    model.opset_import.append(helper.make_opsetid("", _OPERATOR_SET))
    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
        return None
    made = replace(exported, path=folder / exported.path.name)
    onnx.save(model, made.path)
    for values in exported.path.parent.glob("*.npy"):
        (folder / values.name).symlink_to(values.resolve())
    return made if _computes_the_same(exported, made) else None


def _unshare(graph: onnx.GraphProto) -> None:
    """Every Identity of a constant becomes a constant of its own."""
    constants = {each.name: each for each in graph.initializer}
    for node in list(graph.node):
        if node.op_type == "Identity" and node.input[0] in constants:
            copied = numpy_helper.from_array(numpy_helper.to_array(constants[node.input[0]]), node.output[0])
            constants[copied.name] = copied
            graph.initializer.append(copied)
            graph.node.remove(node)


def _as_before_operator_set_18(graph: onnx.GraphProto) -> None:
    """Axes of reductions as attributes, and every Gelu as its nodes."""
    constants = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant":
            constants[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
    nodes = []
    for node in graph.node:
        if node.op_type.startswith("Reduce") and node.op_type != "ReduceSum" and len(node.input) == 2:
            node.attribute.append(helper.make_attribute("axes", constants[node.input[1]].ravel().tolist()))
            del node.input[1]
        if node.op_type == "Split":
            kept = [each for each in node.attribute if each.name != "num_outputs"]
            del node.attribute[:]
            node.attribute.extend(kept)
        nodes.extend(_gelu(graph, node) if node.op_type == "Gelu" else [node])
    del graph.node[:]
    graph.node.extend(nodes)


def _gelu(graph: onnx.GraphProto, node: onnx.NodeProto) -> list[onnx.NodeProto]:
    """x (1 + erf(x / sqrt(2))) / 2."""
    x, y = node.input[0], node.output[0]
    names = {key: f"{y}/{key}" for key in ("root", "one", "half", "scaled", "erf", "more", "times")}
    for key, value in (("root", math.sqrt(2.0)), ("one", 1.0), ("half", 0.5)):
        graph.initializer.append(numpy_helper.from_array(np.array(value, np.float32), names[key]))
    return [
        helper.make_node("Div", [x, names["root"]], [names["scaled"]], names["scaled"]),
        helper.make_node("Erf", [names["scaled"]], [names["erf"]], names["erf"]),
        helper.make_node("Add", [names["erf"], names["one"]], [names["more"]], names["more"]),
        helper.make_node("Mul", [x, names["more"]], [names["times"]], names["times"]),
        helper.make_node("Mul", [names["times"], names["half"]], [y], y),
    ]


def _computes_the_same(one: Exported, other: Exported) -> bool:
    feeds = {name: np.load(one.path.parent / f"{name}_0.npy") for name in one.inputs}
    runs = [
        onnxruntime.InferenceSession(str(each.path), providers=["CPUExecutionProvider"]).run(None, feeds)
        for each in (one, other)
    ]
    return all(np.allclose(*pair, rtol=1e-4, atol=1e-5) for pair in zip(*runs, strict=True))
