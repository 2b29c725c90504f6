"""If whose condition is known at import (a constant, or computed of shapes): the branch that is taken stands in its
place.

torch.jit.script writes such an If around every Squeeze.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from nnkit.importers.tidy import graphs, read_names
from nnkit.importers.value_dims import value_dims
from nnkit.names import NamePool

Run = Callable[[onnx.ModelProto], Sequence[NDArray[Any]]]


def take_known_branches(proto: onnx.ModelProto, run: Run) -> tuple[str, ...]:
    """Put the nodes of taken branches in the place of their If, in place; a note on each.

    proto: with all shapes that can be inferred. run: gives the outputs of a model without inputs.
    """
    graph = proto.graph
    notes: list[str] = []
    defined = Counter(_defined_names(graph))
    names = NamePool(defined)
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        taken = _known_condition(proto, node.input[0], run) if _is_if(node) else None
        if taken is None:
            nodes.append(node)
            continue
        which = "then_branch" if taken else "else_branch"
        branch = next(attribute.g for attribute in node.attribute if attribute.name == which)
        own = {name: name if defined[name] == 1 else names.free(name) for name in _defined_here(branch)}
        body, constants = _body(branch, node.output, own)
        nodes += body
        graph.initializer.extend(constants)
        notes.append(f"layer '{node.name}' (If): its condition is known, and its {which} is taken")
    if notes:
        copies = [type(node).FromString(node.SerializeToString()) for node in nodes]
        del graph.node[:]
        graph.node.extend(copies)
    return tuple(notes)


def _is_if(node: onnx.NodeProto) -> bool:
    return node.op_type == "If" and not node.domain


def _defined_names(graph: onnx.GraphProto) -> list[str]:
    """Names of values in the graph and in graphs within it, as often as they are defined."""
    return [name for each in graphs(graph) for name in (*_defined_here(each), *(value.name for value in each.input))]


def _defined_here(graph: onnx.GraphProto) -> list[str]:
    return [*(name for node in graph.node for name in node.output), *(tensor.name for tensor in graph.initializer)]


def _known_condition(proto: onnx.ModelProto, name: str, run: Run) -> bool | None:
    """What a value that is computed of constants and shapes alone says; None for another value."""
    graph = proto.graph
    producers = {output: node for node in graph.node for output in node.output}
    tensors = {tensor.name: tensor for tensor in graph.initializer}
    values = (*graph.value_info, *graph.input)
    dims = {value.name: shape for value in values if (shape := value_dims(value)) is not None and -1 not in shape}
    dims |= {name: tuple(tensor.dims) for name, tensor in tensors.items()}
    part = onnx.ModelProto(ir_version=proto.ir_version, opset_import=proto.opset_import)
    part.graph.name = "condition"
    waiting, asked, nodes = [name], {name}, []
    while waiting:
        value = waiting.pop()
        node = producers.get(value)
        if value in tensors:
            part.graph.initializer.append(tensors[value])
        elif node is None:
            return None  # an input of the network
        elif (known := _of_shape(node, dims)) is not None:
            part.graph.initializer.append(onnx.numpy_helper.from_array(known, value))
        else:
            new = read_names(node) - asked
            if not read_names(node) and node.op_type != "Constant":
                return None  # a random number
            nodes.append(node)
            asked |= new
            waiting += new
    order = {id(node): place for place, node in enumerate(graph.node)}
    part.graph.node.extend(sorted({id(node): node for node in nodes}.values(), key=lambda node: order[id(node)]))
    part.graph.node.add(op_type="Identity", input=[name], output=[f"{name}.known"])
    part.graph.output.add(name=f"{name}.known").type.tensor_type.elem_type = onnx.TensorProto.BOOL
    try:
        (condition,) = run(part)
    except MemoryError:
        raise
    except Exception:
        return None  # ONNX Runtime cannot run it, which is reported where it runs the whole network
    return bool(condition.reshape(-1)[0]) if condition.size == 1 else None


def _of_shape(node: onnx.NodeProto, dims: Mapping[str, tuple[int, ...]]) -> NDArray[np.int64] | None:
    """What a Shape or a Size of a value whose shape is known gives."""
    shape = dims.get(node.input[0]) if node.input else None
    if shape is None or node.domain or node.op_type not in ("Shape", "Size"):
        return None
    if node.op_type == "Size":
        return np.array(prod(shape), np.int64)
    bounds = {attribute.name: attribute.i for attribute in node.attribute}
    return np.array(shape[bounds.get("start", 0) : bounds.get("end", len(shape))], np.int64)


def _body(
    branch: onnx.GraphProto, outputs: Sequence[str], own: Mapping[str, str]
) -> tuple[list[onnx.NodeProto], list[onnx.TensorProto]]:
    """Nodes and constants of a branch as parts of the graph around it; its results have the names `outputs`.

    own: the new names of its values and constants.
    """
    constants = {tensor.name: tensor for tensor in branch.initializer}
    nodes, handed = [], dict[str, str]()
    for result, output in zip(branch.output, outputs, strict=True):
        if result.name in own and result.name not in {*handed, *constants}:
            handed[result.name] = output
        else:  # a value of the graph around it, a constant, or one result twice
            source = handed.get(result.name) or own.get(result.name, result.name)
            nodes.append(onnx.helper.make_node("Identity", [source], [output]))
    new = {**own, **handed}
    copies = [onnx.TensorProto.FromString(tensor.SerializeToString()) for tensor in constants.values()]
    for tensor in copies:
        tensor.name = new[tensor.name]
    return [*(_renamed(node, new) for node in branch.node), *nodes], copies


def _renamed(node: onnx.NodeProto, new: Mapping[str, str]) -> onnx.NodeProto:
    """A copy that reads and gives values by their new names, also in graphs within it."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    for field in (copy.input, copy.output):
        field[:] = [new.get(name, name) for name in field]
    for attribute in copy.attribute:
        for graph in [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]:
            for value in graph.output:
                value.name = new.get(value.name, value.name)
            inner = [_renamed(each, new) for each in graph.node]
            del graph.node[:]
            graph.node.extend(inner)
    return copy
