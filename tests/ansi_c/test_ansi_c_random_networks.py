"""Convolutions, pools and activations of random attributes: each layer within its bound of ONNX Runtime's."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ansi_c_library import SANITIZERS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import NodeProto, helper
from segment_networks import network, normal

from nnkit.calibrate.stats import CalibrationStats, ValueRange
from nnkit.graph import Model
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.graph.view import GraphView
from nnkit.verify.artifact import compare_artifact
from nnkit_ansi_c.emit import emit_library
from nnkit_ansi_c.lowered import AnsiCLowered
from nnkit_ansi_c.network import Network
from nnkit_ansi_c.options import AnsiCOptions
from nnkit_ansi_c.quantize import float_program
from nnkit_ansi_c.runner import HostRunner

_BRANCHES = 6


@st.composite
def networks(draw: st.DrawFn) -> tuple[Model, dict[str, Any]]:
    """Branches from one input: a convolution or a pool, perhaps an activation, and another convolution behind."""
    channels = draw(st.sampled_from([1, 3, 8, 12]))
    height, width = draw(st.integers(5, 21)), draw(st.integers(5, 21))
    x = np.asarray(normal(1, channels, height, width, seed=draw(st.integers(0, 99))))
    nodes: list[NodeProto] = []
    constants: dict[str, Any] = {}
    for branch in range(_BRANCHES):
        value = _window(draw, nodes, constants, "x", channels, f"b{branch}")
        activation = draw(st.sampled_from(["", "Relu", "Clip", "LeakyRelu"]))
        if activation:
            bounds = ["", ""]
            if activation == "Clip":
                bounds = [f"low{branch}", draw(st.sampled_from(["", f"high{branch}"]))]
                constants |= {f"low{branch}": np.float32(-0.5), f"high{branch}": np.float32(1.5)}
            inputs = [value, *(bounds if activation == "Clip" else [])]
            nodes.append(helper.make_node(activation, inputs, [f"a{branch}"]))
    return network(nodes, {"x": x}, constants), {"x": x}


def _window(
    draw: st.DrawFn, nodes: list[NodeProto], constants: dict[str, Any], source: str, channels: int, name: str
) -> str:
    kernel = [draw(st.integers(1, 4)), draw(st.integers(1, 4))]
    shared = {"kernel_shape": kernel, "strides": [draw(st.integers(1, 3)), draw(st.integers(1, 3))]}
    sort = draw(
        st.sampled_from(["Conv", "Conv", "depthwise", "depthwise", "groups", "pixel", "MaxPool", "AveragePool"])
    )
    if sort.endswith("Pool"):
        shared["pads"] = [draw(st.integers(0, side - 1)) for side in kernel * 2]
        nodes.append(helper.make_node(sort, [source], [name], **shared))
        return name
    shared["dilations"] = [1, 1] if sort == "pixel" else [draw(st.integers(1, 2)) for _ in kernel]
    shared["pads"] = [draw(st.integers(0, side)) for side in kernel * 2]
    if sort == "pixel":
        shared |= {"kernel_shape": [1, 1], "strides": [1, 1], "pads": [0] * 4}
    maps = draw(st.sampled_from([1, 4, 7, 8, 20]))
    groups = 1
    if sort == "depthwise":
        maps = groups = channels
    elif sort == "groups":
        groups = next(g for g in (4, 3, 1) if channels % g == 0)
        maps = groups * draw(st.integers(1, 9))
    shape = (maps, channels // groups, *shared["kernel_shape"])
    constants[f"w_{name}"] = np.asarray(normal(*shape, seed=len(nodes)))
    inputs = [source, f"w_{name}"]
    if draw(st.booleans()):
        constants[f"c_{name}"] = np.asarray(normal(maps, seed=maps))
        inputs.append(f"c_{name}")
    nodes.append(helper.make_node("Conv", inputs, [name], group=groups, **shared))
    return name


@pytest.mark.parametrize("flags", [(), ("-DNNKIT_SCALAR",)], ids=["vectors", "single values"])
@settings(
    max_examples=3,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
@given(networks())
def test_random_windows(flags: tuple[str, ...], drawn: tuple[Model, dict[str, Any]]) -> None:
    model, inputs = drawn
    graph = GraphView.of(model)
    names = [name for node in graph.nodes for name in node.results]
    values = FloatSession(model, fetch=names).run(inputs) | inputs
    ranges = {name: ValueRange(*(float(e) for e in (a.min(), a.max()) * 2)) for name, a in values.items()}
    program = float_program(AnsiCLowered.of(model).graph, CalibrationStats(ranges, "max", 1, ""), "net")
    with tempfile.TemporaryDirectory() as name:
        emit_library(Network.of(program), AnsiCOptions(), Path(name))
        stored = {"x": inputs["x"].reshape(program.tensors["x"].shape)}
        verdict = compare_artifact(HostRunner(flags=(*SANITIZERS, *flags)), Path(name), program, [stored])
    assert verdict.mismatches == 0, verdict.first_difference
    assert verdict.values == sum(values[op.output].size for op in program.ops)
