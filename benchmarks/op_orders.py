"""Peaks of op orders on networks with branches: the order of the file, the best found, the bound of all orders.

    python -m benchmarks.op_orders [--json] MODEL.onnx...

Elements count one byte each; element-wise ops may write over an input that dies; constants are free.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

from benchmarks.table import Row, show
from nnkit.memory.op_order import OpGraph, OpNode, find_order

_BINARY = ("Add", "Sub", "Mul", "Div", "Max", "Min", "Sum")
_UNARY = ("Relu", "LeakyRelu", "PRelu", "Clip", "Sigmoid", "Tanh", "HardSwish", "HardSigmoid", "Exp", "Sqrt")
_SAME_BYTES = ("Identity", "Dropout", "Flatten", "Reshape", "Squeeze", "Unsqueeze")
_IN_PLACE = frozenset((*_BINARY, *_UNARY, *_SAME_BYTES, "BatchNormalization", "Softmax"))


def graph_of(path: Path) -> OpGraph:
    """The ops of an ONNX file whose shapes are static; what depends on no input is left out."""
    import onnx
    from onnx.shape_inference import infer_shapes

    graph = infer_shapes(onnx.load(path)).graph
    constants = {tensor.name for tensor in graph.initializer}
    shapes = {
        value.name: [d.dim_value or 1 for d in value.type.tensor_type.shape.dim]
        for value in [*graph.input, *graph.value_info, *graph.output]
    }
    inputs = tuple(value.name for value in graph.input if value.name not in constants)
    live, ops = set(inputs), []
    for index, node in enumerate(graph.node):
        reads = tuple(name for name in dict.fromkeys(node.input) if name in live)
        if not reads:
            continue
        writes = tuple(name for name in node.output if name)
        live.update(writes)
        overwrites = reads if node.op_type in _IN_PLACE else ()
        ops.append(OpNode(node.name or f"{node.op_type}_{index}", reads, writes, 0, overwrites))
    sizes = {name: math.prod(shapes.get(name, [1])) for name in live}
    return OpGraph(tuple(ops), sizes, inputs, tuple(value.name for value in graph.output if value.name in live))


def order_row(path: Path) -> Row:
    """One row."""
    graph = graph_of(path)
    began = time.perf_counter()
    order = find_order(graph)
    return {
        "network": path.stem,
        "ops": len(graph.ops),
        "given peak": order.given_peak_bytes,
        "found peak": order.peak_bytes,
        "bound": order.lower_bound_bytes,
        "certificate": "optimal" if order.proven_optimal else "gap",
        "method": order.method,
        "states": order.states,
        "seconds": round(time.perf_counter() - began, 3),
    }


def main() -> None:
    """Print one row a file."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.op_orders")
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows = [order_row(path) for path in arguments.models]
    show(rows, as_json=arguments.json, title="Peak of live values by op order, elements of one byte")


if __name__ == "__main__":
    main()
