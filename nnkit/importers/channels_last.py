"""Inputs whose channels are last in the file, [1, H, W, C], as [1, C, H, W]: what images are read to.

A Transpose to [1, C, H, W] that reads such an input hands it on and becomes an Identity; other readers get the input
back as it was by a Transpose before them. The result must compute what the file does, which ONNX Runtime decides.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

import numpy as np

from nnkit.errors import InternalError, RecipeError
from nnkit.graph import InputSpec, Model
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.graph.view import Node
from nnkit.names import NamePool

if TYPE_CHECKING:
    import onnx

_TO_FIRST, _TO_LAST = (0, 3, 1, 2), (0, 2, 3, 1)


def channels_first(model: Model, inputs: Collection[str], where: Callable[[str], str] | None = None) -> Model:
    """The network with these inputs as [1, C, H, W]. where: gives the position of an input in the recipe.

    Raises RecipeError for an input that is not there, or has other than four dimensions.
    """
    if not inputs:
        return model
    proto = model.proto()
    known = {spec.name: spec.shape for spec in model.inputs}
    for name in inputs:
        if len(known.get(name, ())) != 4:
            reason = f"has shape {list(known[name])}" if name in known else "is not there"
            raise RecipeError(
                f"input '{name}' {reason}, and no [1, height, width, channels]",
                where=where(name) if where else "",
                remedy="remove `layout`" if name in known else f"its inputs are: {', '.join(known)}",
            )
        _turn(proto.graph, name)
    turned = Model(
        proto.SerializeToString(deterministic=True),
        model.tags,
        tuple(
            InputSpec(s.name, tuple(s.shape[axis] for axis in _TO_FIRST)) if s.name in inputs else s
            for s in model.inputs
        ),
        model.outputs,
        model.opset,
    )
    _check_same(model, turned, inputs)
    return turned


def _turn(graph: onnx.GraphProto, name: str) -> None:
    value = next(each for each in graph.input if each.name == name)
    sides = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
    before = type(value).FromString(value.SerializeToString())
    for dim, axis in zip(value.type.tensor_type.shape.dim, _TO_FIRST, strict=True):
        dim.dim_value = sides[axis]
    others = []
    for node in graph.node:
        if name not in node.input:
            continue
        if node.op_type == "Transpose" and not node.domain and tuple(Node.of(node).ints("perm")) == _TO_FIRST:
            node.op_type = "Identity"
            del node.attribute[:]
        else:
            others.append(node)
    if not others:
        return
    names = NamePool(
        [each for node in graph.node for each in (node.name, *node.output)]
        + [each.name for each in (*graph.input, *graph.initializer)]
    )
    before.name = names.free(f"{name}.channels_last")
    for node in others:
        for place, read in enumerate(node.input):
            if read == name:
                node.input[place] = before.name
    graph.value_info.append(before)
    back = graph.node.add(op_type="Transpose", name=before.name, input=[name], output=[before.name])
    back.attribute.add(name="perm", type=7, ints=_TO_LAST)  # 7: AttributeProto.INTS
    ordered = [graph.node[-1], *graph.node[:-1]]
    copies = [type(back).FromString(node.SerializeToString()) for node in ordered]
    del graph.node[:]
    graph.node.extend(copies)


def _check_same(before: Model, after: Model, turned: Collection[str]) -> None:
    """Both computed on one random input."""
    generator = np.random.default_rng(0)
    feeds = {spec.name: generator.uniform(-1, 1, spec.shape).astype(np.float32) for spec in before.inputs}
    expected = FloatSession(before, feed_weights=True).run(feeds)
    moved = {name: array.transpose(_TO_FIRST) if name in turned else array for name, array in feeds.items()}
    computed = FloatSession(after, feed_weights=True).run(moved)
    for name, values in expected.items():
        if not np.array_equal(computed[name], values, equal_nan=True):
            raise InternalError(f"output '{name}' changed when the network's inputs were turned")
