"""A Model in a later operator set, with all that nnkit keeps beside the operators."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from nnkit.custom_ops import DOMAIN, VERSION
from nnkit.errors import ModelError
from nnkit.graph import Model
from nnkit.importers.tidy import constants_to_initializers

if TYPE_CHECKING:
    import onnx


def with_opset(model: Model, opset: int, where: str = "") -> Model:
    """`model` in operator set `opset`: names, tags, metadata and constants are kept.

    where: the model's file, for messages.

    Raises:
        ModelError: ONNX has no conversion for one of its operators.
    """
    from onnx import version_converter

    if model.opset == opset:
        return model
    before = model.proto()
    try:
        proto = version_converter.convert_version(before, opset)
    except Exception as error:  # whatever the converter's C++ throws
        raise ModelError(
            f"the model cannot be converted from operator set {model.opset} to {opset}: {error}",
            where=where,
            remedy="export all networks that are joined with one operator set",
        ) from error
    if any(node.domain == DOMAIN for node in before.graph.node) and DOMAIN not in {
        entry.domain for entry in proto.opset_import
    }:
        proto.opset_import.add(domain=DOMAIN, version=VERSION)
    constants_to_initializers(proto.graph)  # what was an attribute, the axes of a reduction, say
    _restore_metadata(before.graph, proto.graph)
    return replace(model, onnx_bytes=proto.SerializeToString(deterministic=True), opset=opset)


def _restore_metadata(before: onnx.GraphProto, after: onnx.GraphProto) -> None:
    """Conversion drops the metadata of nodes, but keeps the names of their results."""
    known = {node.output[0]: node for node in before.node if node.output}
    for node in after.node:
        former = known.get(node.output[0])
        if former is not None:
            del node.metadata_props[:]
            node.metadata_props.extend(former.metadata_props)
