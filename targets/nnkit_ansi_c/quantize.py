"""From the lowered network to a float32 program: a layer for each output of each node, with its activation."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from nnkit.c.float.fusing import fused_activations
from nnkit.graph.subgraph import subgraph
from nnkit.graph.view import GraphView, Node
from nnkit.program import Float, Program, Tensor
from nnkit_ansi_c.bounds import bound
from nnkit_ansi_c.ops import FloatLayer
from nnkit_ansi_c.stripe_values import origin

if TYPE_CHECKING:
    from nnkit.calibrate.stats import CalibrationStats


def float_program(graph: GraphView, statistics: CalibrationStats, name: str) -> Program:
    """The program of a network that there is C for. statistics: for the bounds of comparisons alone."""
    magnitudes = {value: seen.max_abs for value, seen in statistics.ranges.items()}
    magnitudes |= {
        name: magnitudes[origin(name)] for node in graph.nodes for name in node.results if origin(name) in magnitudes
    }
    tensors = {spec.name: _tensor(spec.name, spec.shape) for spec in graph.model.inputs}
    ops: list[FloatLayer] = []
    fused = fused_activations(graph)
    taken = {activation.output for activation in fused.values()}
    for node in graph.nodes:
        if node.output in taken:
            continue
        last = fused.get(node.output, node)
        inputs = graph.data_inputs(node)
        parts = [node] if last is node else [node, last]
        part = subgraph(graph, parts, tuple(dict.fromkeys(inputs)), last.results)
        for position, value in enumerate(last.results):
            ops.append(
                FloatLayer(
                    name=node.name if position == 0 else f"{node.name}:{position}",
                    inputs=inputs,
                    output=value,
                    placement="cpu",
                    accumulator="float32",
                    op_type=node.op_type,
                    graph=part.onnx_bytes,
                    shapes=tuple(graph.shape(each) for each in inputs),
                    output_shape=graph.shape(value),
                    multiplications=_multiplications(graph, node),
                    bound=bound(graph, node, magnitudes),
                )
            )
            tensors[value] = _tensor(value, graph.shape(value))
    return Program(name, tensors, tuple(ops), graph.inputs, graph.outputs, "nnkit_ansi_c.ops")


def _tensor(name: str, shape: tuple[int, ...]) -> Tensor:
    return Tensor(name, shape[1:] if shape[:1] == (1,) else shape, Float(32))


def _multiplications(graph: GraphView, node: Node) -> int:
    if node.is_op("Conv"):
        return prod(graph.shape(node.output)) * prod(graph.shape(node.inputs[1])[1:])
    if node.is_op("ConvTranspose"):
        return prod(graph.shape(node.inputs[0])) * prod(graph.shape(node.inputs[1])[1:])
    if node.is_op("Gemm", "MatMul"):
        transposed = node.is_op("Gemm") and node.integer("transA", 0)
        return prod(graph.shape(node.output)) * graph.shape(node.inputs[0])[0 if transposed else -1]
    return 0
