"""A model of one node (or a few), as the readers' tests see it and as ONNX Runtime runs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from nnkit.custom_ops import infer_shapes
from nnkit.graph import InputSpec, LayerTags, Model, OutputSpec
from nnkit.graph.view import GraphView, Node


@dataclass(frozen=True, eq=False)
class OneNode:
    """view, node: what readers get. x: the numbers of the input `x`. y: what ONNX Runtime makes of them."""

    view: GraphView
    node: Node
    x: NDArray[np.float32]
    y: NDArray[Any]


def one_node(
    op: str,
    x: Sequence[int] | NDArray[Any],
    constants: Mapping[str, Any] | None = None,
    *,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] = ("y",),
    opset: int = 17,
    **attributes: Any,
) -> OneNode:
    """One node named "op" that reads `x` (given by its numbers or its shape) and the constants, in their order.

    inputs: the order of its inputs where it is another; names that are neither `x` nor constants are computed.
    """
    numbers = _numbers(x)
    arrays = {name: np.asarray(value) for name, value in (constants or {}).items()}
    names = list(inputs) if inputs is not None else ["x", *arrays]
    node = helper.make_node(op, names, list(outputs), name="op", **attributes)
    model = model_of([node], {"x": numbers.shape}, arrays, outputs[:1], opset)
    y = onnxruntime.InferenceSession(model.onnx_bytes, providers=["CPUExecutionProvider"]).run(None, {"x": numbers})[
        0
    ]
    view = GraphView.of(model)
    return OneNode(view, view.nodes[0], numbers, y)


def view_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sequence[int]],
    constants: Mapping[str, NDArray[Any]] | None = None,
    outputs: Sequence[str] = ("y",),
    opset: int = 17,
) -> GraphView:
    """The view of a small network."""
    return GraphView.of(model_of(nodes, inputs, constants or {}, outputs, opset))


def model_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sequence[int]],
    constants: Mapping[str, NDArray[Any]],
    outputs: Sequence[str],
    opset: int = 17,
) -> Model:
    """A model with inferred shapes; its float inputs by shape."""
    fed = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()]
    made = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    tensors = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("ai.nnkit", 1)]
    proto = helper.make_model(helper.make_graph(nodes, "net", fed, made, tensors), opset_imports=imports)
    proto.ir_version = 8
    proto = infer_shapes(proto)
    specs = tuple(
        OutputSpec(value.name, tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim))
        for value in proto.graph.output
    )
    return Model(
        proto.SerializeToString(),
        LayerTags(),
        tuple(InputSpec(name, tuple(shape)) for name, shape in inputs.items()),
        specs,
        opset,
    )


def _numbers(x: Sequence[int] | NDArray[Any]) -> NDArray[np.float32]:
    if isinstance(x, np.ndarray):
        return x.astype(np.float32)
    return np.random.default_rng(5).standard_normal(tuple(x)).astype(np.float32)
