"""What must hold of the graph after every rule: a valid, fully shaped ONNX graph, the same interface, all tags."""

from __future__ import annotations

from typing import Any

from nnkit.custom_ops import register_schemas
from nnkit.errors import InternalError
from nnkit.graph import Model
from nnkit.graph.metadata import FUSE_INTO
from nnkit.rewrite.tag_moves import lost_tags

FUSABLE_STARTS = ("Conv", "ConvTranspose", "Add")


def validate(before: Model, after: Model, rule: str) -> None:
    """Check what must hold of `after`, the network after a rule.

    Raises:
        InternalError: the graph is not valid ONNX, a shape is unknown or wrong, inputs or outputs changed, a tag
            vanished, or a fusion mark points nowhere. The message names `rule`, and the layer where there is one.
    """
    proto, reference = after.proto(), before.proto()
    _check_onnx(proto, rule)
    _check_shapes(proto, rule)
    _check_interface(reference, proto, rule)
    _check_marks(proto, rule)
    _check_tags(before, after, proto, rule)


def _check_onnx(proto: Any, rule: str) -> None:
    """ONNX's own checker. `proto` loses its large weights, which only the checker would look at."""
    import onnx

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


def _check_tags(before: Model, after: Model, proto: Any, rule: str) -> None:
    """Every layer that was tagged still is, on a value that exists."""
    graph = proto.graph
    values = {name for node in graph.node for name in node.output} | {info.name for info in graph.input}
    for value, tags in after.tags.values.items():
        if value not in values and (tags.hp or tags.cpu):
            layer = ", ".join(tags.origins) or value
            raise InternalError(f"rewrite '{rule}' lost the tags of layer '{layer}': value '{value}' is gone")
    lost = lost_tags(before, after)
    if lost:
        raise InternalError(f"rewrite '{rule}' lost the tag {lost[0]}")
