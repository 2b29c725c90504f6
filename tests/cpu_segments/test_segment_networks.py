"""Whole segments in C: the detection tail of a real SSD, and random graphs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from onnx import NodeProto, helper
from random_network_inputs import random_inputs
from segment_networks import network

from nnkit.cpu_segments import CompiledSegment, SegmentSource, emit_segment, run_segment
from nnkit.custom_ops import DetectionOutput, PriorBox
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.importers.caffe_importer import import_caffe

# (side of the map, boxes at a position, step, min_size, max_size)
LEVELS = ((38, 4, 8.0, 30.0, 60.0), (19, 6, 16.0, 60.0, 111.0), (10, 6, 32.0, 111.0, 162.0))
LEVELS += ((5, 6, 64.0, 162.0, 213.0), (3, 4, 100.0, 213.0, 264.0), (1, 4, 300.0, 264.0, 315.0))
NAMES = ("conv4_3_norm", "fc7", "conv6_2", "conv7_2", "conv8_2", "conv9_2")


@pytest.fixture(scope="module")
def ssd(shared_dir: Path) -> Any:
    folder = shared_dir / "models" / "res10_ssd"
    return cv2.dnn.readNetFromCaffe(
        str(folder / "res10_300x300_deploy.prototxt"), str(folder / "res10_300x300_ssd_from_uint8.caffemodel")
    )


@pytest.fixture(scope="module")
def tail(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SegmentSource, CompiledSegment]]:
    """All of the SSD behind its convolutions: permute, flatten, concat, softmax, prior boxes, detection output."""
    nodes: list[NodeProto] = []
    inputs: dict[str, NDArray[np.float32]] = {"data": np.zeros((1, 3, 300, 300), np.float32)}
    for name, (side, boxes, step, low, high) in zip(NAMES, LEVELS, strict=True):
        for kind, values in (("loc", 4), ("conf", 2)):
            inputs[f"{name}_mbox_{kind}"] = np.zeros((1, boxes * values, side, side), np.float32)
            nodes.append(
                helper.make_node("Transpose", [f"{name}_mbox_{kind}"], [f"{name}_{kind}_t"], perm=[0, 2, 3, 1])
            )
            nodes.append(helper.make_node("Flatten", [f"{name}_{kind}_t"], [f"{name}_{kind}"]))
        ratios = (2.0, 3.0) if boxes == 6 else (2.0,)
        op = PriorBox((low,), (high,), ratios, variance=(0.1, 0.1, 0.2, 0.2), step=step)
        nodes.append(op.node([f"{name}_mbox_loc", "data"], [f"{name}_priors"]))
    for kind, axis in (("loc", 1), ("conf", 1), ("priors", 2)):
        nodes.append(helper.make_node("Concat", [f"{name}_{kind}" for name in NAMES], [kind], axis=axis))
    nodes.append(helper.make_node("Reshape", ["conf", "pairs"], ["scores"]))
    nodes.append(helper.make_node("Softmax", ["scores"], ["likely"], axis=2))
    nodes.append(helper.make_node("Flatten", ["likely"], ["confidence"]))
    op = DetectionOutput(2, True, 0, 0.45, 400, 1.0, "CENTER_SIZE", False, 200, 0.01, True)
    nodes.append(op.node(["loc", "confidence", "priors"], ["detections"]))
    model = network(nodes, inputs, {"pairs": np.array([1, -1, 2])})
    folder = tmp_path_factory.mktemp("tail")
    source = emit_segment(model, "tail", folder)
    program = CompiledSegment(folder, "tail", sanitize=True)
    yield source, program
    program.close()


def test_detection_tail_of_a_real_ssd(
    ssd: Any, tail: tuple[SegmentSource, CompiledSegment], shared_dir: Path
) -> None:
    source, program = tail
    assert source.proven_optimal
    certain = 0
    for file in sorted((shared_dir / "models" / "ulfg" / "images").iterdir())[:8]:
        blob = cv2.dnn.blobFromImage(cv2.imread(str(file)), 1, (300, 300), (104, 177, 123))
        ssd.setInput(blob)
        names = [port.name for port in source.inputs if port.name != "data"]
        *maps, expected = ssd.forward([*names, "detection_out"])
        outputs_of_c = program.run(dict(zip(names, maps, strict=True)) | {"data": blob})["detections"][0, 0]
        count = int((expected[0, 0, :, 2] > 0).sum())
        assert int((outputs_of_c[:, 0] == 0).sum()) == count
        # exp of the softmax and of the boxes: two libraries, a unit or two in the last place
        np.testing.assert_allclose(outputs_of_c[:count], expected[0, 0, :count], atol=1e-6, rtol=0)
        certain += int((outputs_of_c[:count, 2] > 0.5).sum())
    assert certain >= 20


@pytest.mark.parametrize("name", ["det1", "det2"])
def test_whole_networks(name: str, shared_dir: Path, tmp_path: Path) -> None:
    stem = shared_dir / "models" / "mtcnn" / name
    model = import_caffe(stem.with_suffix(".prototxt"), stem.with_suffix(".caffemodel")).model
    inputs = random_inputs(model, 1)
    expected = FloatSession(model).run(inputs)
    emit_segment(model, name, tmp_path)
    outputs_of_c = run_segment(tmp_path, name, inputs, sanitize=True)
    for value, array in expected.items():
        # sums of up to 576 products in another order, in layers one behind the other
        largest = float(np.abs(array).max())
        np.testing.assert_allclose(outputs_of_c[value], array, rtol=0, atol=1e-5 * largest, err_msg=value)


UNARY = ("Relu", "Sigmoid", "Tanh", "Abs", "Neg", "Elu", "LeakyRelu")
BINARY = ("Add", "Sub", "Mul", "Max", "Min")


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[NodeProto], dict[str, NDArray[Any]], list[str]]:
    """Random graphs over values of [1, 4, 6, 6]: chains, joins, views, and several outputs, some of them views."""
    constants: dict[str, NDArray[Any]] = {
        "w": (np.random.default_rng(1).normal(size=(4, 4, 3, 3)) / 6).astype(np.float32),
        "flat": np.array([1, -1]),
        "full": np.array([1, 4, 6, 6]),
    }
    nodes: list[NodeProto] = []
    values = ["x"]
    for index in range(draw(st.integers(1, 14))):
        source, name = draw(st.sampled_from(values)), f"v{index}"
        kind = draw(st.sampled_from(["unary", "binary", "conv", "view", "turn", "halves", "pool"]))
        if kind == "unary":
            nodes.append(helper.make_node(draw(st.sampled_from(UNARY)), [source], [name]))
        elif kind == "binary":
            other = draw(st.sampled_from(values))
            nodes.append(helper.make_node(draw(st.sampled_from(BINARY)), [source, other], [name]))
        elif kind == "conv":
            nodes.append(helper.make_node("Conv", [source, "w"], [name], pads=[1, 1, 1, 1]))
        elif kind == "view":
            nodes.append(helper.make_node("Reshape", [source, "flat"], [f"{name}_flat"]))
            nodes.append(helper.make_node("Reshape", [f"{name}_flat", "full"], [name]))
        elif kind == "turn":
            nodes.append(helper.make_node("Transpose", [source], [name], perm=[0, 1, 3, 2]))
        elif kind == "halves":
            nodes.append(helper.make_node("Split", [source], [f"{name}_a", f"{name}_b"], axis=1, num_outputs=2))
            nodes.append(helper.make_node("Concat", [f"{name}_b", f"{name}_a"], [name], axis=1))
        else:
            pads = [1, 1, 1, 1]
            nodes.append(helper.make_node("MaxPool", [source], [name], kernel_shape=[3, 3], pads=pads))
        values.append(name)
    others = draw(st.lists(st.sampled_from(values[1:]), max_size=3))
    return nodes, constants, sorted({values[-1], *others})


@settings(max_examples=6, derandomize=True)
@given(graphs())
def test_random_graphs(graph: tuple[list[NodeProto], dict[str, NDArray[Any]], list[str]]) -> None:
    nodes, constants, outputs = graph
    x = np.random.default_rng(2).normal(size=(1, 4, 6, 6)).astype(np.float32)
    model = network(nodes, {"x": x}, constants, outputs)
    expected = FloatSession(model).run({"x": x})
    with tempfile.TemporaryDirectory() as folder:
        source = emit_segment(model, "part", Path(folder))
        outputs_of_c = run_segment(Path(folder), "part", {"x": x}, sanitize=True)
    for name, array in expected.items():
        # products of sums grow; what counts is the size of the largest value
        largest = max(float(np.abs(array).max()), 1.0)
        np.testing.assert_allclose(
            outputs_of_c[name], array, rtol=0, atol=1e-5 * largest, err_msg=str(source.files["part.c"])
        )
