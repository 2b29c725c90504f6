"""Expand of a computed value: a concatenation of the value with itself, axis by axis."""

from __future__ import annotations

from nnkit.graph.view import GraphView, Node, Shape
from nnkit_tpu.constraints import repeats_are_few, require
from nnkit_tpu.lowering.reading import Built, fields
from nnkit_tpu.program import TpuConcat, TpuOp, TpuReshape


def expand(graph: GraphView, node: Node) -> Built:
    """The ops of an Expand. Raises Refused where it repeats a value very often."""
    source, before, after = node.inputs[0], graph.shape(node.inputs[0]), graph.shape(node.output)
    common = fields(graph, node, source)
    shape = (1,) * (len(after) - len(before)) + before
    repeated = [axis for axis, (size, wanted) in enumerate(zip(shape, after, strict=True)) if size != wanted]
    for axis in repeated:
        require(repeats_are_few, after[axis])
    ops, shapes = list[TpuOp](), dict[str, Shape]()
    if len(after) > len(before) and repeated:
        name = f"{node.output}_axes"
        shapes[name] = shape
        ops.append(TpuReshape(name=name, inputs=(source,), output=name, range_of=source))
        source = name
    for axis in repeated:
        shape = (*shape[:axis], after[axis], *shape[axis + 1 :])
        name = node.output if axis == repeated[-1] else f"{node.output}_times_{axis}"
        shapes[name] = shape
        of_node = common if axis == repeated[-1] else {"name": name, "output": name, "range_of": node.output}
        ops.append(TpuConcat(**{**of_node, "inputs": (source,) * after[axis]}, axis=axis))
        source = name
    if not repeated:
        return Built((TpuReshape(**common),))
    del shapes[node.output]
    return Built(tuple(ops), shapes)
