"""QDQ models of ONNX Runtime's own quantiser and of ours: taken apart, and run as an integer program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from nnkit import rewrite
from nnkit.calibrate import calibrate
from nnkit.errors import ModelError
from nnkit.graph.model import InputSpec, Model, OutputSpec
from nnkit.graph.tags import LayerTags
from nnkit.program.affine import AffineConv
from nnkit.quantize.affine import AffineScheme, outputs_of, quantize_affine, read_qdq
from nnkit.quantize.float_program import StoredWeights
from nnkit.quantize.lowered import LoweredLayers
from tests.quantize.conftest import make_model

from .test_affine_quantize import images, network, run_qdq


def peer_quantised(model: Model, folder: Path, per_channel: bool) -> onnx.ModelProto:
    """By ONNX Runtime's quantiser."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self._images = iter(images(1, 8))

        def get_next(self) -> dict[str, Any] | None:
            image = next(self._images, None)
            return None if image is None else {"x": image[None]}

    source, target = folder / "float.onnx", folder / "qdq.onnx"
    proto = model.proto()
    for index, node in enumerate(proto.graph.node):
        node.name = node.name or f"node{index}"
    onnx.save(proto, source)
    quantize_static(
        str(source),
        str(target),
        Reader(),
        quant_format=QuantFormat.QDQ,
        per_channel=per_channel,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
    )
    return onnx.load(target)


def as_model(proto: onnx.ModelProto) -> Model:
    proto = onnx.shape_inference.infer_shapes(proto)
    shape = (1, 4, 8, 8)
    model = Model(
        proto.SerializeToString(),
        LayerTags(),
        (InputSpec("x", shape),),
        tuple(OutputSpec(value.name, shape) for value in proto.graph.output),
        17,
    )
    return rewrite.restructure(model, rewrite.resolve_rules(list(rewrite.DEFAULT_RULES)))[0]


@pytest.mark.parametrize("per_channel", [False, True])
def test_a_peers_network_runs_with_its_own_integers(tmp_path: Path, per_channel: bool) -> None:
    proto = peer_quantised(network(5, ["conv", "depthwise", "conv"]), tmp_path, per_channel)
    given = {t.name: numpy_helper.to_array(t) for t in proto.graph.initializer}
    parts = read_qdq(proto)
    assert not any("QuantizeLinear" in node.op_type for node in parts.float_model.graph.node)
    program = quantize_affine(
        LoweredLayers.of(as_model(parts.float_model)),
        parts.statistics(),
        AffineScheme(bias_correction=False),
        weights=parts.weights,
    )
    convs = [op for op in program.ops if isinstance(op, AffineConv)]
    assert len(convs) == 3
    stored = [a for a in given.values() if a.dtype == np.int8 and a.ndim == 4]
    for op in convs:
        assert any(a.shape == op.weight.shape and np.array_equal(a, op.weight) for a in stored)
    x = {"x": images(9, 6)}
    ours = outputs_of(program, x)
    one_by_one = [run_qdq(proto, {"x": image[None]}) for image in x["x"]]
    theirs = {name: np.concatenate([found[name] for found in one_by_one]) for name in one_by_one[0]}
    for name, tensor in ((n, program.tensors[n]) for n in program.outputs):
        units = np.abs(ours[name] - theirs[name]) / tensor.scale
        assert units.max() <= 2.01  # three layers, each at most one unit off on its own inputs
        assert (units > 0.5).mean() < 0.05


def test_float_network_computes_with_the_integers_values(tmp_path: Path) -> None:
    proto = peer_quantised(network(6, ["conv", "prelu"]), tmp_path, per_channel=True)
    parts = read_qdq(proto)
    session = onnxruntime.InferenceSession(parts.float_model.SerializeToString(), providers=["CPUExecutionProvider"])
    x = {"x": images(4, 1)}
    found, expected = session.run(None, x)[0], next(iter(run_qdq(proto, x).values()))
    assert (
        np.abs(found - expected).max() < 0.1 * np.abs(expected).max()
    )  # rounding of activations is all that differs
    for weights in parts.weights.values():
        assert weights.values.dtype == np.int8
        assert np.abs(weights.real()).max() <= 128 * weights.scale.max()


def test_changed_weights_are_quantised_anew(tmp_path: Path) -> None:
    parts = read_qdq(peer_quantised(network(5, ["conv"]), tmp_path, per_channel=True))
    changed = onnx.ModelProto()
    changed.CopyFrom(parts.float_model)
    for tensor in changed.graph.initializer:
        values = numpy_helper.to_array(tensor)
        if values.ndim == 4:
            tensor.CopyFrom(numpy_helper.from_array(values * np.float32(1.7), tensor.name))
    model = as_model(changed)
    stats = calibrate(model, {"x": list(images(1, 4))}, {}, method="mse")
    with_them = quantize_affine(
        LoweredLayers.of(model), stats, AffineScheme(bias_correction=False), weights=parts.weights
    )
    without = quantize_affine(LoweredLayers.of(model), stats, AffineScheme(bias_correction=False))
    for a, b in zip(with_them.ops, without.ops, strict=True):
        if isinstance(a, AffineConv):
            assert np.array_equal(a.weight, b.weight)


@pytest.mark.parametrize("turned", [False, True])
def test_a_matrix_keeps_its_integers_where_it_became_a_convolution(turned: bool) -> None:
    """[O, I] of a Gemm, or its transpose: with steps of a half, which nobody would choose for these weights."""
    values = np.arange(-6, 6).reshape(3, 4)
    given = values.T if turned else values
    stored = StoredWeights(given, np.array([0.5]), np.zeros(1, np.int64), None)
    nodes = [helper.make_node("Gemm", ["x", "w"], ["y"], name="fc", transB=int(not turned))]
    model = make_model(nodes, {"w": (given * 0.5).astype(np.float32)}, {"x": (1, 4)}, ["y"])
    model = rewrite.restructure(model, rewrite.resolve_rules(["fc_to_conv"]))[0]
    stats = calibrate(
        model, {"x": list(np.float32(np.random.default_rng(1).normal(0, 1, (8, 1, 4))))}, {}, method="mse"
    )
    program = quantize_affine(LoweredLayers.of(model), stats, AffineScheme(), weights={"fc": stored})
    (op,) = (each for each in program.ops if isinstance(each, AffineConv))
    np.testing.assert_array_equal(op.weight.reshape(3, 4), values)


def test_a_float_model_is_refused() -> None:
    with pytest.raises(ModelError, match="no DequantizeLinear"):
        read_qdq(network(1, ["conv"]).proto())
