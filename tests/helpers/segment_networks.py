"""Small networks of ONNX and ai.nnkit nodes as Models, shapes inferred."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from nnkit.custom_ops import DOMAIN, VERSION, infer_shapes
from nnkit.graph import InputSpec, LayerTags, Model, OutputSpec

Arrays = Mapping[str, NDArray[Any]]


def normal(*shape: int, seed: int = 1) -> NDArray[np.float32]:
    """Normally distributed values."""
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def uniform(*shape: int, seed: int = 1) -> NDArray[np.float32]:
    """Values from 0 to 1."""
    return np.random.default_rng(seed).uniform(size=shape).astype(np.float32)


def network(
    nodes: Sequence[onnx.NodeProto], inputs: Arrays, constants: Arrays, outputs: Sequence[str] | None = None
) -> Model:
    """A Model of these nodes; its outputs are `outputs`, or what no node reads."""
    read = {name for node in nodes for name in node.input}
    names = outputs or [name for node in nodes for name in node.output if name not in read]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, array.shape) for name, array in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(DOMAIN, VERSION)]
    proto = infer_shapes(helper.make_model(graph, opset_imports=opsets, ir_version=10), strict=True)
    results = tuple(
        OutputSpec(output.name, tuple(dim.dim_value for dim in output.type.tensor_type.shape.dim))
        for output in proto.graph.output
    )
    specs = tuple(InputSpec(name, array.shape) for name, array in inputs.items())
    return Model(proto.SerializeToString(), LayerTags(), specs, results, 21)
