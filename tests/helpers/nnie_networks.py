"""Small networks for the tests of the NNIE target, written node by node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import cv2
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from nnkit.graph import InputSpec, LayerTags, Model, OutputSpec, ValueTags
from nnkit_nnie.mapper.caffe_pair import CaffePair

OWN = "ai.nnkit"


class Net:
    """A network under construction: every method adds a node and returns the name of its output, the layer's name."""

    def __init__(self, seed: int = 0) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.inputs: list[tuple[str, tuple[int, ...]]] = []
        self.random = np.random.default_rng(seed)
        self.tags: dict[str, ValueTags] = {}

    def input(self, name: str, *shape: int) -> str:
        self.inputs.append((name, (1, *shape)))
        return name

    def constant(self, name: str, array: Any, dtype: Any = np.float32) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(array, dtype), name))
        return name

    def node(self, op: str, inputs: Sequence[str], name: str, domain: str = "", **attributes: Any) -> str:
        self.nodes.append(helper.make_node(op, list(inputs), [name], name=name, domain=domain, **attributes))
        return name

    def weights(self, name: str, *shape: int) -> str:
        fan_in = int(np.prod(shape[1:])) or 1
        return self.constant(name, self.random.normal(0.0, np.sqrt(2.0 / fan_in), shape))

    def conv(
        self, x: str, channels: tuple[int, int], name: str, kernel: int = 3, pad: int | None = None, **attributes: Any
    ) -> str:
        """channels: (in, out)."""
        group = attributes.get("group", 1)
        weight = self.weights(f"{name}.w", channels[1], channels[0] // group, kernel, kernel)
        bias = self.constant(f"{name}.b", self.random.normal(0.0, 0.1, channels[1]))
        pads = [kernel // 2 if pad is None else pad] * 4
        return self.node("Conv", [x, weight, bias], name, kernel_shape=[kernel, kernel], pads=pads, **attributes)

    def fc(self, x: str, features: tuple[int, int], name: str) -> str:
        weight = self.weights(f"{name}.w", features[1], features[0])
        bias = self.constant(f"{name}.b", self.random.normal(0.0, 0.1, features[1]))
        return self.node("Gemm", [x, weight, bias], name, transB=1)

    def reshape(self, x: str, shape: Sequence[int], name: str) -> str:
        return self.node("Reshape", [x, self.constant(f"{name}.shape", shape, np.int64)], name)

    def clip(self, x: str, name: str) -> str:
        """A layer that the mapper does not know and the CPU has C for."""
        return self.node("Clip", [x, self.constant(f"{name}.low", 0.0), self.constant(f"{name}.high", 6.0)], name)

    def tag(self, value: str, *, hp: bool = False, cpu: bool = False) -> str:
        self.tags[value] = ValueTags(hp=hp, cpu=cpu, origins=(value,))
        return value

    def metadata(self, value: str, **entries: str) -> str:
        """Metadata of the node that makes `value`; `caffe_layer` stands for `nnkit.caffe_layer`."""
        node = next(node for node in self.nodes if value in node.output)
        for key, text in entries.items():
            node.metadata_props.add(key=f"nnkit.{key}", value=text)
        return value

    def model(self, *outputs: str, shapes: Mapping[str, Sequence[int]] | None = None) -> Model:
        """shapes: of outputs whose ops have no shape inference."""
        from nnkit.custom_ops import infer_shapes

        known = {name: list(shape) for name, shape in (shapes or {}).items()}
        graph = helper.make_graph(
            self.nodes,
            "net",
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, list(s)) for n, s in self.inputs],
            [
                helper.make_tensor_value_info(n, TensorProto.FLOAT, list(known[n]) if n in known else None)
                for n in outputs
            ],
            self.constants,
        )
        proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(OWN, 1)])
        proto.ir_version = 10
        proto = infer_shapes(proto)
        found = {
            value.name: tuple(d.dim_value for d in value.type.tensor_type.shape.dim) for value in proto.graph.output
        }
        return Model(
            proto.SerializeToString(),
            LayerTags(self.tags),
            tuple(InputSpec(name, shape) for name, shape in self.inputs),
            tuple(OutputSpec(name, found[name]) for name in outputs),
            17,
        )


def in_opencv(pair: CaffePair) -> cv2.dnn.Net:
    """The written pair as OpenCV reads it."""
    prototxt, caffemodel = pair.caffe.prototxt("net").encode(), pair.caffe.caffemodel("net")
    return cv2.dnn.readNetFromCaffe(np.frombuffer(prototxt, np.uint8), np.frombuffer(caffemodel, np.uint8))
