"""Peaks of one memory with and without overlaps: views, results in place, outputs that grow into their inputs.

    python -m benchmarks.overlaps [--json] MODEL.onnx...

Elements count one byte each and lie as [H, W, C]; one core computes pixel after pixel (several cores have another
order, and another proof). "apart": no two values that live share a byte. "in place": views, and element-wise ops that
write over an input that dies. "diagonal": convolutions and pools grow into their inputs as well.
"""

from __future__ import annotations

import argparse
import time
from math import prod
from pathlib import Path

from benchmarks.table import Row, show
from nnkit.graph import Model
from nnkit.graph.read.reshape import RESHAPE_OPS
from nnkit.graph.read.window import SlidingWindow, read_window
from nnkit.graph.refusal import Refused
from nnkit.graph.view import GraphView, Node
from nnkit.importers import import_onnx
from nnkit.memory import diagonal
from nnkit.memory.placement_checker import check_placement
from nnkit.memory.placing import place
from nnkit.memory.plan import Region
from nnkit.memory.problem import UNBOUNDED_BYTES, Alias, Diagonal, Problem, Request

_VIEWS = (*RESHAPE_OPS, "Identity", "Dropout")
_UNARY = ("Relu", "LeakyRelu", "PRelu", "Clip", "Sigmoid", "Tanh", "HardSwish", "HardSigmoid", "BatchNormalization")
_ELEMENTWISE = (*_UNARY, "Add", "Sub", "Mul", "Div", "Max", "Min", "Sum")
_IN_PLACE = (*_VIEWS, *_ELEMENTWISE)
_WINDOWS = ("Conv", "MaxPool", "AveragePool")


def problem_of(model: Model, overlapping: tuple[str, ...]) -> Problem:
    """All values of a network that are computed, live from the op that writes them to the last that reads them.

    overlapping: ops whose output may share bytes with an input.
    """
    graph = GraphView.of(model)
    last = len(graph.nodes) - 1
    born = dict.fromkeys(graph.inputs, 0)
    born |= {name: step for step, node in enumerate(graph.nodes) for name in node.results}
    dies = born | {name: step for step, node in enumerate(graph.nodes) for name in graph.data_inputs(node)}
    dies |= dict.fromkeys(graph.outputs, last)
    sizes = {name: prod(graph.shape(name)) for name in born}
    requests = tuple(Request(name, sizes[name], born[name], dies[name]) for name in born)
    aliases, diagonals = [], []
    for step, node in enumerate(graph.nodes):
        for name in graph.data_inputs(node) if node.is_op(*overlapping) else ():
            if node.is_op(*_VIEWS):
                aliases.append(Alias(node.output, name))
            elif dies[name] == step and sizes[name] and (distance := _distance(graph, node, name)):
                diagonals.append(Diagonal(name, node.output, distance))
    return Problem((Region("memory", UNBOUNDED_BYTES, 1),), requests, tuple(aliases), tuple(diagonals))


def _distance(graph: GraphView, node: Node, name: str) -> int | None:
    """How far above its output an input must start; None where nothing is known of the op."""
    before, after = graph.shape(name), graph.shape(node.output)
    if node.is_op(*_ELEMENTWISE) and before == after:
        return diagonal.safe_distance_bytes(diagonal.elementwise(prod(before), 1, 1))
    if node.is_op(*_WINDOWS) and name == node.inputs[0]:
        try:
            window = _window(read_window(graph, node))
        except Refused:
            return None
        return diagonal.safe_distance_bytes(diagonal.channels_last(window, before[1], after[1], 1, 1))
    return None


def _window(window: SlidingWindow) -> diagonal.Window:
    top, left, _, _ = window.pads
    sizes = (*window.input_hw, *window.output_hw)
    return diagonal.Window(*sizes, window.kernel, window.strides, (top, left), window.dilations)


def overlap_row(path: Path) -> Row:
    """One row."""
    model = import_onnx(path).model
    columns: dict[str, str | int | float] = {"network": path.stem}
    for name, ops in (("apart", ()), ("in place", _IN_PLACE), ("diagonal", (*_IN_PLACE, *_WINDOWS))):
        problem = problem_of(model, ops)
        began = time.perf_counter()
        placement = place(problem)
        seconds = time.perf_counter() - began
        check_placement(problem, placement)
        columns[name] = placement.peaks["memory"].peak_bytes
    bound = placement.peaks["memory"].lower_bound_bytes
    return columns | {"bound": bound, "values": len(placement.places), "seconds": round(seconds, 3)}


def main() -> None:
    """Print one row a file."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.overlaps")
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows = [overlap_row(path) for path in arguments.models]
    show(rows, as_json=arguments.json, title="Peak by what may overlap, elements of one byte, one core")


if __name__ == "__main__":
    main()
