"""Tidying a graph as exporters leave it: constants as initializers, names for all layers, nothing unused."""

from __future__ import annotations

import heapq
from collections import Counter
from typing import TYPE_CHECKING, Any

from nnkit.errors import ModelError
from nnkit.names import NamePool

if TYPE_CHECKING:
    import onnx

_CONSTANT_FIELDS = ("value", "value_float", "value_floats", "value_int", "value_ints")
_OPTIONAL_OUTPUTS = frozenset(["Dropout", "MaxPool", "BatchNormalization"])


def strip_annotations(proto: onnx.ModelProto) -> None:
    """Drop what is of no use in deployment: doc strings and metadata (stack traces with paths of the training
    machine, marks that look like ours), training graphs, stale shapes of inner values, and the empty places of inputs
    and outputs that are left out behind the others (on those ONNX Runtime's process ends: a LayerNormalization's
    bias)."""
    del proto.metadata_props[:], proto.training_info[:]
    proto.doc_string = ""
    for graph in graphs(proto.graph):
        graph.doc_string = ""
        del graph.value_info[:], graph.metadata_props[:]
        for node in graph.node:
            node.doc_string = ""
            del node.metadata_props[:]
            for names in (node.input, node.output):
                while names and not names[-1]:
                    del names[-1]
            for attribute in node.attribute:
                attribute.doc_string = ""
    for value in (*proto.graph.input, *proto.graph.output):
        value.doc_string = ""
    for tensor in proto.graph.initializer:
        tensor.doc_string = ""
    if not proto.graph.name:
        proto.graph.name = "network"


def check_value_names(graph: onnx.GraphProto, where: str) -> None:
    """Every value has one producer, and every network output is computed by a layer or a constant.

    Raises:
        ModelError: naming the value.
    """
    produced = [name for node in graph.node for name in node.output if name]
    fed = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    counts = Counter(produced) + Counter(fed)
    for kind, names in (("input", graph.input), ("initializer", graph.initializer), ("output", graph.output)):
        repeated = [name for name, count in Counter(value.name for value in names).items() if count > 1]
        if repeated or any(not value.name for value in names):
            which = f"has the name of another: '{repeated[0]}'" if repeated else "has no name"
            raise ModelError(f"an {kind} of the graph {which}", where=where, remedy="export the network again")
    twice = next((name for name, count in counts.items() if count > 1), None)
    if twice is not None:
        raise ModelError(f"value '{twice}' is produced twice", where=where, remedy="export the network again")
    given = {*produced, *(tensor.name for tensor in graph.initializer)}
    for output in graph.output:
        if output.name not in given:
            raise ModelError(
                f"output '{output.name}' is computed by no layer",
                where=where,
                remedy="export the network with outputs that layers compute",
            )


def sort_nodes(graph: onnx.GraphProto, where: str) -> bool:
    """Bring the nodes into an order of execution, as near to the given one as possible; whether anything moved.

    Raises:
        ModelError: a layer reads a value that nothing computes, or layers read one another in a circle.
    """
    known = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    produced = known.union(*(node.output for node in graph.node))
    waiting: dict[str, list[int]] = {}
    missing: list[int] = []
    ready: list[int] = []
    for index, node in enumerate(graph.node):
        absent = sorted(read_names(node) - known)
        nowhere = [name for name in absent if name not in produced]
        if nowhere:
            raise ModelError(
                f"layer '{node.name or node.op_type}' reads value '{nowhere[0]}', which nothing computes",
                where=where,
                remedy="export the network again",
            )
        missing.append(len(absent))
        for name in absent:
            waiting.setdefault(name, []).append(index)
        if not absent:
            ready.append(index)
    order: list[int] = []
    while ready:
        index = heapq.heappop(ready)
        order.append(index)
        for reader in (reader for name in graph.node[index].output for reader in waiting.get(name, ())):
            missing[reader] -= 1
            if not missing[reader]:
                heapq.heappush(ready, reader)
    if len(order) < len(graph.node):
        stuck = graph.node[next(index for index, count in enumerate(missing) if count)]
        raise ModelError(
            f"layer '{stuck.name or stuck.op_type}' depends on its own result", where=where, remedy="export it again"
        )
    moved = order != sorted(order)
    if moved:
        nodes = [type(graph.node[0]).FromString(graph.node[index].SerializeToString()) for index in order]
        del graph.node[:]
        graph.node.extend(nodes)
    return moved


def name_left_out_outputs(graph: onnx.GraphProto) -> None:
    """Give optional outputs that are left out in front of others (an LSTM's Y before its Y_h) names that nothing
    reads, so that every output of a layer is a value with a shape."""
    nodes = [node for each in graphs(graph) for node in each.node]
    names = NamePool({name for node in nodes for name in (*node.input, *node.output)})
    for node in nodes:
        for place, name in enumerate(node.output):
            if not name:
                node.output[place] = names.free(f"{node.output[-1]}.left_out")


def drop_constant_outputs(graph: onnx.GraphProto, where: str) -> tuple[str, ...]:
    """Take outputs that no input of the network reaches from its outputs, as they are the same at every run; a note
    on each. The nodes are in an order of execution.

    Raises:
        ModelError: none would be left.
    """
    varying = {value.name for value in graph.input}
    for node in graph.node:
        if not varying.isdisjoint(read_names(node)):
            varying.update(node.output)
    constant = [value.name for value in graph.output if value.name not in varying]
    if not constant:
        return ()
    if len(constant) == len(graph.output):
        raise ModelError(
            f"no output of the network depends on its inputs: {', '.join(constant)}",
            where=where,
            remedy="export the network with an output that is computed of an input",
        )
    _keep(graph.output, [value for value in graph.output if value.name in varying])
    return tuple(
        f"output '{name}' depends on no input and is left out: its values are the same at every run"
        for name in constant
    )


def constants_to_initializers(graph: onnx.GraphProto) -> None:
    """Constant nodes become initializers; those with text or a sparse value stay, and no target takes them."""
    import numpy as np
    from onnx import helper, numpy_helper

    kept = []
    for node in graph.node:
        fields = {attribute.name: attribute for attribute in node.attribute}
        field = next((name for name in _CONSTANT_FIELDS if name in fields), None)
        if node.op_type != "Constant" or node.domain or field is None or len(node.output) != 1:
            kept.append(node)
            continue
        name = node.output[0]
        tensor = graph.initializer.add()
        value = helper.get_attribute_value(fields[field])
        dtype = np.float32 if "float" in field else np.int64
        tensor.CopyFrom(value if field == "value" else numpy_helper.from_array(np.asarray(value, dtype)))
        tensor.name = name
    _keep(graph.node, kept)


def drop_initializers_from_inputs(graph: onnx.GraphProto) -> int:
    """Old exporters list the weights as inputs too. Returns how many were."""
    weights = {tensor.name for tensor in graph.initializer}
    kept = [value for value in graph.input if value.name not in weights]
    dropped = len(graph.input) - len(kept)
    _keep(graph.input, kept)
    return dropped


def name_nodes(graph: onnx.GraphProto) -> tuple[str, ...]:
    """Give every node a name of its own; notes on what was renamed.

    An unnamed node takes its first output's name. Of several nodes of one name the later ones get `_2`, `_3`.
    """
    notes = []
    taken = {node.name for node in graph.node if node.name}
    seen: set[str] = set()
    for node in graph.node:
        wanted = node.name or next((value for value in node.output if value), node.op_type)
        name, count = wanted, 2
        while name in seen or (name in taken and name != node.name):
            name, count = f"{wanted}_{count}", count + 1
        if node.name and name != node.name:
            notes.append(f"layer '{node.name}' shares its name with another and is called '{name}'")
        node.name = name
        seen.add(name)
    return tuple(notes)


def drop_unused(graph: onnx.GraphProto) -> tuple[str, ...]:
    """Remove layers that reach no output, unread optional outputs, initializers and inputs; notes on what goes."""
    notes = []
    needed = {value.name for value in graph.output}
    kept = []
    for node in reversed(graph.node):
        if needed.isdisjoint(name for name in node.output if name):
            notes.append(f"layer '{node.name or node.op_type}' reaches no output and is left out")
            continue
        needed.update(read_names(node))
        kept.append(node)
    notes.reverse()
    for node in kept:
        if node.op_type in _OPTIONAL_OUTPUTS and not node.domain:
            while len(node.output) > 1 and node.output[-1] not in needed:
                del node.output[-1]
    _keep(graph.node, kept[::-1])
    _keep(graph.initializer, [tensor for tensor in graph.initializer if tensor.name in needed])
    notes += [
        f"input '{value.name}' is not used and is left out" for value in graph.input if value.name not in needed
    ]
    _keep(graph.input, [value for value in graph.input if value.name in needed])
    return tuple(notes)


def read_names(node: onnx.NodeProto) -> set[str]:
    """Names that a node reads; of what its sub-graphs read, those that come from outside."""
    names = {name for name in node.input if name}
    for attribute in node.attribute:
        for graph in _graphs_of(attribute):
            inside = {value.name for value in (*graph.input, *graph.initializer)}
            inside.update(name for inner in graph.node for name in inner.output)
            read = {value.name for value in graph.output}.union(*map(read_names, graph.node))
            names |= read - inside
    return names


def graphs(graph: onnx.GraphProto) -> list[onnx.GraphProto]:
    """The graph and all sub-graphs in it."""
    nested = [graph]
    for node in graph.node:
        for attribute in node.attribute:
            for inner in _graphs_of(attribute):
                nested += graphs(inner)
    return nested


def _graphs_of(attribute: onnx.AttributeProto) -> list[onnx.GraphProto]:
    return [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]


def _keep(field: Any, messages: list[Any]) -> None:
    """Reduce a repeated field to `messages`, which are some of its own in its order."""
    if len(messages) == len(field):
        return
    copies = [type(message).FromString(message.SerializeToString()) for message in messages]
    del field[:]
    field.extend(copies)
