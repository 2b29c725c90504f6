"""What the Caffe tests share: OpenCV as the independent reader and runtime, and small ONNX networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import cv2
import numpy as np
import onnx
from google.protobuf import text_format
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from nnkit.caffe.export import CaffeFiles
from nnkit.caffe.schema import messages
from nnkit.custom_ops import DOMAIN, infer_shapes
from nnkit.graph import InputSpec, LayerTags, Model, OutputSpec
from nnkit.importers import caffe_model


def run_opencv(
    prototxt: bytes, caffemodel: bytes, feeds: Mapping[str, NDArray[Any]], outputs: Mapping[str, str]
) -> dict[str, NDArray[np.float32]]:
    """Outputs by blob name. outputs: the layer that makes each blob; OpenCV calls a last layer by its blob."""
    text = np.frombuffer(prototxt, np.uint8)
    net = cv2.dnn.readNetFromCaffe(text, np.frombuffer(caffemodel, np.uint8)) if caffemodel else None
    net = cv2.dnn.readNetFromCaffe(text) if net is None else net
    for name, array in feeds.items():
        net.setInput(array, name)
    known = set(net.getLayerNames())
    found = {}
    for blob, layer in outputs.items():
        wanted = next(name for name in (blob, layer) if name in known)
        found[blob] = np.array(net.forward(wanted))
    return found


def relative_error(found: NDArray[Any], expected: NDArray[Any]) -> float:
    """Largest difference over the largest magnitude expected. Only the order counts: OpenCV drops dimensions of 1."""
    assert found.size == expected.size, (found.shape, expected.shape)
    scale = float(np.abs(expected).max()) or 1.0
    return float(np.abs(found.reshape(-1) - expected.reshape(-1)).max()) / scale


def reimported(files: CaffeFiles) -> Model:
    return caffe_model(files.prototxt.encode(), files.caffemodel).model


def layers_of(files: CaffeFiles) -> list[Any]:
    return list(text_format.Parse(files.prototxt, messages.NetParameter()).layer)


def onnx_model(
    nodes: Sequence[onnx.NodeProto],
    constants: Mapping[str, Any] | None = None,
    inputs: Mapping[str, Sequence[int]] | None = None,
    outputs: Sequence[str] = ("y",),
    tags: LayerTags | None = None,
) -> Model:
    fed = inputs or {"x": (1, 4, 8, 8)}
    graph = helper.make_graph(
        list(nodes),
        "net",
        [helper.make_tensor_value_info(name, 1, list(shape)) for name, shape in fed.items()],
        [helper.make_tensor_value_info(name, 1, None) for name in outputs],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in (constants or {}).items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
    proto = infer_shapes(helper.make_model(graph, opset_imports=opsets, ir_version=8))
    shapes = {v.name: tuple(d.dim_value for d in v.type.tensor_type.shape.dim) for v in proto.graph.output}
    return Model(
        proto.SerializeToString(),
        tags or LayerTags(),
        tuple(InputSpec(name, tuple(shape)) for name, shape in fed.items()),
        tuple(OutputSpec(name, shapes[name]) for name in outputs),
        17,
    )


def node(op: str, inputs: str = "x", outputs: str = "y", name: str = "op", **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op, [i.strip("-") for i in inputs.split()], outputs.split(), name=name, **attributes)
