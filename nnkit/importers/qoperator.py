"""Networks in ONNX Runtime's QOperator form -> QDQ form, which says the same with operators of float.

Every quantised operator becomes what dequantises its operands, the operator in float, and what quantises its result.
Those that move or compare stored integers (MaxPool, Reshape ...) are between such a pair of one scale, so that each
stored value has a real one beside it. Stored values keep their names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from nnkit.errors import ModelError

_BINARY = {"QLinearAdd": "Add", "QLinearMul": "Mul"}
_UNARY = {
    "QLinearGlobalAveragePool": "GlobalAveragePool",
    "QLinearAveragePool": "AveragePool",
    "QLinearSigmoid": "Sigmoid",
    "QLinearLeakyRelu": "LeakyRelu",
    "QLinearSoftmax": "Softmax",
}
_MOVES = ("MaxPool", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Slice")
_RUNTIME_ATTRIBUTES = ("channels_last", "opset")
"""Attributes of ONNX Runtime's operators that those in float do not have."""


def qoperators_to_qdq(graph: onnx.GraphProto) -> tuple[str, ...]:
    """Change the graph in place; notes for the user. Raises ModelError for what has no counterpart."""
    writers = {
        **dict.fromkeys(_BINARY, _binary),
        **dict.fromkeys(_UNARY, _unary),
        **_WRITERS,
    }
    quantised = [node for node in graph.node if node.op_type in writers]
    if not quantised:
        return ()
    build = _Build(graph, {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}, [], {})
    for node in graph.node:
        writer = writers.get(node.op_type)
        if writer is None and node.op_type in _MOVES and node.input[0] in build.steps and len(node.output) == 1:
            steps = build.steps[node.input[0]]
            build.op(node, node.op_type, [build.real(node.input[0], *steps), *node.input[1:]], *steps)
        elif node.op_type == "Pad" and node.input[0] in build.steps:
            _pad(build, node)
        elif writer is None:
            build.nodes.append(node)
            if node.op_type == "QuantizeLinear" and len(node.input) > 2:
                build.steps[node.output[0]] = (node.input[1], node.input[2])
        else:
            writer(build, node)
    del graph.node[:]
    graph.node.extend(build.nodes)
    del graph.value_info[:]
    return (f"{len(quantised)} quantised operators (QOperator form) are read as QDQ",)


@dataclass
class _Build:
    """steps: by stored value its scale and zero point."""

    graph: onnx.GraphProto
    constants: Mapping[str, NDArray[Any]]
    nodes: list[onnx.NodeProto]
    steps: dict[str, tuple[str, str]]

    def real(self, name: str, scale: str, zero: str, axis: int | None = None) -> str:
        """What dequantises a value; along an axis where there is more than one scale."""
        self.known(scale)
        more: dict[str, Any] = {"axis": axis} if axis is not None and self.constants[scale].size > 1 else {}
        result = f"{name}.real{len(self.nodes)}"
        inputs = [name, scale, zero] if zero else [name, scale]
        self.nodes.append(helper.make_node("DequantizeLinear", inputs, [result], name=result, **more))
        return result

    def constant(self, name: str, values: NDArray[Any]) -> str:
        self.graph.initializer.append(numpy_helper.from_array(values, name))
        self.constants = {**self.constants, name: values}
        return name

    def known(self, name: str) -> NDArray[Any]:
        if name not in self.constants:
            raise ModelError("its scale is computed at run time", where=name, remedy="export it as a constant")
        return self.constants[name]

    def op(self, node: onnx.NodeProto, kind: str, inputs: list[str], scale: str, zero: str, **own: Any) -> None:
        """The operator in float, and what quantises its result."""
        attributes = {each.name: helper.get_attribute_value(each) for each in node.attribute} | own
        kept = {
            key: value for key, value in attributes.items() if key not in _RUNTIME_ATTRIBUTES and value is not None
        }
        output = node.output[0]
        value = f"{output.removesuffix('_quantized')}.value"
        name = node.name or output
        self.nodes.append(helper.make_node(kind, inputs, [value], name=name, **kept))
        self.nodes.append(helper.make_node("QuantizeLinear", [value, scale, zero], [output], name=f"{name}.stored"))
        self.steps[output] = (scale, zero)


def _binary(build: _Build, node: onnx.NodeProto) -> None:
    a, b, (scale, zero) = node.input[:3], node.input[3:6], node.input[6:8]
    build.op(node, _BINARY[node.op_type], [build.real(*a), build.real(*b)], scale, zero)


def _unary(build: _Build, node: onnx.NodeProto) -> None:
    if any(each.name == "channels_last" and each.i for each in node.attribute):
        raise ModelError("it has its channels last", where=node.name, remedy="export it with channels first")
    build.op(node, _UNARY[node.op_type], [build.real(*node.input[:3])], node.input[3], node.input[4])


def _conv(build: _Build, node: onnx.NodeProto) -> None:
    x, x_scale, x_zero, w, w_scale, w_zero, scale, zero = node.input[:8]
    inputs = [build.real(x, x_scale, x_zero), build.real(w, w_scale, w_zero, axis=0)]
    if len(node.input) > 8 and node.input[8]:
        inputs.append(_bias(build, node.input[8], x_scale, w_scale))
    build.op(node, "Conv", inputs, scale, zero)


def _gemm(build: _Build, node: onnx.NodeProto) -> None:
    a, a_scale, a_zero, b, b_scale, b_zero, c = node.input[:7]
    if len(node.input) < 9 or not node.input[7]:
        raise ModelError("its result is not stored as integers", where=node.name, remedy="quantise it with a scale")
    transposed = any(each.name == "transB" and each.i for each in node.attribute)
    inputs = [build.real(a, a_scale, a_zero), build.real(b, b_scale, b_zero, axis=0 if transposed else 1)]
    if c:
        inputs.append(_bias(build, c, a_scale, b_scale))
    build.op(node, "Gemm", inputs, node.input[7], node.input[8])


def _matmul(build: _Build, node: onnx.NodeProto) -> None:
    a, b, (scale, zero) = node.input[:3], node.input[3:6], node.input[6:8]
    b_name, b_scale, b_zero = b
    build.op(node, "MatMul", [build.real(*a), build.real(b_name, b_scale, b_zero, axis=1)], scale, zero)


def _concat(build: _Build, node: onnx.NodeProto) -> None:
    scale, zero, *parts = node.input
    inputs = [build.real(*parts[i : i + 3]) for i in range(0, len(parts), 3)]
    build.op(node, "Concat", inputs, scale, zero)


def _pad(build: _Build, node: onnx.NodeProto) -> None:
    """What stands around a map is a stored integer; where it is left out, a stored 0, whatever that stands for."""
    scale, zero = build.steps[node.input[0]]
    inputs = [build.real(node.input[0], scale, zero), *node.input[1:]]
    if any(each.name == "mode" and each.s != b"constant" for each in node.attribute):
        build.op(node, "Pad", inputs, scale, zero)
        return
    stored = build.known(node.input[2]) if len(node.input) > 2 and node.input[2] else np.zeros((), np.int8)
    value = (stored.reshape(()).astype(np.int64) - build.known(zero)) * build.known(scale)
    inputs[2:3] = [build.constant(f"{node.output[0]}.around", value.astype(np.float32).reshape(()))]
    build.op(node, "Pad", inputs, scale, zero)


def _bias(build: _Build, name: str, x_scale: str, w_scale: str) -> str:
    """A bias in units of both scales."""
    scale = build.constant(f"{name}.scale{len(build.nodes)}", build.known(x_scale) * build.known(w_scale))
    return build.real(name, scale, "", axis=0)


_WRITERS: Mapping[str, Callable[[_Build, onnx.NodeProto], None]] = MappingProxyType(
    {
        "QLinearConv": _conv,
        "QGemm": _gemm,
        "QLinearMatMul": _matmul,
        "QLinearConcat": _concat,
    }
)
