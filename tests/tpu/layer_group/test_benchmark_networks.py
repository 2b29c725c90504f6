"""The benchmark's networks are what they are called: their published multiply-accumulates and weights."""

from __future__ import annotations

import onnx
import pytest

from benchmarks.tpu_networks import BUILDERS, build


def counts(model: onnx.ModelProto) -> tuple[int, int]:
    """(multiply-accumulates, weights without biases) of convolutions and matrix products."""
    graph = model.graph
    shapes = {
        value.name: [d.dim_value for d in value.type.tensor_type.shape.dim]
        for value in (*graph.value_info, *graph.output, *graph.input)
    }
    weights = {item.name: list(item.dims) for item in graph.initializer}
    macs = parameters = 0
    for node in graph.node:
        if node.op_type not in ("Conv", "Gemm", "ConvTranspose"):
            continue
        size = 1
        for extent in weights[node.input[1]]:
            size *= extent
        positions = shapes[node.input[0] if node.op_type == "ConvTranspose" else node.output[0]]
        parameters += size
        macs += size * (positions[2] * positions[3] if len(positions) == 4 else 1)
    return macs, parameters


# SqueezeNet 1.1: Iandola et al. and torchvision (0.35 G, 1.24 M with biases); MobileNetV2: Sandler et al. (300 M,
# 3.4 M); ResNet-50 v1.5: He et al. and torchvision (4.09 G, 25.5 M).
@pytest.mark.parametrize(
    ("name", "millions", "parameters_millions"),
    [("squeezenet", 349, 1.23), ("mobilenet_v2", 300, 3.47), ("resnet50", 4089, 25.5)],
)
def test_published_sizes(name: str, millions: int, parameters_millions: float) -> None:
    macs, parameters = counts(BUILDERS[name](1))
    assert macs / 1e6 == pytest.approx(millions, rel=0.01)
    assert parameters / 1e6 == pytest.approx(parameters_millions, rel=0.01)


def test_batches_and_absent_data() -> None:
    model = build("unet", 4)
    assert model is not None
    onnx.checker.check_model(model)
    assert [d.dim_value for d in model.graph.output[0].type.tensor_type.shape.dim] == [4, 4, 256, 256]
    assert build("rfb320", shared=None) is None
