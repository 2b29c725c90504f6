"""The restructured model as Caffe layers: what becomes one layer of the prototxt, its type, its tags.

Nodes that came from one Caffe layer are one layer again. Of an ONNX network a node is a layer, a Flatten before a
fully connected layer is part of it, and an activation that alone reads a layer's output runs in place, as part of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

import numpy as np

from nnkit.caffe.export.origin import original_layers
from nnkit.graph import NO_TAGS, ValueTags
from nnkit.graph.metadata import CAFFE_IN_PLACE, CAFFE_LAYER, CAFFE_ORIGIN, CAFFE_TYPE
from nnkit.graph.view import GraphView, Node
from nnkit.program.op import Placement
from nnkit_nnie.layer_kinds import ACTIVATIONS, CPU_KINDS, FORKS_OF_DEPTHWISE, KNOWN_KINDS, kind_of_op

REPORT_SUFFIX = "_report"
SHAPING_OPS = ("Flatten", "Reshape", "Squeeze", "Unsqueeze", "Identity")


@dataclass(frozen=True)
class InPlace:
    """An activation that runs as part of the layer before it. `cpu`: tagged so, which is not allowed."""

    name: str
    kind: str
    cpu: bool


@dataclass(frozen=True, eq=False)
class Layer:
    """One layer of the prototxt.

    kind: Caffe type. nodes: of the graph, in order. inputs: the computed values it reads. outputs: its tops, of which
    the first is also its name in tags. inner: values inside it that nothing else reads.
    custom: written as Custom with the shapes of its tops, because the mapper does not know it or must not run it.
    why_custom: in words, where `custom`.
    """

    name: str
    kind: str
    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    hp: bool = False
    cpu: bool = False
    custom: bool = False
    why_custom: str = ""
    in_place: tuple[InPlace, ...] = ()
    inner: tuple[str, ...] = field(default=())

    @property
    def main(self) -> Node:
        """The node that does the layer's work: the first that is no mere change of shape."""
        return next((node for node in self.nodes if node.op_type not in SHAPING_OPS), self.nodes[0])

    @property
    def placement(self) -> Placement:
        """Where it runs."""
        return "cpu" if self.cpu or self.custom or self.kind in CPU_KINDS else "npu"

    @property
    def known(self) -> bool:
        """Whether the mapper knows the type."""
        return self.kind in KNOWN_KINDS

    @property
    def report(self) -> bool:
        """Whether a top asks to be reported (`_report` at the end of its name)."""
        return any(name.endswith(REPORT_SUFFIX) for name in (*self.inner, *self.outputs))


def layers_of(graph: GraphView, custom: Sequence[str] = ()) -> tuple[Layer, ...]:
    """The layers in the order of the network.

    custom: globs over layer names; those that match are written as Custom.
    """
    graph = _without_changed_layers(graph)
    groups: list[list[Node]] = []
    group_of: dict[int, int] = {}
    for node in graph.nodes:
        home = _home(graph, node, groups, group_of)
        if home is None:
            home = len(groups)
            groups.append([])
        groups[home].append(node)
        group_of[node.index] = home
    layers = [_layer(graph, nodes) for nodes in groups]
    return _in_order(tuple(_marked_custom(layer, custom) for layer in layers), graph)


def _without_changed_layers(graph: GraphView) -> GraphView:
    """The graph, in which nodes say that they were a Caffe layer only where they still are that layer, whole.

    A rewrite may have put another layer between its nodes (a pooling in the place of an MVN's mean), which reads of
    them and is read by them, or in the place of the one that the layer is named for.
    """
    intact = {each.layer.name for each in original_layers(graph).values()}
    sizes = Counter(node.metadata.get(CAFFE_LAYER) for node in graph.nodes)

    def of_itself(node: Node) -> Node:
        name, kind = node.metadata.get(CAFFE_LAYER), node.metadata.get(CAFFE_TYPE)
        unknown = kind not in KNOWN_KINDS  # it is written as Custom, whatever its nodes are
        other_weights = sizes[name] == 1 and kind == kind_of_op(node.op_type, node.domain)
        if unknown or other_weights or name in intact:
            return node
        return replace(node, metadata={key: text for key, text in node.metadata.items() if key not in CAFFE_ORIGIN})

    return replace(graph, nodes=tuple(map(of_itself, graph.nodes)))


def _home(graph: GraphView, node: Node, groups: Sequence[Sequence[Node]], group_of: Mapping[int, int]) -> int | None:
    """The group that a node joins, or None where it begins one."""
    origin = node.metadata.get(CAFFE_LAYER)
    if origin is not None:
        for reader in reversed(groups):
            if reader[0].metadata.get(CAFFE_LAYER) == origin:
                return group_of[reader[0].index]
    sources = graph.data_inputs(node)
    if not sources:
        return None
    before = graph.producers.get(sources[0])
    if before is None or sources[0] in graph.outputs or len(graph.consumers.get(sources[0], ())) != 1:
        return None
    if _runs_in_place(graph, node, before) or (
        origin is None and _kind(graph, [node]) == "InnerProduct" and _only_flattens(graph, before)
    ):
        return group_of[before.index]
    return None


def _runs_in_place(graph: GraphView, node: Node, before: Node) -> bool:
    """Whether an activation follows its layer so closely that it runs in place."""
    if _kind(graph, [node]) not in ACTIVATIONS or len(graph.data_inputs(node)) != 1:
        return False
    host = _kind(graph, [before])
    if host not in KNOWN_KINDS or host in ("Proposal", "Split", "Dropout") or len(before.results) > 1:
        return False
    tags = graph.tags
    own, other = tags.of(node.output), tags.of(before.output)
    return CAFFE_IN_PLACE in node.metadata or own.cpu == other.cpu


def _only_flattens(graph: GraphView, node: Node) -> bool:
    if CAFFE_LAYER in node.metadata or node.op_type not in ("Flatten", "Reshape", "Squeeze"):
        return False
    tags = graph.tags.of(node.output)
    return len(graph.shape(node.output)) == 2 and not (tags.cpu or tags.hp)


def _layer(graph: GraphView, nodes: Sequence[Node]) -> Layer:
    origin = nodes[0].metadata.get(CAFFE_LAYER)
    body = [n for n in nodes if n.metadata.get(CAFFE_LAYER) == origin] if origin is not None else list(nodes)
    if origin is None:
        while len(body) > 1 and _kind(graph, [body[-1]]) in ACTIVATIONS:
            body.pop()
    followers = [node for node in nodes if node not in body]
    produced = [name for node in nodes for name in node.results]
    inside = {node.index for node in nodes}
    inputs = dict.fromkeys(name for node in nodes for name in graph.data_inputs(node) if name not in produced)
    outputs = tuple(
        name
        for name in produced
        if name in graph.outputs
        or not graph.consumers.get(name)
        or any(reader.index not in inside for reader in graph.consumers[name])
    )
    tags = _merged(graph.tags.of(name) for node in body for name in node.results)
    kind = _kind(graph, body)
    named = next((n for n in body if n.op_type not in SHAPING_OPS), body[-1])
    return Layer(
        name=origin if origin is not None else named.name,
        kind=kind,
        nodes=tuple(nodes),
        inputs=tuple(inputs),
        outputs=outputs,
        hp=tags.hp or any(graph.tags.of(name).hp for node in followers for name in node.results),
        cpu=tags.cpu,
        in_place=tuple(
            InPlace(node.metadata.get(CAFFE_LAYER, node.name), _kind(graph, [node]), graph.tags.of(node.output).cpu)
            for node in followers
        ),
        inner=tuple(name for name in produced if name not in outputs),
    )


def _merged(tags: Iterable[ValueTags]) -> ValueTags:
    result = NO_TAGS
    for each in tags:
        result = result.merged(each)
    return result


def _marked_custom(layer: Layer, globs: Sequence[str]) -> Layer:
    if not layer.known:
        return replace(layer, custom=True, cpu=False, why_custom=f"the mapper does not know the type {layer.kind}")
    if layer.cpu:
        return layer
    matched = next((glob for glob in globs if fnmatchcase(layer.name, glob)), None)
    if matched is not None:
        return replace(layer, custom=True, why_custom=f"named by the recipe ({matched!r})")
    return layer


def _in_order(layers: tuple[Layer, ...], graph: GraphView) -> tuple[Layer, ...]:
    """Sort layers so that each stands after what it reads, in the order of the network wherever that allows it."""
    ready = set(graph.inputs)
    waiting, ordered = list(layers), []
    while waiting:
        position = next((i for i, layer in enumerate(waiting) if ready.issuperset(layer.inputs)), 0)
        chosen = waiting.pop(position)
        ready.update((*chosen.inner, *chosen.outputs))
        ordered.append(chosen)
    return tuple(ordered)


def _kind(graph: GraphView, nodes: Sequence[Node]) -> str:
    """The Caffe type of the nodes of one layer, without what runs in place."""
    written = nodes[0].metadata.get(CAFFE_TYPE)
    if written:
        return "DepthwiseConv" if written in FORKS_OF_DEPTHWISE else written
    node = next((n for n in nodes if kind_of_op(n.op_type, n.domain) not in ("Flatten", "Reshape")), nodes[-1])
    op = node.op_type
    if node.domain:
        return kind_of_op(op, node.domain)
    if op == "Conv":
        return "DepthwiseConv" if _is_depthwise(graph, node) else "Convolution"
    if op == "MatMul":
        return "InnerProduct" if node.inputs[1] in graph.constants else "MatMul"
    if op in ("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min"):
        return _arithmetic_kind(graph, node)
    if op in ("Reshape", "Squeeze") and _flattens(graph, node):
        return "Flatten"
    if op == "Resize":
        return "Upsample" if node.text("mode", "nearest") == "nearest" else "Interp"
    return kind_of_op(op, node.domain)


def _flattens(graph: GraphView, node: Node) -> bool:
    """Whether a reshape gives one vector an image, which is what the exporter writes as Flatten."""
    shape, result = graph.shape(node.inputs[0]), graph.shape(node.output)
    return len(result) == 2 and len(shape) > 2 and shape[0] == result[0]


def _is_depthwise(graph: GraphView, node: Node) -> bool:
    channels = graph.shape(node.inputs[0])[1]
    return channels > 1 and node.integer("group", 1) == channels == graph.shape(node.output)[1]


def _arithmetic_kind(graph: GraphView, node: Node) -> str:
    """Power for one constant number, Scale or Bias for one per channel, Eltwise for two computed values."""
    op = node.op_type
    computed = graph.data_inputs(node)
    if len(computed) == 2:
        return "Eltwise" if op in ("Add", "Sub", "Mul", "Max") else op
    constants = [graph.constants[name] for name in node.inputs if name in graph.constants]
    if len(computed) != 1 or len(constants) != 1 or op in ("Max", "Min"):
        return op
    array = constants[0]
    if op == "Pow" or (array.size and np.all(array == array.flat[0])):
        return "Power" if array.size and np.all(array == array.flat[0]) else op
    shape = graph.shape(node.output)
    per_channel = array.size == shape[1] and [side for side in array.shape if side > 1] == [shape[1]]
    if not per_channel or (len(shape) == 4 and array.ndim < 3):
        return op
    return "Bias" if op in ("Add", "Sub") else "Scale"
