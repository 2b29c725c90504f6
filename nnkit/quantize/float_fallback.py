"""Operators that a quantiser has no integers for, as float ops that stay in float."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nnkit.graph.refusal import Refused
from nnkit.graph.view import GraphView, Node
from nnkit.quantize.float_program import FloatOnnx

if TYPE_CHECKING:
    import onnx

_FLOAT = 1  # ONNX's number of the type


def kept_in_float(view: GraphView, node: Node) -> FloatOnnx:
    """The node as an operator of its own.

    Raises Refused where it cannot stand between integers: several results, values that are no float32 numbers, a
    batch of several, or a domain that is not ONNX's.
    """
    data = tuple(dict.fromkeys(view.data_inputs(node)))
    if node.domain or len(node.results) != 1 or not data or view.absorbed_by(node):
        raise Refused("it cannot stay in float: it is no single operator of ONNX with one result")
    for name in (*data, node.output):
        shape = view.shape(name)
        if view.element_types.get(name, _FLOAT) != _FLOAT or shape[:1] != (1,) or len(shape) == 1:
            raise Refused(f"it cannot stay in float: '{name}' is no value of a batch of one float32 input")
    return FloatOnnx(
        name=node.name,
        inputs=data,
        output=node.output,
        range_value=node.output,
        tags=view.tags.of(node.output),
        operator=node.op_type,
        model=_model(view, node, data),
    )


def _model(view: GraphView, node: Node, data: tuple[str, ...]) -> bytes:
    from onnx import TensorProto, helper, numpy_helper

    proto = node.proto()
    constants = [name for name in dict.fromkeys(node.inputs) if name in view.constants]

    def info(name: str) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, view.shape(name))

    graph = helper.make_graph(
        [proto],
        "operator",
        [info(name) for name in data],
        [info(node.output)],
        [numpy_helper.from_array(view.constants[name], name) for name in constants],
    )
    whole = view.model.proto()
    sets = [each for each in whole.opset_import if each.domain in ("", "ai.onnx")]
    model = helper.make_model(graph, opset_imports=sets, ir_version=whole.ir_version)
    return bytes(model.SerializeToString(deterministic=True))
