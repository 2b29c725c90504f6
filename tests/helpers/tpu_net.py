"""A small network written op by op, for tests of the TPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from nnkit.graph import InputSpec, LayerTags, Model, OutputSpec

IMAGE, ROWS = (1, 8, 12, 10), (1, 6, 20)
SEED = 5
OPSET = 20


class Net:
    """Nodes on the inputs `x` [1, 8, 12, 10] and `rows` [1, 6, 20]; a value has the name of what it shows."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.random = np.random.default_rng(SEED)

    def constant(self, values: Any, dtype: Any = np.float32) -> str:
        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(values, dtype), name))
        return name

    def ints(self, *values: int) -> str:
        return self.constant(values, np.int64)

    def normal(self, *shape: int, spread: float = 0.3) -> str:
        return self.constant(self.random.normal(0, spread, shape))

    def positive(self, *shape: int) -> str:
        return self.constant(self.random.uniform(0.5, 2.0, shape))

    def __call__(self, op: str, *inputs: str, to: str = "", **attributes: Any) -> str:
        name = to or f"value_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], name=name, **attributes))
        return name

    def model(self, outputs: Sequence[str]) -> Model:
        read = {name for node in self.nodes for name in node.input}
        shapes = {name: shape for name, shape in (("x", IMAGE), ("rows", ROWS)) if name in read}
        graph = helper.make_graph(
            self.nodes,
            "ops",
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()],
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs],
            self.constants,
        )
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)
        proto = onnx.shape_inference.infer_shapes(made)
        found = {o.name: tuple(d.dim_value for d in o.type.tensor_type.shape.dim) for o in proto.graph.output}
        return Model(
            proto.SerializeToString(),
            LayerTags(),
            tuple(InputSpec(n, s) for n, s in shapes.items()),
            tuple(OutputSpec(n, found[n]) for n in outputs),
            OPSET,
        )


Case = Callable[[Net, str], str]  # adds the op; its output has the given name
