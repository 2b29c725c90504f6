"""Networks as people export them: their builds pass, and every layer is as the chip model has it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from typer.testing import CliRunner

from nnkit.cli import app
from nnkit_tpu.toolchain import Toolchain

SIDE = 32


class Net:
    """Nodes on the input `x` of 3 channels; a value has its node's name."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.random = np.random.default_rng(7)

    def constant(self, values: Any, dtype: Any = np.float32) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(values, dtype), f"constant_{len(self.constants)}"))
        return self.constants[-1].name

    def __call__(self, to: str, op: str, *inputs: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(op, list(inputs), [to], name=to, **attributes))
        return to

    def split(self, to: str, x: str, sizes: list[int], axis: int = 1) -> list[str]:
        names = [f"{to}_split_{part}" for part in range(len(sizes))]
        sizes_name = self.constant(sizes, np.int64)
        self.nodes.append(helper.make_node("Split", [x, sizes_name], names, name=to, axis=axis))
        return names

    def reshape(self, to: str, x: str, *shape: int) -> str:
        return self(to, "Reshape", x, self.constant(shape, np.int64))

    def conv(
        self, to: str, x: str, inputs: int, outputs: int, kernel: int = 1, stride: int = 1, group: int = 1
    ) -> str:
        fan_in = inputs // group * kernel**2
        weight = self.constant(self.random.normal(0, (2 / fan_in) ** 0.5, (outputs, inputs // group, kernel, kernel)))
        bias = self.constant(self.random.normal(0, 0.05, outputs))
        return self(to, "Conv", x, weight, bias, pads=[kernel // 2] * 4, strides=[stride] * 2, group=group)

    def saved(self, folder: Path, *outputs: str) -> None:
        graph = helper.make_graph(
            self.nodes,
            "net",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, SIDE, SIDE])],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
            self.constants,
        )
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
        onnx.save(onnx.shape_inference.infer_shapes(made), folder / "net.onnx")


def report(folder: Path, chip: str, options: str = "") -> dict[str, Any]:
    """Of a build that passes."""
    (folder / "images").mkdir()
    random = np.random.default_rng(5)
    for index in range(3):
        np.save(folder / "images" / f"{index}.npy", random.normal(0, 1, (1, 3, SIDE, SIDE)).astype(np.float32))
    text = f"""nnkit: 1
name: net
model: {{path: net.onnx, inputs: {{x: {{calibration: {{images: images/*.npy}}}}}}}}
targets:
  tpu: {{chip: {chip}{options}}}
verify: {{images: images/*.npy}}
"""
    (folder / "recipe.yaml").write_text(text, encoding="utf-8")
    done = CliRunner().invoke(app, ["run", str(folder / "recipe.yaml"), "--out", str(folder / "out"), "--no-cache"])
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads((folder / "out/net/tpu/report.json").read_text(encoding="utf-8"))
    assert found["status"] == "ok"
    return found


def verdict(found: dict[str, Any]) -> dict[str, Any]:
    entry: dict[str, Any] = found["verify"]["program_vs_artifact"][0]
    return entry


def shuffled(net: Net) -> str:
    """Two units of ShuffleNet V2 as the dynamo exporter writes them: Split, and the shuffle in five dimensions."""
    x = net("stem_relu", "Relu", net.conv("stem", "x", 3, 16, 3, 2))
    side = SIDE // 2
    for unit in range(2):
        kept, worked = net.split(f"split{unit}", x, [8, 8])
        y = net(f"a{unit}_relu", "Relu", net.conv(f"a{unit}", worked, 8, 8))
        y = net.conv(f"b{unit}", y, 8, 8, 3, group=8)
        y = net(f"c{unit}_relu", "Relu", net.conv(f"c{unit}", y, 8, 8))
        joined = net(f"cat{unit}", "Concat", kept, y, axis=1)
        pairs = net.reshape(f"pairs{unit}", joined, 1, 2, 8, side, side)
        x = net.reshape(
            f"whole{unit}", net(f"swap{unit}", "Transpose", pairs, perm=[0, 2, 1, 3, 4]), 1, 16, side, side
        )
    return net.conv("last", x, 16, 10)


def detected(net: Net) -> str:
    """A detector with its box arithmetic inside: what is left of the grid and right of it, times the stride."""
    fine = net("fine_silu", "Mul", net.conv("fine", "x", 3, 16, 3, 4), net("fine_s", "Sigmoid", "fine"))
    coarse = net("coarse_silu", "Mul", net.conv("coarse", fine, 16, 16, 3, 2), net("coarse_s", "Sigmoid", "coarse"))
    scales = net.constant([1, 1, 2, 2])
    up = net("up", "Resize", coarse, "", scales, mode="nearest", nearest_mode="floor",
             coordinate_transformation_mode="asymmetric")  # fmt: skip
    heads, grids, strides = [], [], []
    joined = net("joined", "Concat", up, fine, axis=1)
    for name, x, channels, stride in (("f", joined, 32, 4), ("c", coarse, 16, 8)):
        side = SIDE // stride
        heads.append(net.reshape(f"{name}_flat", net.conv(f"{name}_head", x, channels, 7), 1, 7, side * side))
        grids.append(np.stack(np.meshgrid(*[np.arange(side) + 0.5] * 2)).reshape(1, 2, -1))
        strides.append(np.full((1, 1, side * side), stride))
    parts = net.split("parts", net("heads", "Concat", *heads, axis=2), [2, 2, 3])
    grid, stride_of = net.constant(np.concatenate(grids, 2)), net.constant(np.concatenate(strides, 2))
    low, high = net("low", "Sub", grid, parts[0]), net("high", "Add", parts[1], grid)
    centre = net("centre", "Div", net("both", "Add", low, high), net.constant(2.0))
    boxes = net("boxes", "Concat", centre, net("size", "Sub", high, low), axis=1)
    return net("out", "Concat", net("scaled", "Mul", boxes, stride_of), net("p", "Sigmoid", parts[2]), axis=1)


def boxed(net: Net) -> str:
    """The heads of an SSD: boxes around priors, corners from centres and sizes, scores by softmax over classes."""
    x = net("stem_relu", "Relu", net.conv("stem", "x", 3, 16, 3, 4))
    count = (SIDE // 4) ** 2
    flat = net("boxes_last", "Transpose", net.conv("boxes", x, 16, 4, 3), perm=[0, 2, 3, 1])
    near, size = net.split("parts", net.reshape("box_rows", flat, 1, count, 4), [2, 2], axis=2)
    priors = net.constant(net.random.uniform(0.1, 0.9, (1, count, 2)))
    scaled = net("scaled", "Mul", near, net.constant(0.1))
    centre = net("centre", "Add", scaled, priors)
    extent = net(
        "extent", "Mul", net("grown", "Exp", net("less", "Mul", size, net.constant(0.2))), net.constant(0.125)
    )
    low, high = net("low", "Sub", centre, extent), net("high", "Add", centre, extent)
    corners = net("corners", "Concat", low, high, axis=2)
    last = net("scores_last", "Transpose", net.conv("scores", x, 16, 3, 3), perm=[0, 2, 3, 1])
    scores = net("chosen", "Softmax", net.reshape("score_rows", last, 1, count, 3), axis=2)
    return net("out", "Concat", corners, scores, axis=2)


def sloped(net: Net) -> str:
    """Slopes per channel on values that are read again, as residual face networks have them."""
    x = net.conv("first", "x", 3, 16, 3, 2)
    y = net("slopes", "PRelu", x, net.constant(net.random.uniform(0.1, 0.4, (16, 1, 1))))
    z = net("sum", "Add", net.conv("second", y, 16, 16, 3), x)
    return net("more_slopes", "PRelu", z, net.constant(net.random.uniform(0.1, 0.4, (16, 1, 1))))


def resampled(net: Net) -> str:
    """Columns picked unevenly, enlarged by a cubic."""
    picked = net("picked", "Gather", net.conv("conv", "x", 3, 6, 3, 4), net.constant([5, 0, 0, 3], np.int64), axis=3)
    return net("wide", "Resize", picked, "", net.constant([1, 1, 2.5, 4]), mode="cubic")


def squeezed(net: Net) -> str:
    """As in EfficientNet and MobileNet: gates, and bottlenecks without activation, which the compiler merges."""

    def silu(x: str) -> str:
        return net(f"{x}_silu", "Mul", x, net(f"{x}_gate", "Sigmoid", x))

    x = silu(net.conv("stem", "x", 3, 16, 3, 2))
    gate = net("gap", "GlobalAveragePool", x)
    gate = net("gate", "Sigmoid", net.conv("up", silu(net.conv("down", gate, 16, 4)), 4, 16))
    x = net.conv("project", net("scaled", "Mul", x, gate), 16, 8)
    x = silu(net.conv("expand", x, 8, 24))
    x = net.conv("narrow", silu(net.conv("deep", x, 24, 24, 3, 2, 24)), 24, 12)
    x = net("wide_relu", "Relu", net.conv("wide", x, 12, 96))
    x = net("wider_relu", "Relu", net.conv("wider", net.conv("less", x, 96, 4), 4, 96))
    flat = net("flat", "Flatten", net("pool", "GlobalAveragePool", x))
    weight, bias = net.constant(net.random.normal(0, 0.1, (300, 96))), net.constant(net.random.normal(0, 0.1, 300))
    return net("scores", "Gemm", flat, weight, bias, transB=1)


def reflected(net: Net) -> str:
    """Padding by reflection, by other numbers on each side, of the input and of what is read again."""
    x = net("framed", "Pad", "x", net.constant([0, 0, 3, 1, 0, 0, 2, 4], np.int64), mode="reflect")
    x = net("first_relu", "Relu", net.conv("first", x, 3, 12, 3, 2))
    wide = net("wide", "Pad", x, net.constant([0, 0, 0, 2, 0, 0, 5, 0], np.int64), mode="reflect")
    return net("out", "Add", net.conv("second", wide, 12, 12, 3), net("again", "Tanh", wide))


def gated(net: Net) -> str:
    """A gate of places by what the channels have most, least and on average, and what it takes away."""
    x = net("stem_relu", "Relu", net.conv("stem", "x", 3, 16, 3, 2))
    axes = net.constant([1], np.int64)
    maps = [net(how, f"Reduce{how}", x, axes, keepdims=1) for how in ("Mean", "Max", "Min")]
    gate = net("gate", "Sigmoid", net.conv("places", net("maps", "Concat", *maps, axis=1), 3, 1, 7))
    return net("rest", "Sub", x, net("passed", "Mul", x, gate))


@pytest.mark.parametrize(
    ("build", "chip", "options"),
    [
        (shuffled, "bm1684x", ""),
        (shuffled, "cv181x", ""),
        (detected, "bm1684x", ""),
        (detected, "bm1684x", ", precision: f16"),
        (gated, "cv181x", ""),
        (reflected, "cv181x", ""),
        (squeezed, "bm1684x", ""),
        (boxed, "bm1684x", ""),
        (resampled, "bm1684x", ""),
        (sloped, "bm1688", ""),
        (sloped, "cv181x", ", precision: bf16"),
    ],
)
def test_they_build_and_every_layer_agrees(
    tpu_toolchain: Toolchain, tmp_path: Path, build: Any, chip: str, options: str
) -> None:
    net = Net()
    net.saved(tmp_path, build(net))
    found = report(tmp_path, chip, options)
    entry = verdict(found)
    assert entry["how"] == "chip_model"
    assert (entry["mismatches"], entry.get("note")) == (0, None)
    assert entry["values"] > 4_000
    details = found["details"]
    for audit in (details["layer_groups"]["audit"], details["traced"]["audit"]):
        assert (audit["conflicts"], audit["not_followed"]) == ([], [])
    assert details.get("prediction", {}).get("disagreements", []) == []
    assert "summary" not in details


@pytest.mark.parametrize("chip", ["bm1684x", "cv181x"])
def test_an_input_that_is_reshaped_first_saturates_behind_the_reshape(
    tpu_toolchain: Toolchain, tmp_path: Path, chip: str
) -> None:
    net = Net()
    net.conv("y", net.reshape("folded", "x", 1, 12, SIDE // 2, SIDE // 2), 12, 8, 3)
    net.saved(tmp_path, "y")
    for folder, factor in (("images", 1.0), ("larger", 3.0)):  # beyond what calibration saw
        (tmp_path / folder).mkdir()
        values = np.random.default_rng(5).normal(0, factor, (1, 3, SIDE, SIDE))
        np.save(tmp_path / folder / "0.npy", values.astype(np.float32))
    (tmp_path / "recipe.yaml").write_text(
        "nnkit: 1\nname: net\nmodel: {path: net.onnx, inputs: {x: {calibration: {images: images/*.npy}}}}\n"
        f"targets:\n  tpu: {{chip: {chip}, layer_group: quick}}\nverify: {{images: larger/*.npy}}\n",
        encoding="utf-8",
    )
    arguments = ["run", str(tmp_path / "recipe.yaml"), "--out", str(tmp_path / "out"), "--no-cache"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    report = json.loads((tmp_path / "out" / "net" / "tpu" / "report.json").read_text(encoding="utf-8"))
    assert report["verify"]["program_vs_artifact"][0]["mismatches"] == 0
    assert report["details"]["prediction"]["disagreements"] == []
