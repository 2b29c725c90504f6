"""GRU and LSTM -> one layer over all steps, and what brings its states into ONNX's order."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from nnkit.graph.read.recurrent import read_recurrent
from nnkit.graph.refusal import Refused
from nnkit.graph.view import GraphView, Node, Shape
from nnkit_tpu.lowering.reading import Built, fields, float32
from nnkit_tpu.program import TpuConcat, TpuOp, TpuReshape, TpuSlice
from nnkit_tpu.recurrent import TpuRecurrent

_UNROLL = "add `unroll_recurrent` to `restructure`"


def recurrent(graph: GraphView, node: Node) -> Built:
    """Steps [T, 1, I] in; all states [T, D, 1, H] and the last ones [D, 1, H] out, whichever is read."""
    layer = read_recurrent(graph, node)
    wanted = [bool(name) and (name in graph.outputs or bool(graph.consumers.get(name))) for name in node.outputs]
    if not layer.resets_after:  # the compiler takes it, and computes something else
        raise Refused(
            "it resets its state before the product", "export it with linear_before_reset, as PyTorch has it"
        )
    if layer.directions == (True,):
        raise Refused("it runs backwards alone", _UNROLL)
    if any(wanted[2:]):
        raise Refused("its last cell is read", _UNROLL)
    inputs = graph.shape(layer.data)[2]
    ways, hidden, steps = len(layer.directions), layer.hidden, layer.steps
    taken = {*graph.inputs, *(name for each in graph.nodes for name in each.outputs)}
    writer = _Writer(fields(graph, node, layer.data, output=node.results[0]), node.name, taken)
    rows = writer.add(TpuReshape, "rows", (layer.data,), (1, steps, inputs), range_of=layer.data)
    known = next(name for name, read in zip(node.outputs, wanted, strict=True) if read)
    states = writer.add(
        TpuRecurrent,
        "states",
        (rows,),
        (1, steps, ways, hidden),
        range_of=known,
        cell="gru" if layer.cell == "GRU" else "lstm",
        weight=float32(layer.weights),
        recurrent=float32(layer.recurrent),
        bias=float32(layer.bias),
    )
    if wanted[0]:
        writer.end(node.outputs[0], states)
    if len(wanted) > 1 and wanted[1]:
        lasts = [writer.step(states, steps - 1 if way == 0 else 0, way, hidden, known) for way in range(ways)]
        whole = (1, 1, ways, hidden)
        joined = writer.add(TpuConcat, "last", tuple(lasts), whole, range_of=known, axis=2) if ways > 1 else lasts[0]
        writer.end(node.outputs[1], joined)
    return Built(tuple(writer.ops), writer.shapes)


class _Writer:
    """Ops of one node, each with a value of its own. common: fields that they share. taken: names of values."""

    def __init__(self, common: Mapping[str, Any], name: str, taken: Collection[str]) -> None:
        self.common, self.name, self.taken = common, name, taken
        self.ops: list[TpuOp] = []
        self.shapes: dict[str, Shape] = {}

    def add(self, kind: type[TpuOp], label: str, inputs: tuple[str, ...], shape: Shape, **own: Any) -> str:
        made = f"{self.name}_{label}"
        while made in self.taken:
            made += "_"
        self.shapes[made] = shape
        self.ops.append(kind(**{**self.common, "name": made, "inputs": inputs, "output": made, **own}))
        return made

    def step(self, states: str, step: int, way: int, hidden: int, known: str) -> str:
        """The states [1, 1, 1, H] of one step of one direction."""
        begin, end = (0, step, way, 0), (1, step + 1, way + 1, hidden)
        own = {"offsets": begin, "ends": end, "steps": (1, 1, 1, 1), "range_of": known}
        return self.add(TpuSlice, f"last{way}", (states,), (1, 1, 1, hidden), **own)

    def end(self, output: str, value: str) -> None:
        """The output of the node: the value in the shape that the network has for it."""
        self.ops.append(TpuReshape(**{**self.common, "name": output, "inputs": (value,), "output": output}))
