"""Token ids: a Gather of a constant table by numbers that are kept within it, as one layer of floats."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nnkit.graph import Model
    from nnkit.graph.view import GraphView, Node


def with_embeddings(model: Model) -> Model:
    """Each such Gather as an Embedding of `ai.nnkit`, without the Clip and Cast in front of it."""
    from onnx import helper

    from nnkit.custom_ops import DOMAIN, VERSION, Embedding
    from nnkit.graph.read.embedding import only_numbers_rows
    from nnkit.graph.view import GraphView

    graph = GraphView.of(model)
    ids = {node.output: name for node in graph.nodes if (name := _ids(graph, node)) is not None}
    if not ids:
        return model
    gone = {
        node.output
        for node in graph.nodes
        if node.is_op("Clip", "Cast") and only_numbers_rows(graph, node) and _all_taken(graph, node.output, ids)
    }
    proto = model.proto()
    nodes = [node for node in proto.graph.node if not (node.output and node.output[0] in gone)]
    del proto.graph.node[:]
    for node in nodes:
        output = node.output[0]
        made = Embedding().node([ids[output], node.input[0]], [output]) if output in ids else node
        made.name = node.name
        proto.graph.node.append(made)
    if all(each.domain != DOMAIN for each in proto.opset_import):
        proto.opset_import.append(helper.make_opsetid(DOMAIN, VERSION))
    return replace(model, onnx_bytes=proto.SerializeToString(deterministic=True))


def _ids(graph: GraphView, node: Node) -> str | None:
    from nnkit.graph.read.embedding import read_embedding
    from nnkit.graph.refusal import Refused

    if not node.is_op("Gather"):
        return None
    try:
        return read_embedding(graph, node).ids
    except Refused:
        return None  # told with all other layers that there is no C for


def _all_taken(graph: GraphView, value: str, ids: dict[str, str]) -> bool:
    """Whether everything behind a Clip or Cast is such a Gather."""
    return all(
        reader.output in ids if reader.is_op("Gather") else _all_taken(graph, reader.output, ids)
        for reader in graph.consumers.get(value, ())
    )
