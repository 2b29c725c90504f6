"""A Model as prototxt and caffemodel, in the order in which the network was written.

Layers that were imported from Caffe and are unchanged are written as they were (origin.py); every other node is
written by the rule for its operator (table.py). What Caffe cannot express is refused, all of it at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from nnkit.caffe.export.context import NodeContext
from nnkit.caffe.export.origin import OriginalLayer, original_layers
from nnkit.caffe.export.writer import NetworkWriter, WrittenLayer
from nnkit.graph import Model
from nnkit.graph.refusal import LayersRefused, Refusal, Refused, lines_and_remedy
from nnkit.graph.tag_words import split_tags
from nnkit.graph.view import GraphView, Node


@dataclass(frozen=True)
class CaffeFiles:
    """A written network.

    blobs: blob name by value name, inputs and outputs included. layers: names of the layers that each node became, by
    node name. notes: what differs from the graph, one sentence each.
    """

    prototxt: str
    caffemodel: bytes
    blobs: Mapping[str, str]
    layers: Mapping[str, tuple[str, ...]]
    notes: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class CaffeNetwork:
    """A network as Caffe layers, which become files under a name. Fields as of `CaffeFiles`."""

    blobs: Mapping[str, str]
    layers: Mapping[str, tuple[str, ...]]
    notes: tuple[str, ...]
    _writer: NetworkWriter
    _written_blobs: Mapping[str, str]

    def prototxt(self, name: str) -> str:
        """The network's layers as text."""
        return self._writer.prototxt(name, self._written_blobs)

    def caffemodel(self, name: str) -> bytes:
        """The network's weights."""
        return self._writer.caffemodel(name)


def export_caffe(model: Model, name: str | None = None) -> CaffeFiles:
    """Write a network for Caffe. name: of the network; the graph's own by default. Raises as `caffe_network`."""
    network = caffe_network(model)
    called = name or model.proto().graph.name or "network"
    return CaffeFiles(
        network.prototxt(called), network.caffemodel(called), network.blobs, network.layers, network.notes
    )


def caffe_network(
    model: Model, *, split_read_outputs: bool = True, most_name_bytes: int | None = None
) -> CaffeNetwork:
    """The network as Caffe layers.

    Tags become suffixes of layer names (`_hp`, `_cpu`) where the name does not end with them already.

    split_read_outputs: Caffe gives out only what no layer reads. A network output that is read as well is doubled by
        a Split layer, unless the files' reader has another way to be told of it.
    most_name_bytes: longer names of layers are shortened, and so are those of values that the export introduces; tags
        stay at the end. Values of the network keep their names.

    Raises:
        LayersRefused: the network has nodes that Caffe cannot express; all of them are listed.
    """
    from nnkit.caffe.export.table import RULES

    view = GraphView.of(model)
    inputs = {spec.name: spec.shape for spec in model.inputs}
    writer = NetworkWriter(inputs, view.outputs, most_name_bytes)
    writer.reserve_values([*inputs, *view.producers, *view.shapes])
    originals = original_layers(view)
    covered = {index: last for last, original in originals.items() for index in original.indices}
    refused: list[Refusal] = []
    made: dict[str, tuple[str, ...]] = {}
    for index, node in enumerate(view.nodes):
        before = len(writer.layers)
        original = originals.get(covered.get(index, -1))
        if original is not None:
            if index == original.indices[-1]:
                _write_original(original, view, writer, node)
        else:
            label, suffix = _tagged(model, node, node.name)
            context = NodeContext(node, view, writer, label, suffix)
            try:
                if node.op_type not in RULES or node.domain not in ("", "ai.nnkit"):
                    raise Refused("Caffe has no such layer", "replace it by operators that Caffe has")
                RULES[node.op_type](context)
            except Refused as refusal:
                del writer.layers[before:]
                refused.append(Refusal(node.name, node.op_type, refusal.reason, refusal.remedy))
        made[node.name] = tuple(layer.name for layer in writer.layers[before:])
    if refused:
        raise _error(refused)
    if split_read_outputs:
        _split_outputs(writer, view)
    _silence(writer, view)
    blobs = writer.blobs()
    return CaffeNetwork(
        blobs=MappingProxyType({value: blobs[value] for value in blobs if value in view.shapes}),
        layers=MappingProxyType(made),
        notes=tuple(writer.notes),
        _writer=writer,
        _written_blobs=MappingProxyType(blobs),
    )


def _tagged(model: Model, node: Node, name: str) -> tuple[str, str]:
    """A layer's name without the tags that it ends with, and those tags and the node's others as a suffix.

    A tag elsewhere in the name (`conv_hp_1`) tags the layer for nnkit; readers of Caffe files do not see it there.
    """
    tags = [model.tags.of(value) for value in node.results]
    plain, said = split_tags(name)
    wanted = {"_hp": any(t.hp for t in tags), "_cpu": any(t.cpu for t in tags)}
    return plain, said + "".join(tag for tag, on in wanted.items() if on and tag not in said)


def _write_original(original: OriginalLayer, view: GraphView, writer: NetworkWriter, node: Node) -> None:
    layer = original.layer
    name = writer.layer_name(*_tagged(view.model, node, layer.name))
    bottoms, tops = list(layer.bottoms), list(layer.tops)
    writer.layers.append(
        WrittenLayer(name, layer.type, bottoms, tops, original.message, layer.weights, layer.in_place)
    )


def _error(refused: list[Refusal]) -> LayersRefused:
    lines, remedy = lines_and_remedy(
        f"the network has layers that Caffe cannot express ({len(refused)}):",
        refused,
        "restructure these layers, or write them as Custom layers that run on the CPU",
    )
    return LayersRefused(lines, refused, remedy=remedy)


def _split_outputs(writer: NetworkWriter, view: GraphView) -> None:
    """Double outputs that are read as well, lest they are none."""
    from nnkit.caffe.schema import messages

    readers: dict[str, list[WrittenLayer]] = {}
    makers: dict[str, WrittenLayer] = {}
    for layer in writer.layers:
        makers.update(dict.fromkeys(layer.tops, layer))
        for bottom in set(layer.bottoms).intersection(view.outputs):
            readers.setdefault(bottom, []).append(layer)
    for output in [name for name in view.outputs if name in readers]:
        made = makers[output]
        source, copy = writer.value_name(f"{output}_source"), writer.value_name(f"{output}_read")
        made.tops = [source if top == output else top for top in made.tops]
        for layer in readers[output]:
            layer.bottoms = [copy if bottom == output else bottom for bottom in layer.bottoms]
        split = WrittenLayer(
            writer.layer_name(f"{output}_split"), "Split", [source], [output, copy], messages.LayerParameter()
        )
        writer.layers.insert(writer.layers.index(made) + 1, split)
        writer.notes.append(f"output '{output}' is read by other layers too: a Split layer gives it out")


def _silence(writer: NetworkWriter, view: GraphView) -> None:
    """Swallow values that nothing reads and that are no outputs, lest they become outputs."""
    from nnkit.caffe.schema import messages

    read = {bottom for layer in writer.layers for bottom in layer.bottoms}
    unread = [top for layer in writer.layers for top in layer.tops if top not in read and top not in view.outputs]
    if unread:
        name = writer.layer_name("silence")
        writer.layers.append(WrittenLayer(name, "Silence", unread, [], messages.LayerParameter()))
        writer.notes.append(f"values that nothing uses are swallowed by the layer '{name}': {', '.join(unread[:5])}")
