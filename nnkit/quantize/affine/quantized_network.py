"""A network that is quantised already, in QDQ form: lowered with its own formats and integer weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from nnkit import rewrite
from nnkit.graph import Model
from nnkit.program import Affine
from nnkit.quantize.affine.qdq_import import read_qdq
from nnkit.quantize.affine.quantize import with_stored_weights
from nnkit.quantize.affine.widths import keeps_format
from nnkit.quantize.float_program import FloatActivation, FloatOp, FloatProgram, Nonlinearity
from nnkit.quantize.lowered import LoweredLayers

_RULES = (
    "remove_identity",
    "global_pool",
    "simplify_clip",
    "merge_pad",
    "fc_to_conv",
    "normalize_resize",
    "concat_along_channels",
    "fuse_activation",
)
"""The normal form of the quantiser. What moves layers past one another would move them past roundings."""


def is_quantized(model: Model) -> bool:
    """Whether any value of it is dequantised."""
    return any(node.op_type == "DequantizeLinear" for node in model.proto().graph.node)


def lower_quantized(model: Model, documentation: str = "") -> LoweredLayers:
    """The network's float layers with the formats of its values and the integers of its weights.

    Raises ModelError as `read_qdq` and `LoweredLayers.of`.
    """
    import onnx

    parts = read_qdq(model.proto())
    proto = onnx.shape_inference.infer_shapes(parts.float_model, strict_mode=True, data_prop=True)
    plain = replace(model, onnx_bytes=proto.SerializeToString(deterministic=True))
    restructured, log = rewrite.restructure(plain, rewrite.resolve_rules(list(_RULES)))
    lowered = LoweredLayers.of(restructured, log, documentation)
    return replace(lowered, layers=_completed(with_stored_weights(lowered.layers, parts.weights), parts.formats))


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
