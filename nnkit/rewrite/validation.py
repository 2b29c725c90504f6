"""What must hold of the graph after every rule: a valid, fully shaped ONNX graph, the same interface, all tags."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nnkit.errors import InternalError
from nnkit.graph import LayerTags, Model
from nnkit.rewrite.rule import FUSE_INTO

FUSABLE_STARTS = ("Conv", "ConvTranspose", "Add")


def validate(before: Model, after: Model, rule: str) -> None:
    """Hold `after` to the invariants.

    Raises:
        InternalError: the graph is not valid ONNX, a shape is unknown or wrong, inputs or outputs changed, a tag
            vanished, or a fusion mark points nowhere. The message names `rule`, and the layer where there is one.
    """
    proto, reference = after.proto(), before.proto()
    _check_onnx(proto, rule)
    _check_shapes(proto, rule)
    _check_interface(reference, proto, rule)
    _check_marks(proto, rule)
    _check_tags(before, reference, after, proto, rule)


def _check_onnx(proto: Any, rule: str) -> None:
    """ONNX's own checker. `proto` loses its large weights, which only the checker would look at."""
    import onnx

    from nnkit.custom_ops import register_schemas
    from nnkit.graph.weights_aside import take_weights, with_weights_as_inputs

    register_schemas()
    weights = take_weights(proto.graph)
    try:
        onnx.checker.check_model(with_weights_as_inputs(proto, weights), full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise InternalError(f"rewrite '{rule}' left a graph that is not valid: {error}") from error


def _check_shapes(proto: Any, rule: str) -> None:
    infos = {info.name: info for info in (*proto.graph.value_info, *proto.graph.input, *proto.graph.output)}
    for node in proto.graph.node:
        for name in node.output:
            dims = infos[name].type.tensor_type.shape.dim if name in infos else ()
            known = name in infos and infos[name].type.tensor_type.HasField("shape")
            if name and not (known and all(dim.HasField("dim_value") for dim in dims)):
                raise InternalError(f"rewrite '{rule}' left value '{name}' without a static shape")


def _check_interface(before: Any, after: Any, rule: str) -> None:
    def interface(proto: Any) -> list[tuple[str, bytes]]:
        return [(info.name, info.type.SerializeToString()) for info in (*proto.graph.input, *proto.graph.output)]

    if interface(before) != interface(after):
        raise InternalError(f"rewrite '{rule}' changed the network's inputs or outputs")


def _check_marks(proto: Any, rule: str) -> None:
    producers = {name: node for node in proto.graph.node for name in node.output}
    for node in proto.graph.node:
        for entry in node.metadata_props:
            if entry.key != FUSE_INTO:
                continue
            start = producers.get(entry.value)
            if start is None or start.op_type not in FUSABLE_STARTS:
                raise InternalError(
                    f"rewrite '{rule}' left '{node.name or node.output[0]}' fused into '{entry.value}', "
                    "which is not the result of an op that fuses"
                )


def _check_tags(before: Model, reference: Any, after: Model, proto: Any, rule: str) -> None:
    """Every layer that was tagged still is, on a value that exists."""
    graph = proto.graph
    values = {name for node in graph.node for name in node.output} | {info.name for info in graph.input}
    for value, tags in after.tags.values.items():
        if value not in values and (tags.hp or tags.cpu):
            layer = ", ".join(tags.origins) or value
            raise InternalError(f"rewrite '{rule}' lost the tags of layer '{layer}': value '{value}' is gone")
    layer_names = {name: node.name or node.output[0] for node in reference.graph.node for name in node.output}
    for kind in ("hp", "cpu"):
        lost = tagged_layers(before.tags, kind, layer_names) - tagged_layers(after.tags, kind, layer_names)
        if lost:
            raise InternalError(f"rewrite '{rule}' lost the tag `_{kind}` of layer '{min(lost)}'")


def tagged_layers(tags: LayerTags, kind: str, layer_names: Mapping[str, str]) -> set[str]:
    """Names of the imported layers that carry the tag `kind` ("hp" or "cpu"), wherever it sits now."""
    layers: set[str] = set()
    for value, value_tags in tags.values.items():
        if getattr(value_tags, kind):
            layers |= set(value_tags.origins or (layer_names.get(value, value),))
    return layers
