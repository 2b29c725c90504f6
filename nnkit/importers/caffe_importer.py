"""Caffe import: a prototxt and a caffemodel that may be anything become a Model, or a clear refusal.

Layer names become node names; a layer of several nodes gives its name to the last one, and the others are called
`<layer>/<part>`. Blob names become value names. The batch becomes 1.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from nnkit.caffe.layers.context import IR_VERSION, OPSET, GraphBuilder, LayerContext
from nnkit.caffe.layers.table import LAYERS, unknown_type
from nnkit.caffe.network import CaffeInput, CaffeLayer, CaffeNetwork, checked_shape, read_network
from nnkit.caffe.weights import read_caffemodel, read_user_bytes
from nnkit.custom_ops import DOMAIN, VERSION
from nnkit.errors import ModelError, RecipeError
from nnkit.graph import InputSpec, Model, OutputSpec
from nnkit.graph.refusal import Refusal, Refused, lines_and_remedy
from nnkit.graph.view import Shape
from nnkit.importers.bounds import check_graph, check_window_reads
from nnkit.importers.custom_layers import (
    CustomDefinition,
    Definitions,
    convert_defined,
    definitions_of_layers,
    with_inlined_on_the_cpu,
)
from nnkit.importers.name_tags import NO_GLOBS, TagGlobs, follow_tags, lift_tags
from nnkit.importers.onnx_importer import ImportResult
from nnkit.importers.value_memory import check_values_fit

if TYPE_CHECKING:
    import onnx

_REGION_LAYERS = frozenset(["ROIPooling", "PSROIPooling"])


def import_caffe(
    prototxt: str | os.PathLike[str],
    weights: str | os.PathLike[str],
    *,
    inputs: Mapping[str, Sequence[int]] | None = None,
    tag_globs: TagGlobs = NO_GLOBS,
    input_where: Callable[[str], str] | None = None,
    custom_layers: Definitions = MappingProxyType({}),
) -> ImportResult:
    """Import a Caffe network.

    inputs: shapes by input name that replace those in the prototxt, batch first.
    tag_globs: the recipe's globs over the layers' names.
    input_where: gives the position of a declared input in the recipe, for messages.
    custom_layers: what layers compute that only their author knows.

    Raises:
        UserFileError: a file is missing or unreadable.
        ModelError: a file is broken, or the network has layers that cannot be imported; all of them are listed.
        RecipeError: a glob matches no layer (`TagGlobError`), or a declared input is not the network's.
    """
    text_file, weight_file = Path(prototxt), Path(weights)
    text = read_user_bytes(text_file, "the prototxt")
    data = read_user_bytes(weight_file, "the caffemodel")
    result = caffe_model(
        text,
        data,
        text_where=str(text_file),
        weight_where=str(weight_file),
        inputs=inputs,
        tag_globs=tag_globs,
        input_where=input_where,
        custom_layers=custom_layers,
    )
    return ImportResult(result.model, result.notes, (text_file, weight_file))


def caffe_model(
    text: bytes,
    data: bytes,
    *,
    text_where: str = "prototxt",
    weight_where: str = "caffemodel",
    inputs: Mapping[str, Sequence[int]] | None = None,
    tag_globs: TagGlobs = NO_GLOBS,
    input_where: Callable[[str], str] | None = None,
    custom_layers: Definitions = MappingProxyType({}),
) -> ImportResult:
    """As `import_caffe`, from the contents of the two files. `data` may be empty for a network without weights."""
    weights = read_caffemodel(data, weight_where) if data else {}
    network = read_network(text, weights, text_where)
    notes = list(network.notes)
    shapes, batch = _input_shapes(network, inputs or {}, input_where, notes)
    builder = GraphBuilder(dict(shapes), [top for layer in network.layers for top in layer.tops])
    _convert(network, builder, batch, text_where, definitions_of_layers(network, custom_layers))
    outputs = _computed(network, builder, shapes)
    notes += _drop_unused(builder, outputs)
    used = {name for node in builder.nodes for name in node.input}
    for name in [name for name in shapes if name not in used]:
        notes.append(f"input '{name}' is not used and is left out")
        del shapes[name]
    if not outputs or not shapes:
        raise ModelError("the network computes nothing", where=text_where, remedy="name the deploy prototxt")
    proto = _proto(network.name, builder, shapes, outputs)
    check_graph(proto.graph, text_where)
    check_values_fit(proto.graph, text_where)
    check_window_reads(proto.graph, text_where)
    tagged = lift_tags(proto.graph, tag_globs)
    tags, _ = follow_tags(tagged, proto.graph, text_where)
    tags = with_inlined_on_the_cpu(tags, proto.graph)
    model = Model(
        onnx_bytes=proto.SerializeToString(deterministic=True),
        tags=tags,
        inputs=tuple(InputSpec(name, shape) for name, shape in shapes.items()),
        outputs=tuple(OutputSpec(name, builder.shapes[name]) for name in outputs),
        opset=OPSET,
    )
    return ImportResult(model, tuple(notes), ())


def caffe_digest(prototxt: str | os.PathLike[str], weights: str | os.PathLike[str]) -> str:
    """SHA-256 over the two files: what a cache key needs to know of the network.

    Raises:
        UserFileError, ModelError: as `import_caffe` does for files that cannot be read.
    """
    state = hashlib.sha256()
    for path, what in ((prototxt, "the prototxt"), (weights, "the caffemodel")):
        content = read_user_bytes(Path(path), what)
        state.update(len(content).to_bytes(8, "little"))
        state.update(content)
    return state.hexdigest()


def _input_shapes(
    network: CaffeNetwork,
    declared: Mapping[str, Sequence[int]],
    where: Callable[[str], str] | None,
    notes: list[str],
) -> tuple[dict[str, Shape], int]:
    """Shapes with batch 1 (regions of interest keep their number), and the batch that the file declares."""
    names = [item.name for item in network.inputs]
    for name in declared:
        if name not in names:
            raise RecipeError(
                f"the network has no input '{name}'",
                where=where(name) if where else "",
                remedy=f"its inputs are: {', '.join(names)}",
            )
    regions = {
        layer.bottoms[1] for layer in network.layers if layer.type in _REGION_LAYERS and len(layer.bottoms) > 1
    }
    shapes, batch = {}, 1
    for item in network.inputs:
        shape = _declared_shape(item, declared.get(item.name), where)
        if shape[0] != 1 and item.name not in regions:
            batch = max(batch, shape[0])
            notes.append(f"input '{item.name}' is declared for a batch of {shape[0]}; it is taken as 1")
            shape = (1, *shape[1:])
        shapes[item.name] = shape
    return shapes, batch


def _declared_shape(
    item: CaffeInput, declared: Sequence[int] | None, where: Callable[[str], str] | None
) -> tuple[int, ...]:
    if declared is None:
        return item.shape
    place = where(item.name) if where else ""
    if len(declared) != len(item.shape):
        raise RecipeError(
            f"input '{item.name}' has {len(item.shape)} dimensions, the recipe gives {len(declared)}",
            where=place,
            remedy=f"the prototxt has {list(item.shape)}",
        )
    return checked_shape(declared, f"input '{item.name}'", place)


def _convert(
    network: CaffeNetwork,
    builder: GraphBuilder,
    batch: int,
    where: str,
    defined: Mapping[str, CustomDefinition],
) -> None:
    """All layers as nodes; the findings of all of them in one error."""
    refused: list[tuple[CaffeLayer, ModelError]] = []
    for layer in network.layers:
        convert = LAYERS.get(layer.type)
        context = LayerContext(layer, builder, batch)
        try:
            if convert is None and layer.name not in defined:
                raise Refused(*unknown_type(layer.type))
            if any(bottom not in builder.shapes for bottom in layer.bottoms):
                continue  # behind a layer that has been refused
            if layer.name in defined:
                convert_defined(context, defined[layer.name])
            elif convert is not None:
                convert(context)
            context.finish()
        except ModelError as problem:
            refused.append((layer, problem))
            for top in layer.tops:
                builder.shapes.pop(top, None)
    if refused:
        raise _error(refused, where)


def _error(refused: list[tuple[CaffeLayer, ModelError]], where: str) -> ModelError:
    lines, remedy = lines_and_remedy(
        f"the network has layers that cannot be imported ({len(refused)}):",
        [Refusal(f"line {each.line}: {each.name}", each.type, why.reason, why.remedy) for each, why in refused],
        "correct these layers in the prototxt",
    )
    return ModelError(lines, where=where, remedy=remedy)


def _computed(network: CaffeNetwork, builder: GraphBuilder, inputs: Mapping[str, Shape]) -> list[str]:
    """The network's outputs that layers compute."""
    computed = {value for node in builder.nodes for value in node.output}
    return [name for name in network.outputs if name in computed and name not in inputs]


def _drop_unused(builder: GraphBuilder, outputs: Sequence[str]) -> list[str]:
    """Remove nodes and constants that reach no output: what only a Crop took a size from, or a Silence swallowed."""
    needed, kept, notes = set(outputs), [], []
    for node in reversed(builder.nodes):
        if needed.isdisjoint(node.output):
            notes.append(f"layer '{node.name}' reaches no output and is left out")
        else:
            needed.update(node.input)
            kept.append(node)
    builder.nodes[:] = reversed(kept)
    for name in [name for name in builder.constants if name not in needed]:
        del builder.constants[name]
    return notes[::-1]


def _proto(name: str, builder: GraphBuilder, inputs: dict[str, Shape], outputs: list[str]) -> onnx.ModelProto:
    from onnx import TensorProto, helper, numpy_helper

    types = {
        value: {"ArgMax": TensorProto.INT64, "Greater": TensorProto.BOOL}.get(node.op_type, TensorProto.FLOAT)
        for node in builder.nodes
        for value in node.output
    }

    def info(value: str) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(value, types.get(value, TensorProto.FLOAT), builder.shapes[value])

    ends = {*inputs, *outputs}
    graph = helper.make_graph(
        builder.nodes,
        name,
        [info(value) for value in inputs],
        [info(value) for value in outputs],
        [numpy_helper.from_array(array, constant) for constant, array in builder.constants.items()],
        value_info=[info(value) for node in builder.nodes for value in node.output if value not in ends],
    )
    opsets = [helper.make_opsetid("", OPSET)]
    if any(node.domain == DOMAIN for node in builder.nodes):
        opsets.append(helper.make_opsetid(DOMAIN, VERSION))
    return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="nnkit")
