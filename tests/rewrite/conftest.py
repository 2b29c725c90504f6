"""Small networks by hand: a builder that gives Models as the importer does (static shapes, constants inside)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from nnkit.graph import InputSpec, LayerTags, Model, OutputSpec, ValueTags
from nnkit.rewrite import RewriteLog, available_rules, restructure


class Net:
    """Builds a graph op by op; a value is its name, and a layer `name` gives the value `name_v`."""

    def __init__(self, seed: int = 0, opset: int = 17, **inputs: Sequence[int]) -> None:
        self.rng = np.random.default_rng(seed)
        self.opset = opset
        self.inputs = {name: tuple(shape) for name, shape in inputs.items()}
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def const(self, array: Any, dtype: Any = np.float32) -> str:
        name = f"const{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array, dtype), name))
        return name

    def ints(self, *values: int) -> str:
        return self.const(values, np.int64)

    def normal(self, *shape: int, scale: float = 1.0) -> str:
        return self.const(self.rng.standard_normal(shape) * scale)

    def op(self, op_type: str, *inputs: str, name: str = "", outputs: int = 1, **attributes: Any) -> str:
        name = name or f"{op_type.lower()}{len(self.nodes)}"
        results = [f"{name}_v"] + [f"{name}_v{i}" for i in range(1, outputs)]
        self.nodes.append(helper.make_node(op_type, list(inputs), results, name=name, **attributes))
        return results[0]

    def conv(self, value: str, shape: Sequence[int], bias: bool = True, name: str = "", **attributes: Any) -> str:
        """A convolution with random weights of `shape` [O, I/groups, kh, kw]."""
        constants = [self.normal(*shape, scale=1 / np.sqrt(np.prod(shape[1:])))]
        constants += [self.normal(shape[0])] if bias else []
        return self.op("Conv", value, *constants, name=name, **attributes)

    def batch_norm(self, value: str, channels: int, name: str = "", **attributes: Any) -> str:
        constants = [
            self.const(self.rng.uniform(0.5, 2, channels) * self.rng.choice([-1, 1], channels)),
            self.normal(channels),
            self.normal(channels),
            self.const(self.rng.uniform(0.2, 3, channels)),
        ]
        return self.op("BatchNormalization", value, *constants, name=name, **attributes)

    def model(self, *outputs: str, hp: Sequence[str] = (), cpu: Sequence[str] = ()) -> Model:
        """The Model with these outputs; `hp` and `cpu` are layer names."""
        graph = helper.make_graph(
            self.nodes,
            "net",
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in self.inputs.items()],
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs],
            self.constants,
        )
        proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10)
        proto = onnx.shape_inference.infer_shapes(proto, check_type=True, strict_mode=True, data_prop=True)
        onnx.checker.check_model(proto, full_check=True)
        shapes = {o.name: tuple(d.dim_value for d in o.type.tensor_type.shape.dim) for o in proto.graph.output}
        tags = {
            f"{layer}_v": ValueTags(hp=layer in hp, cpu=layer in cpu, origins=(layer,))
            for layer in dict.fromkeys([*hp, *cpu])
        }
        return Model(
            onnx_bytes=proto.SerializeToString(),
            tags=LayerTags(tags),
            inputs=tuple(InputSpec(n, s) for n, s in self.inputs.items()),
            outputs=tuple(OutputSpec(n, shapes[n]) for n in outputs),
            opset=self.opset,
        )


class Graphs:
    """What tests need beside the builder: running, comparing, looking."""

    Net = Net

    @staticmethod
    def run(model: Model, feeds: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
        """The outputs by ONNX Runtime."""
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = 1
        # The runtime's own graph rewrites are off: they are no truth for ours (and merge Pads into pools too wide).
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(model.onnx_bytes, options, providers=["CPUExecutionProvider"])
        return session.run(None, dict(feeds))

    @classmethod
    def assert_equal(cls, before: Model, after: Model, bound: float = 2e-5, seed: int = 11) -> None:
        """Both give the same outputs, to `bound` of the largest magnitude, on an input of its own."""
        rng = np.random.default_rng(seed)
        feeds = {s.name: rng.normal(0.5, 2.0, s.shape).astype(np.float32) for s in before.inputs}
        for left, right in zip(cls.run(before, feeds), cls.run(after, feeds), strict=True):
            assert left.shape == right.shape
            np.testing.assert_allclose(right, left, rtol=0, atol=bound * max(1e-3, np.abs(left).max()))

    @classmethod
    def apply(cls, model: Model, *names: str) -> tuple[Model, RewriteLog]:
        """These rules applied, without the runner's own comparison, and compared here instead."""
        rules = available_rules()
        after, log = restructure(model, [rules[name] for name in names], check_inputs=[])
        cls.assert_equal(model, after)
        return after, log

    @staticmethod
    def ops(model: Model) -> list[str]:
        return [node.op_type for node in model.proto().graph.node]

    @staticmethod
    def node(model: Model, op_type: str, index: int = 0) -> onnx.NodeProto:
        return [node for node in model.proto().graph.node if node.op_type == op_type][index]

    @staticmethod
    def attribute(node: onnx.NodeProto, name: str) -> Any:
        return next((helper.get_attribute_value(a) for a in node.attribute if a.name == name), None)

    @staticmethod
    def constant(model: Model, name: str) -> NDArray[Any]:
        return next(numpy_helper.to_array(t) for t in model.proto().graph.initializer if t.name == name)

    @staticmethod
    def marks(model: Model) -> dict[str, str]:
        """Layer name -> value that it is marked to be fused into."""
        return {
            node.name: entry.value
            for node in model.proto().graph.node
            for entry in node.metadata_props
            if entry.key == "nnkit.fuse_into"
        }


@pytest.fixture(scope="session")
def graphs() -> type[Graphs]:
    return Graphs
