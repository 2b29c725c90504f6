"""A network that is quantised already, in QDQ form: lowered with its own formats and integer weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from nnkit import rewrite
from nnkit.graph import Model, OutputSpec
from nnkit.program import Affine
from nnkit.quantize.affine.qdq_import import read_qdq, with_stored_constants
from nnkit.quantize.affine.quantize import with_stored_weights
from nnkit.quantize.affine.widths import keeps_format
from nnkit.quantize.float_program import (
    FloatActivation,
    FloatConcat,
    FloatConv2d,
    FloatOp,
    FloatProgram,
    Nonlinearity,
    StoredWeights,
)
from nnkit.quantize.lowered import LoweredLayers

if TYPE_CHECKING:
    import onnx

_RULES = (
    "remove_identity",
    "one_dimension_to_two",
    "three_dimensions_to_two",
    "global_pool",
    "batch_norm_to_conv",
    "simplify_clip",
    "collapse_reshape",
    "merge_pad",
    "fc_to_conv",
    "normalize_resize",
    "softmax_of_rows",
    "instance_norm_to_rows",
    "merge_matmul",
    "rows_to_conv",
    "reduce_to_layers",
    "broadcast_factor",
    "constant_part_to_conv",
    "split_to_slices",
    "slice_inside",
    "pad_channels_last",
    "pad_inside",
    "concat_along_channels",
    "split_transpose",
    "constants_to_conv",
    "fuse_activation",
)
"""The normal form of the quantiser. What moves layers past one another would move them past roundings."""
_MOVES = ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Slice", "MaxPool", "Pad", "Resize", "Identity")
"""Operators that store what they read, so that nothing is rounded behind them where both formats are one."""
_UNIT_BITS = 6
"""A factor that is a constant is stored as 2^6 units, so that what is added to it is stored as finely."""
_ADDED_BITS = 10
"""A constant alone is stored in units of 2^-10 of the result's."""


def is_quantized(model: Model) -> bool:
    """Whether any value of it is dequantised."""
    return any(node.op_type == "DequantizeLinear" for node in model.proto().graph.node)


def lower_quantized(model: Model, documentation: str = "") -> LoweredLayers:
    """The network's float layers with the formats of its values and the integers of its weights.

    Raises ModelError as `read_qdq` and `LoweredLayers.of`.
    """
    import onnx

    stored = with_stored_constants(model.proto())
    parts, names = read_qdq(stored), _dequantised(stored)
    formats = {names.get(name, name): form for name, form in parts.formats.items()}
    renamed = _renamed(parts.float_model, names)
    proto = onnx.shape_inference.infer_shapes(renamed, strict_mode=True, data_prop=True)
    kept = _kept_whole(proto, _rounded(proto, formats))
    tags = model.tags
    for name, dequantised in names.items():
        tags = tags.moved(name, dequantised)
    shapes = {info.name: tuple(each.dim_value for each in info.type.tensor_type.shape.dim) for info in kept}
    plain = replace(
        model,
        onnx_bytes=proto.SerializeToString(deterministic=True),
        tags=tags,
        outputs=(*model.outputs, *(OutputSpec(name, shape) for name, shape in shapes.items())),
    )
    restructured, log = rewrite.restructure(plain, rewrite.resolve_rules(list(_RULES)))
    restructured = _with_outputs(restructured, model.outputs)
    lowered = LoweredLayers.of(restructured, log, documentation)
    layers = _completed(with_stored_weights(lowered.layers, parts.weights), formats)
    return replace(lowered, layers=_with_stored_constants(layers))


def _dequantised(proto: onnx.ModelProto) -> dict[str, str]:
    """By value that is quantised, the one that it is dequantised to: what the stored integers stand for.

    The value itself is not rounded yet, nor cut where the format ends, as behind a Relu that quantisation does.
    """
    ends = {info.name for info in (*proto.graph.input, *proto.graph.output)}
    sources = {node.output[0]: node.input[0] for node in proto.graph.node if node.op_type == "QuantizeLinear"}
    names: dict[str, str] = {}
    for node in proto.graph.node:
        value = sources.get(node.input[0]) if node.op_type == "DequantizeLinear" else None
        if value is not None and not ends & {value, node.output[0]}:
            names.setdefault(value, node.output[0])
    return names


def _renamed(proto: onnx.ModelProto, names: Mapping[str, str]) -> onnx.ModelProto:
    """A copy with other names of values."""
    renamed = type(proto)()
    renamed.CopyFrom(proto)
    for node in renamed.graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
    return renamed


def _rounded(proto: onnx.ModelProto, formats: Mapping[str, Affine]) -> set[str]:
    """Values that are rounded where they are made: no rewrite may compute past them."""
    return {
        name
        for node in proto.graph.node
        for name in node.output
        if name in formats and (node.op_type not in _MOVES or formats.get(node.input[0]) != formats[name])
    }


def _kept_whole(proto: onnx.ModelProto, values: set[str]) -> list[onnx.ValueInfoProto]:
    """Make outputs of these values, which rewrites then leave as they are; those that were none before."""
    known = {info.name: info for info in proto.graph.value_info}
    outputs = {info.name for info in proto.graph.output}
    kept = [known[name] for name in sorted(values - outputs) if name in known]
    proto.graph.output.extend(kept)
    return kept


def _with_outputs(model: Model, outputs: tuple[OutputSpec, ...]) -> Model:
    """The model with these of its outputs alone."""
    proto = model.proto()
    by_name = {info.name: info for info in proto.graph.output}
    del proto.graph.output[:]
    proto.graph.output.extend(by_name[spec.name] for spec in outputs)
    proto.graph.value_info.extend(info for name, info in by_name.items() if name not in {o.name for o in outputs})
    return replace(model, onnx_bytes=proto.SerializeToString(deterministic=True), outputs=outputs)


def _with_stored_constants(layers: FloatProgram) -> FloatProgram:
    """The layers, with fine integers for the factors of convolutions that stand for arithmetic with constants."""

    def fine(layer: FloatOp) -> FloatOp:
        if not isinstance(layer, FloatConv2d) or layer.stored is not None or layer.weight[0].size != 1:
            return layer
        source, result = (layers.formats.get(name) for name in (layer.inputs[0], layer.output))
        if layer.groups != len(layer.weight) or source is None or result is None:
            return layer
        factors = layer.weight.reshape(-1)
        alone = result.scale[0] / source.scale[0] * 2.0**-_ADDED_BITS
        scale = np.where(factors == 0.0, alone, np.abs(factors) * 2.0**-_UNIT_BITS)
        values = (np.sign(factors) * 2**_UNIT_BITS).astype(np.int8).reshape(layer.weight.shape)
        return replace(layer, stored=StoredWeights(values, scale, np.zeros(len(scale), np.int64), 0))

    return replace(layers, ops=tuple(fine(layer) for layer in layers.ops))


def _completed(layers: FloatProgram, formats: Mapping[str, Affine]) -> FloatProgram:
    """The network with its formats, and those of values that a rewrite put before what only moves or compares them.

    Where such an op has another format behind it than before it, it moves the integers as they are, and an op of its
    own stores them in the other format.
    """
    complete = dict(formats)
    for layer in layers.ops:
        if keeps_format(layer) and layer.inputs[0] in complete:
            complete.setdefault(layer.output, complete[layer.inputs[0]])
    ops: list[FloatOp] = []
    shapes = dict(layers.shapes)
    for layer in reversed(layers.ops):
        form = complete.get(layer.output)
        if form is not None and _cuts_nothing(layer, form):
            complete.setdefault(layer.inputs[0], form)
        if form is not None and isinstance(layer, FloatConcat):
            complete = {**dict.fromkeys(layer.inputs, form), **complete}
        if form is not None and keeps_format(layer):
            (source,) = layer.inputs
            given = complete.setdefault(source, form)
            if given != form:
                moved = f"{layer.output}.moved"
                complete[moved], shapes[moved] = given, shapes[layer.output]
                ops.append(
                    FloatActivation(
                        name=f"{layer.name}.stored",
                        inputs=(moved,),
                        output=layer.output,
                        range_value=layer.range_value,
                        tags=layer.tags,
                        activation=Nonlinearity(),
                    )
                )
                layer = replace(layer, output=moved)
        ops.append(layer)
    return replace(layers, ops=tuple(reversed(ops)), shapes=shapes, formats=complete)


def _cuts_nothing(layer: FloatOp, form: Affine) -> bool:
    """Whether it is a Relu of what cannot be below zero as it is stored."""
    relu = isinstance(layer, FloatActivation) and layer.activation.low == 0.0 and layer.activation.high is None
    return relu and form.zero_point[0] == form.qmin
