"""The network as the mapper gets it: prototxt and caffemodel, and which name in them stands for what.

* A layer that is written as Custom becomes one Custom layer with the shapes of its tops.
* The exporter ends a layer's name with its tags, `_hp` and `_cpu`. A network output that other layers read as well
  gets the suffix `_report` on its blob.
* Types of depthwise convolutions that other versions of Caffe have are written as Convolution, with their groups.
* Names have at most 31 bytes (a compiled network cuts them there) and characters that survive a cfg, a file name and
  a C string; a longer one is shortened and gets part of its digest, and `segments.json` tells which is which. That
  holds for the layers that the exporter adds to a node's own, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from nnkit.graph import InputSpec, LayerTags, Model, ValueTags
from nnkit.graph.metadata import CAFFE_BOTTOMS, CAFFE_LAYER, CAFFE_TYPE
from nnkit.graph.refusal import LayersRefused
from nnkit.graph.tag_words import split_tags
from nnkit.names import shortened
from nnkit_nnie.layer_kinds import FORKS_OF_DEPTHWISE
from nnkit_nnie.layers import REPORT_SUFFIX, Layer
from nnkit_nnie.network import Network
from nnkit_nnie.wk.nodes import NAME_BYTES

if TYPE_CHECKING:
    import onnx

    from nnkit.caffe.export import CaffeNetwork

MAX_NAME_BYTES = NAME_BYTES
_ODD = re.compile(r"[^A-Za-z0-9_.-]")


@dataclass(frozen=True, eq=False, kw_only=True)
class WrittenNames:
    """layers: names of the written layers that a layer became. blobs: blob name by value name."""

    layers: Mapping[str, tuple[str, ...]]
    blobs: Mapping[str, str]

    def __post_init__(self) -> None:
        for name in ("layers", "blobs"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))


@dataclass(frozen=True, eq=False, kw_only=True)
class CaffePair(WrittenNames):
    """caffe: the network's layers as prototxt and caffemodel have them. notes: what the exporter says."""

    caffe: CaffeNetwork

    @property
    def notes(self) -> tuple[str, ...]:
        """What differs from the network, one sentence each."""
        return self.caffe.notes


def all_names(pairs: Iterable[WrittenNames]) -> WrittenNames:
    """The names of several networks that were one."""
    layers: dict[str, tuple[str, ...]] = {}
    blobs: dict[str, str] = {}
    for pair in pairs:
        layers.update(pair.layers)
        blobs.update(pair.blobs)
    return WrittenNames(layers=layers, blobs=blobs)


def caffe_pair(network: Network) -> CaffePair:
    """A divided network as the mapper gets it.

    Raises LayersRefused for what Caffe cannot express, all of it at once, by the layers' names.
    """
    from nnkit.caffe.export import caffe_network

    model, nodes, values = _renamed(network)
    try:
        caffe = caffe_network(model, split_read_outputs=False, most_name_bytes=MAX_NAME_BYTES)
    except LayersRefused as error:
        layer_of = {node: layer for layer, named in nodes.items() for node in named}
        refusals = [replace(each, layer=layer_of.get(each.layer, each.layer)) for each in error.refusals]
        raise LayersRefused(error.reason, refusals, remedy=error.remedy) from error
    return CaffePair(
        caffe=caffe,
        layers={
            layer.name: tuple(written for node in nodes[layer.name] for written in caffe.layers.get(node, ()))
            for layer in network.layers
        },
        blobs={value: caffe.blobs[new] for value, new in values.items() if new in caffe.blobs},
    )


def _renamed(network: Network) -> tuple[Model, dict[str, tuple[str, ...]], dict[str, str]]:
    """The model for the exporter, the node names of each layer, and new value names by old ones."""
    from nnkit.custom_ops import Custom

    graph = network.graph
    values, names = _value_names(network), _node_names(network)
    proto = graph.model.proto()
    nodes: list[onnx.NodeProto] = []
    nodes_of: dict[str, tuple[str, ...]] = {}
    for layer in network.layers:
        if layer.custom:
            custom = Custom.of([graph.shape(value) for value in layer.outputs], caffe_type=layer.kind)
            label = names[layer.name]
            nodes.append(custom.node([values[n] for n in layer.inputs], [values[n] for n in layer.outputs], label))
            nodes_of[layer.name] = (label,)
            continue
        written = [_renamed_node(proto.graph.node[node.index], names, values) for node in layer.nodes]
        nodes += written
        nodes_of[layer.name] = tuple(node.name for node in written)
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)
    for value in (*proto.graph.input, *proto.graph.output, *proto.graph.value_info):
        value.name = values.get(value.name, value.name)
    return _model(network, proto, values), nodes_of, values


def _renamed_node(node: onnx.NodeProto, names: Mapping[str, str], values: Mapping[str, str]) -> onnx.NodeProto:
    import onnx

    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    copy.name = names.get(node.name or node.output[0], node.name)
    for position, name in enumerate(node.input):
        copy.input[position] = values.get(name, name)
    for position, name in enumerate(node.output):
        copy.output[position] = values.get(name, name)
    for entry in list(copy.metadata_props):
        if entry.key == CAFFE_TYPE and entry.value in FORKS_OF_DEPTHWISE:
            copy.metadata_props.remove(entry)  # what knows no type of its own is written by its operator
        elif entry.key == CAFFE_LAYER:
            entry.value = names.get(entry.value, entry.value)
        elif entry.key == CAFFE_BOTTOMS:
            entry.value = json.dumps([values.get(name, name) for name in json.loads(entry.value)], ensure_ascii=False)
    return copy


def _model(network: Network, proto: onnx.ModelProto, values: Mapping[str, str]) -> Model:
    from nnkit.custom_ops import DOMAIN, VERSION

    if DOMAIN not in {entry.domain for entry in proto.opset_import}:
        entry = proto.opset_import.add()
        entry.domain, entry.version = DOMAIN, VERSION
    model = network.graph.model
    read = {name for node in proto.graph.node for name in node.input}
    lasting = [tensor for tensor in proto.graph.initializer if tensor.name in read]
    del proto.graph.initializer[:]
    proto.graph.initializer.extend(lasting)
    custom = {name for layer in network.layers if layer.custom for name in layer.outputs}
    tags = {values.get(name, name): tag for name, tag in model.tags.values.items() if name not in custom}
    for name in (name for layer in network.layers if layer.cpu for name in layer.outputs):
        tags[values[name]] = model.tags.of(name).merged(ValueTags(cpu=True))
    shapes = {spec.name: _input_shape(network, spec) for spec in model.inputs}
    for spec, value in zip(model.inputs, proto.graph.input, strict=True):
        for _ in shapes[spec.name][len(spec.shape) :]:
            value.type.tensor_type.shape.dim.add(dim_value=1)
    return Model(
        proto.SerializeToString(),
        LayerTags(tags),
        tuple(replace(spec, name=values[spec.name], shape=shapes[spec.name]) for spec in model.inputs),
        tuple(replace(spec, name=values[spec.name]) for spec in model.outputs),
        model.opset,
    )


def _input_shape(network: Network, spec: InputSpec) -> tuple[int, ...]:
    """Rows [1, C, L] that are only reshaped, as a map [1, C, L, 1]: blobs of the NNIE have four dimensions."""
    readers = [layer for layer in network.layers if spec.name in layer.inputs]
    rows = len(spec.shape) == 3 and all(layer.kind == "Reshape" for layer in readers)
    return (*spec.shape, 1) if rows else spec.shape


def _node_names(network: Network) -> dict[str, str]:
    """New names of nodes, and of Caffe layers in their metadata, by old ones; with room for the tags."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for layer in network.layers:
        for old in (layer.name, *(node.name for node in layer.nodes), *(part.name for part in layer.in_place)):
            if old not in names:
                plain, said = split_tags(old)
                names[old] = _free(plain, said, taken, MAX_NAME_BYTES - _tag_room(layer, said))
    return names


def _tag_room(layer: Layer, said: str) -> int:
    """Bytes that the exporter's suffixes take. said: the tags that the name ends with."""
    return sum(len(tag) for tag, on in (("_hp", layer.hp), ("_cpu", layer.cpu)) if on and tag not in said)


def _value_names(network: Network) -> dict[str, str]:
    graph = network.graph
    names: dict[str, str] = {}
    taken: set[str] = set()
    for name in (*graph.inputs, *(n for layer in network.layers for n in (*layer.inner, *layer.outputs))):
        reported = name.endswith(REPORT_SUFFIX) or (name in graph.outputs and name in graph.consumers)
        suffix = REPORT_SUFFIX if reported else ""
        names[name] = _free(name.removesuffix(suffix), suffix, taken, MAX_NAME_BYTES)
    return names


def _free(name: str, suffix: str, taken: set[str], room: int) -> str:
    free, number = safe_name(name, suffix, room), 2
    while free in taken:
        free, number = safe_name(f"{name}~{number}", suffix, room), number + 1
    taken.add(free)
    return free


def safe_name(name: str, suffix: str = "", room: int = MAX_NAME_BYTES) -> str:
    """`name` + `suffix` in plain characters; beyond `room` bytes it is shortened, and gets a digest."""
    return shortened(_ODD.sub("_", name), suffix, room, original=name)
