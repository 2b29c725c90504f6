"""Shapes of every value: inferred, static and small enough for memory, or the import says which layer breaks that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nnkit.errors import ModelError
from nnkit.importers.bounds import check_window_reads
from nnkit.importers.value_dims import value_dims
from nnkit.importers.value_memory import check_values_fit

if TYPE_CHECKING:
    import onnx

_BY_INPUTS = frozenset({
    "Reshape", "Expand", "Tile", "Slice", "Pad", "Resize", "Upsample", "Squeeze", "Unsqueeze", "Split", "TopK",
    "OneHot", "ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "CenterCropPad", "AffineGrid", "Trilu",
})  # fmt: skip
"""Operators that take the shape of their result, or what it follows from, as a second input or later."""


def static_shapes(graph: onnx.GraphProto, where: str) -> dict[str, tuple[int, ...]]:
    """Shape of every input and of every value that a layer computes, by name.

    Raises:
        ModelError: a shape is not known before run time or is empty, the message names the first such layer; or the
            values take more memory than is allowed.
    """
    known = {value.name: value for value in (*graph.value_info, *graph.input, *graph.output)}
    shapes = {value.name: value_dims(value) for value in graph.input}
    for node in graph.node:
        for name in node.output:
            if not name:
                continue
            dims = value_dims(known[name]) if name in known else None
            layer = f"layer '{node.name}' ({node.op_type})"
            if dims is None or any(dim < 0 for dim in dims):
                raise ModelError(
                    f"{layer}: the shape of its output '{name}' is not known before run time",
                    where=where,
                    remedy=_remedy(graph, node),
                )
            if 0 in dims:
                raise ModelError(
                    f"{layer}: its output '{name}' is empty: {list(dims)}",
                    where=where,
                    remedy="the input is too small for the network: check the input's shape",
                )
            shapes[name] = dims
    check_values_fit(graph, where)
    check_window_reads(graph, where)
    return {name: dims for name, dims in shapes.items() if dims is not None}


def _remedy(graph: onnx.GraphProto, node: onnx.NodeProto) -> str:
    """What to do about a result whose shape the values decide: the inputs' own sizes are all fixed by now."""
    if node.op_type == "If":
        return "export the branch that is used alone: the condition is computed from the network's input"
    if node.op_type in ("Loop", "Scan"):
        return "export the network with this loop unrolled"
    computed = {name for each in graph.node for name in each.output} | {value.name for value in graph.input}
    sizes = [name for name in node.input[1:] if name in computed and node.op_type in _BY_INPUTS]
    if sizes:
        return (
            f"export the network with '{sizes[0]}' as a constant: it is computed, and gives the shape; "
            "model.simplify: true folds what is computed of constants alone"
        )
    return (
        f"replace the {node.op_type}, whose size depends on the values, or end the network before it: "
        "the application computes the rest"
    )
