"""Shapes of every value: inferred, static and small enough for memory, or the import says which layer breaks that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nnkit.errors import ModelError
from nnkit.importers.value_dims import value_dims
from nnkit.importers.value_memory import check_values_fit

if TYPE_CHECKING:
    import onnx


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
                    remedy="export the network with fixed input sizes, or give them in the recipe at model.inputs; "
                    "keep model.simplify on",
                )
            if 0 in dims:
                raise ModelError(
                    f"{layer}: its output '{name}' is empty: {list(dims)}",
                    where=where,
                    remedy="the input is too small for the network: check the input's shape",
                )
            shapes[name] = dims
    check_values_fit(graph, where)
    return {name: dims for name, dims in shapes.items() if dims is not None}
