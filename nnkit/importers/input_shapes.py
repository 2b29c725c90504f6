"""The network's inputs: float32, batch 1, every dimension known."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nnkit.errors import ModelError, RecipeError
from nnkit.importers.first_axis import not_one_image
from nnkit.importers.value_memory import allowed_bytes, remedy_for

if TYPE_CHECKING:
    import onnx


@dataclass(frozen=True)
class DeclaredInputs:
    """Input shapes that the recipe declares, batch first, by input name.

    where: gives the position of an input in the recipe, for messages.
    any_batch: take a fixed batch as it is, for a network that the recipe edits down to one image.
    """

    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    where: Callable[[str], str] | None = None
    any_batch: bool = False

    def place(self, name: str) -> str:
        """The position of input `name` in the recipe; empty where it is not known."""
        return self.where(name) if self.where else ""


def pin_inputs(
    graph: onnx.GraphProto, declared: DeclaredInputs, where: str, *, unused: Collection[str] = ()
) -> tuple[str, ...]:
    """Give every input a static shape with batch 1 and make it float32; notes on what was changed.

    An open batch becomes 1. Any other open dimension comes from the recipe. An integer input that is only cast to
    float is fed as float32 (its Cast changes nothing then). `unused`: inputs already left out, which the recipe
    may still mention.

    Raises:
        RecipeError: the recipe names an input that is not there, or a shape that contradicts the model.
        ModelError: a fixed batch other than 1, an open dimension without a declared shape, a type that is no tensor
            of numbers.
    """
    names = [value.name for value in graph.input]
    for name in declared.shapes:
        if name not in names and name not in unused:
            raise RecipeError(
                f"the network has no input '{name}'",
                where=declared.place(name),
                remedy=f"its inputs are: {', '.join(names) or '(none)'}",
            )
    if not names:
        raise ModelError("the network has no input", where=where, remedy="export it with an input")
    notes: list[str] = []
    for value in graph.input:
        notes += _make_float(graph, value, where)
        notes += _pin(graph, value, declared, where)
    return tuple(notes)


def _make_float(graph: onnx.GraphProto, value: onnx.ValueInfoProto, where: str) -> list[str]:
    import onnx

    types = onnx.TensorProto
    if value.type.WhichOneof("value") != "tensor_type":
        raise ModelError(f"input '{value.name}' is not a tensor", where=where, remedy="export it with a tensor input")
    kind = value.type.tensor_type.elem_type
    if kind == types.FLOAT:
        return []
    readers = [node for node in graph.node if value.name in node.input]
    casts = readers and all(
        node.op_type == "Cast" and any(a.name == "to" and a.i == types.FLOAT for a in node.attribute)
        for node in readers
    )
    whole = (types.UINT8, types.INT8, types.UINT16, types.INT16, types.INT32, types.INT64)
    gathers = readers and all(node.op_type == "Gather" and node.input[1] == value.name for node in readers)
    if kind in whole and gathers:
        return _ids_as_float(graph, value)
    if kind not in whole or not casts:
        name = types.DataType.Name(kind).lower() if kind in types.DataType.values() else f"type {kind}"
        raise ModelError(
            f"input '{value.name}' has element type {name}; inputs are float32",
            where=where,
            remedy=_remedy_for_integers(value, readers),
        )
    value.type.tensor_type.elem_type = types.FLOAT
    return [f"input '{value.name}', integers cast to float at once, is taken as float32"]


def _remedy_for_integers(value: onnx.ValueInfoProto, readers: Sequence[onnx.NodeProto]) -> str:
    """What to do with an input that is neither float32 nor token ids."""
    import onnx

    if "mask" in value.name.lower():
        return (
            f"where inputs fill the network's whole length, export it without '{value.name}', which then says "
            "nothing; otherwise with a float32 mask that is added to the attention's scores"
        )
    rows = [node for node in readers if node.op_type == "Gather" and list(node.input[1:]) == [value.name]]
    others = sorted({node.op_type for node in readers if node.op_type != "Cast" and node not in rows})
    if value.type.tensor_type.elem_type in (onnx.TensorProto.BOOL, onnx.TensorProto.STRING) or not others:
        return "export the network with a float32 input; integers may be rows of a table (token ids), too"
    return (
        "export the network with a float32 input; integers may be rows of a table (token ids) and nothing else, and "
        f"here {', '.join(others)} read them: give what is made of them (positions, each column, say) as inputs of "
        "their own"
    )


def _ids_as_float(graph: onnx.GraphProto, value: onnx.ValueInfoProto) -> list[str]:
    """Indices of rows in tables, such as token ids, are read as floats and made integers before the tables.

    Those that no table has are taken as its first or last row.
    """
    import numpy as np
    import onnx
    from onnx import numpy_helper

    taken = {name for node in graph.node for name in (*node.input, *node.output)}
    ids = f"{value.name}_ids"
    while ids in taken:
        ids += "_"
    gathered = set()
    for node in graph.node:
        if value.name in node.input:
            node.input[1] = ids
            gathered.add(node.input[0])
    tables = [tensor.dims[0] for tensor in graph.initializer if tensor.name in gathered and tensor.dims]
    bounds = {f"{ids}.lowest": 0, f"{ids}.highest": min(tables, default=1) - 1}
    graph.initializer.extend(
        numpy_helper.from_array(np.asarray(bound, np.float32), name) for name, bound in bounds.items()
    )
    clipped = f"{ids}.clipped"
    graph.node.insert(0, onnx.helper.make_node("Clip", [value.name, *bounds], [clipped], name=clipped))
    graph.node.insert(1, onnx.helper.make_node("Cast", [clipped], [ids], name=ids, to=onnx.TensorProto.INT64))
    value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    return [f"input '{value.name}', indices of rows in a table, is taken as float32"]


def _pin(graph: onnx.GraphProto, value: onnx.ValueInfoProto, declared: DeclaredInputs, where: str) -> list[str]:
    wanted = declared.shapes.get(value.name)
    tensor = value.type.tensor_type
    notes: list[str] = []
    if not tensor.HasField("shape"):
        if wanted is None:
            raise _open(value.name, "leaves its shape open", where)
        dims: list[int | str] = ["" for _ in wanted]
    else:
        dims = [dim.dim_value if dim.HasField("dim_value") else dim.dim_param for dim in tensor.shape.dim]
    if not dims:
        raise ModelError(
            f"input '{value.name}' is a single number without a batch",
            where=where,
            remedy="export it with a batch axis",
        )
    if wanted is not None and len(wanted) != len(dims):
        raise _contradiction(value.name, wanted, dims, declared)
    shape: list[int] = []
    for axis, dim in enumerate(dims):
        fixed = dim if isinstance(dim, int) and dim > 0 else None  # some exporters write -1 or 0 for "open"
        given = wanted[axis] if wanted is not None else None
        if axis == 0 and fixed is not None and fixed != 1:
            if declared.any_batch and given in (None, 1):
                shape.append(fixed)
                continue
            raise not_one_image(graph, value.name, dims, where)
        if fixed is None and axis == 0 and given in (None, 1):
            given = 1
            notes.append(f"the open batch of input '{value.name}' is pinned to 1")
        if given is not None and (given < 1 or fixed not in (None, given) or (axis == 0 and given != 1)):
            raise _contradiction(value.name, wanted or (), dims, declared)
        size = fixed or given
        if size is None:
            label = f" ('{dim}')" if isinstance(dim, str) and dim else ""
            raise _open(value.name, f"leaves dimension {axis}{label} open", where)
        shape.append(size)
    needed, allowed = 4 * math.prod(shape), allowed_bytes()
    if needed > allowed:
        raise ModelError(
            f"input '{value.name}' of shape {shape} takes {needed:,} bytes; {allowed:,} are allowed",
            where=where,
            remedy=remedy_for(needed),
        )
    tensor.shape.Clear()
    tensor.shape.SetInParent()
    for size in shape:
        tensor.shape.dim.add().dim_value = size
    return notes


def _open(name: str, what: str, where: str) -> ModelError:
    return ModelError(
        f"input '{name}' {what}", where=where, remedy=f"give it in the recipe, at model.inputs.{name}.shape"
    )


def _contradiction(
    name: str, wanted: Sequence[int], dims: Sequence[int | str], declared: DeclaredInputs
) -> RecipeError:
    shown = ", ".join(str(dim) if dim not in ("", 0, -1) else "?" for dim in dims)
    return RecipeError(
        f"the shape {list(wanted)} of input '{name}' contradicts the model's [{shown}]",
        where=declared.place(name),
        remedy="write a shape that agrees with the model, batch 1 first",
    )
