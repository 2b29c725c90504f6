"""Layers of a prototxt that only their author knows, as the recipe defines them: an ONNX network, or Python and C.

The nodes of an ONNX network become the layer's nodes and are tagged `_cpu`, so that no rewrite takes them apart: they
are one layer again where the prototxt is written. A function is one node of `ai.nnkit`, which holds its source.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from nnkit.caffe.layers.context import OPSET, LayerContext
from nnkit.caffe.layers.table import LAYERS
from nnkit.custom_ops import Custom
from nnkit.errors import RecipeError
from nnkit.graph import LayerTags, Model, ValueTags
from nnkit.graph.metadata import CAFFE_TYPE
from nnkit.graph.view import GraphView, Shape
from nnkit.importers.opset import with_opset

if TYPE_CHECKING:
    import onnx

    from nnkit.caffe.network import CaffeNetwork


@dataclass(frozen=True, eq=False)
class CustomDefinition:
    """What a layer computes. shapes: of its tops; None: as its custom_param says.

    model: an ONNX network; or else `function` of python and c, texts of source files (`nnkit.custom_ops.Custom`).
    where: the place in the recipe, for messages.
    """

    shapes: tuple[Shape, ...] | None = None
    model: Model | None = None
    function: str = ""
    python: str = ""
    c: str = ""
    where: str = ""


Definitions = Mapping[str, CustomDefinition]
"""By glob over layer names."""


def definitions_of_layers(network: CaffeNetwork, definitions: Definitions) -> dict[str, CustomDefinition]:
    """The definition of each layer that has one, by its name.

    Raises RecipeError for a glob that matches no layer, or one whose type nnkit knows.
    """
    defined: dict[str, CustomDefinition] = {}
    for glob, definition in definitions.items():
        matched = [layer for layer in network.layers if fnmatchcase(layer.name, glob)]
        wrong = next((layer for layer in matched if not is_custom_kind(layer.type)), None)
        if wrong is not None:
            raise RecipeError(
                f"layer '{wrong.name}' is a {wrong.type}, which nnkit knows",
                where=definition.where,
                remedy='define layers of `type: "Custom"` or of types of your own alone',
            )
        if not matched:
            own = ", ".join(layer.name for layer in network.layers if is_custom_kind(layer.type))
            raise RecipeError(
                f"'{glob}' matches no layer",
                where=definition.where,
                remedy=f"layers that can be defined: {own}" if own else "the network has no layer of its own type",
            )
        defined.update((layer.name, definition) for layer in matched)
    return defined


def convert_defined(context: LayerContext, definition: CustomDefinition) -> None:
    """The layer as its definition has it. Raises Refused where shapes or numbers of bottoms and tops differ."""
    layer = context.layer
    shapes = definition.shapes
    if shapes is None:
        shapes = tuple(tuple(shape.dim) for shape in context.parameter("custom_param").shape)
    if len(shapes) != len(layer.tops) or any(not shape or min(shape) < 1 for shape in shapes):
        context.fail(
            f"it has {len(layer.tops)} tops and {len(shapes)} shapes",
            "write `shapes` into its definition, or `custom_param { shape { dim: 1 ... } }`, one for each top",
        )
    if definition.model is not None:
        _inline(context, definition.model, shapes)
        return
    op = replace(
        Custom.of(shapes, layer.type), function=definition.function, python=definition.python, c=definition.c
    )
    context.custom(op, context.bottoms)


def _inline(context: LayerContext, model: Model, shapes: tuple[Shape, ...]) -> None:
    layer, given = context.layer, with_opset(model, OPSET)
    for what, own, wanted in (
        ("inputs", [spec.shape for spec in given.inputs], [context.shape(i) for i in range(len(layer.bottoms))]),
        ("outputs", [spec.shape for spec in given.outputs], list(shapes)),
    ):
        if own != wanted:
            context.fail(
                f"its ONNX network has {what} {_listed(own)}, the layer {_listed(wanted)}",
                "export it with the layer's shapes, bottoms and tops in order",
            )
    graph, proto = GraphView.of(given), given.proto().graph
    names = dict(zip((spec.name for spec in given.inputs), layer.bottoms, strict=True))
    names |= dict(zip((spec.name for spec in given.outputs), layer.tops, strict=True))
    for name in graph.constants:
        names[name] = context.constant(name, graph.constants[name])
    for node in proto.node:
        for name in (name for name in node.output if name and name not in names):
            names[name] = context.builder.free_value(f"{layer.name}/{name}")
    for node in proto.node:
        if any(name in graph.constants for name in node.output):
            continue
        for position, name in enumerate(node.input):
            node.input[position] = names[name] if name else ""
        results = [name for name in node.output if name]
        for position, name in enumerate(node.output):
            node.output[position] = names[name] if name else ""
        del node.metadata_props[:]
        context.copied(node, [names[name] for name in results], [graph.shape(name) for name in results])


def _listed(shapes: list[Shape]) -> str:
    return ", ".join(str(list(shape)) for shape in shapes)


def with_inlined_on_the_cpu(tags: LayerTags, graph: onnx.GraphProto) -> LayerTags:
    """The nodes of ONNX networks tagged `_cpu`, which holds them together."""
    for node in graph.node:
        kind = next((entry.value for entry in node.metadata_props if entry.key == CAFFE_TYPE), "")
        if is_custom_kind(kind) and node.op_type != Custom.op_type:
            for value in filter(None, node.output):
                tags = tags.with_tags(value, tags.of(value).merged(ValueTags(cpu=True)))
    return tags


def is_custom_kind(kind: str) -> bool:
    """Whether a layer's type is one that only its author knows."""
    return bool(kind) and (kind == Custom.op_type or kind not in LAYERS)
