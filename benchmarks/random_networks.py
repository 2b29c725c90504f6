"""Random whole networks through the integer C of ansi_c: every value against the simulator, under sanitizers.

    python -m benchmarks.random_networks [--count 100] [--seed 1]

A network has `--layers` layers with branches, sums, products and concatenations, of random pads, strides, dilations
and groups; its build has random precision, stripes, memory regions and form of weights. Each is built as `nnkit run`
builds it, which compares every layer on the host, and is then compiled once more with the address and the undefined
behaviour sanitizer. A refusal is told and counted, a difference ends with the seed.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from nnkit import pipeline
from nnkit.api.preparing import load
from nnkit.builds import open_build
from nnkit.cache import StageCache
from nnkit.errors import DoesNotFitError, ModelError
from nnkit.program.inputs import stress_inputs
from nnkit.report.progress import Progress
from nnkit.stages import Build
from nnkit.target import load_target
from nnkit.verify.artifact import compare_artifact
from nnkit_ansi_c.integer_runner import IntegerHostRunner

SANITIZERS = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
_MOST_VALUES = 40_000  # of a map


class DifferentError(Exception):
    """The C gives other values than its program."""


@dataclass
class Drawn:
    """A network under way. shapes: [C, H, W] of every value."""

    rng: np.random.Generator
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)
    shapes: dict[str, tuple[int, int, int]] = field(default_factory=dict)

    def number(self, low: int, high: int) -> int:
        """A whole number, both ends included."""
        return int(self.rng.integers(low, high + 1))

    def value(self) -> str:
        """A value to go on from, the last ones more often."""
        names = list(self.shapes)
        return names[max(-len(names), -1 - int(self.rng.exponential(1.2)))]

    def constant(self, *shape: int, scale: float = 1.0) -> str:
        """Normally distributed weights."""
        name = f"w{len(self.constants)}"
        array = (self.rng.normal(size=shape) * scale).astype(np.float32)
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def add(self, kind: str, inputs: list[str], shape: tuple[int, int, int], **attributes: Any) -> None:
        """A node, unless its result is empty or too large."""
        if min(shape) < 1 or np.prod(shape) > _MOST_VALUES:
            return
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        self.shapes[name] = shape

    def window(self) -> tuple[list[int], list[int], list[int], list[int]]:
        """Kernel, strides, dilations, pads (less than the span at every side)."""
        kernel = [self.number(1, 4), self.number(1, 4)]
        strides = [self.number(1, 3), self.number(1, 3)]
        dilations = [self.number(1, 2), self.number(1, 2)]
        span = [(k - 1) * d for k, d in zip(kernel, dilations, strict=True)]
        return kernel, strides, dilations, [self.number(0, side) for side in span * 2]


def _slid(size: int, kernel: int, stride: int, dilation: int, pads: int) -> int:
    return (size + pads - (kernel - 1) * dilation - 1) // stride + 1


def _conv(net: Drawn) -> None:
    source = net.value()
    channels, height, width = net.shapes[source]
    kernel, strides, dilations, pads = net.window()
    sort = net.rng.choice(["plain", "plain", "pixel", "depthwise", "groups"])
    if sort == "pixel":
        kernel, strides, dilations, pads = [1, 1], [1, 1], [1, 1], [0] * 4
    groups = {"depthwise": channels, "groups": next(g for g in (4, 3, 2, 1) if channels % g == 0)}.get(str(sort), 1)
    maps = channels if sort == "depthwise" else groups * net.number(1, 9)
    weights = net.constant(maps, channels // groups, *kernel, scale=(channels // groups * np.prod(kernel)) ** -0.5)
    inputs = [source, weights, *([net.constant(maps, scale=0.3)] if net.number(0, 1) else [])]
    shape = (
        maps,
        _slid(height, kernel[0], strides[0], dilations[0], pads[0] + pads[2]),
        _slid(width, kernel[1], strides[1], dilations[1], pads[1] + pads[3]),
    )
    net.add("Conv", inputs, shape, kernel_shape=kernel, strides=strides, dilations=dilations, pads=pads, group=groups)


def _transposed(net: Drawn) -> None:
    source = net.value()
    channels, height, width = net.shapes[source]
    kernel, strides = [net.number(1, 3), net.number(1, 3)], [net.number(1, 2), net.number(1, 2)]
    maps = net.number(1, 6)
    shape = (maps, (height - 1) * strides[0] + kernel[0], (width - 1) * strides[1] + kernel[1])
    weights = net.constant(channels, maps, *kernel, scale=channels**-0.5)
    net.add("ConvTranspose", [source, weights], shape, kernel_shape=kernel, strides=strides)


def _pool(net: Drawn) -> None:
    source = net.value()
    channels, height, width = net.shapes[source]
    kernel, strides = [net.number(1, 3), net.number(1, 3)], [net.number(1, 2), net.number(1, 2)]
    pads = [net.number(0, side - 1) for side in kernel * 2]
    shape = (
        channels,
        _slid(height, kernel[0], strides[0], 1, pads[0] + pads[2]),
        _slid(width, kernel[1], strides[1], 1, pads[1] + pads[3]),
    )
    more = {} if net.number(0, 1) else {"count_include_pad": 1}
    kind = str(net.rng.choice(["MaxPool", "AveragePool"]))
    more = more if kind == "AveragePool" else {}
    net.add(kind, [source], shape, kernel_shape=kernel, strides=strides, pads=pads, **more)


def _activation(net: Drawn) -> None:
    source = net.value()
    kind = str(net.rng.choice(["Relu", "LeakyRelu", "Sigmoid", "Tanh", "HardSwish"]))
    net.add(kind, [source], net.shapes[source])


def _pair(net: Drawn) -> None:
    first = net.value()
    same = [name for name, shape in net.shapes.items() if shape == net.shapes[first] and name != first]
    if same:
        kind = str(net.rng.choice(["Add", "Add", "Mul"]))
        net.add(kind, [first, str(net.rng.choice(same))], net.shapes[first])


def _gate(net: Drawn) -> None:
    """Squeeze and excitation: a product with one value for each channel."""
    source = net.value()
    channels = net.shapes[source][0]
    net.add("GlobalAveragePool", [source], (channels, 1, 1))
    pooled = f"v{len(net.nodes) - 1}"
    net.add("Sigmoid", [pooled], (channels, 1, 1))
    net.add("Mul", [source, f"v{len(net.nodes) - 1}"], net.shapes[source])


def _concat(net: Drawn) -> None:
    first = net.value()
    size = net.shapes[first][1:]
    fitting = [name for name, shape in net.shapes.items() if shape[1:] == size]
    parts = [first, *(str(net.rng.choice(fitting)) for _ in range(net.number(1, 2)))]
    channels = sum(net.shapes[name][0] for name in parts)
    if channels <= 24:
        net.add("Concat", parts, (channels, *size), axis=1)


def _upsample(net: Drawn) -> None:
    source = net.value()
    channels, height, width = net.shapes[source]
    scales = f"w{len(net.constants)}"
    net.constants.append(numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), scales))
    net.add(
        "Resize",
        [source, "", scales],
        (channels, 2 * height, 2 * width),
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )


_LAYERS: tuple[Callable[[Drawn], None], ...] = (
    *(_conv,) * 5,
    _transposed,
    *(_pool,) * 2,
    *(_activation,) * 2,
    *(_pair,) * 2,
    _gate,
    _concat,
    _upsample,
)


def network(seed: int, layers: int) -> onnx.ModelProto:
    """A network of one input `x`; its outputs are what no layer reads."""
    net = Drawn(np.random.default_rng(seed))
    shape = (net.number(1, 6), net.number(6, 20), net.number(6, 20))
    net.shapes["x"] = shape
    _conv(net)
    while len(net.nodes) < layers:
        _LAYERS[net.number(0, len(_LAYERS) - 1)](net)
    read = {name for node in net.nodes for name in node.input}
    outputs = [name for name in net.shapes if name not in read and name != "x"]

    def told(name: str) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, *net.shapes[name]))

    graph = helper.make_graph(net.nodes, "random", [told("x")], [told(name) for name in outputs], net.constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def options(seed: int) -> str:
    """Of the target, as a recipe has them."""
    rng = np.random.default_rng([seed, 1])
    written = [f"precision: {rng.choice(['int8', 'int8', 'a16w8', 'int16'])}"]
    if rng.random() < 0.3:
        written.append("weights: arrays")
    if rng.random() < 0.3:
        written.append(f"stripes: {rng.integers(2, 5)}")
    if rng.random() < 0.3:
        fast = int(rng.integers(1, 16)) * 1024
        written.append(
            f"regions: [{{name: fast, size: {fast}, cycles: 1}}, {{name: slow, size: 1MiB, cycles: 4}}, "
            f"{{name: near, size: {fast}, cycles: 1, holds: weights}}, "
            "{name: far, size: 1MiB, cycles: 9, holds: weights}]"
        )
    return f"{{{', '.join(written)}}}"


def check(folder: Path, seed: int, layers: int = 8, *, sanitize: bool = True) -> int:
    """How many values were equal. Raises DifferentError, ModelError for what there is no C for, DoesNotFitError."""
    model = network(seed, layers)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, folder / "net.onnx")
    shape = [side.dim_value for side in model.graph.input[0].type.tensor_type.shape.dim]
    (folder / "inputs").mkdir()
    for index in range(3):
        values = np.random.default_rng([seed, 2, index]).standard_normal(shape).astype(np.float32)
        np.save(folder / f"inputs/{index}.npy", values)
    (folder / "recipe.yaml").write_text(
        "nnkit: 1\nname: random\nmodel: {path: net.onnx, inputs: {x: {calibration: {images: 'inputs/*.npy'}}}}\n"
        f"targets: {{ansi_c: {options(seed)}}}\nverify: {{images: 'inputs/*.npy', count: 1}}\n"
    )
    recipe = load(folder / "recipe.yaml")
    target = load_target("ansi_c")
    build = Build(
        recipe, "ansi_c", target, recipe.targets["ansi_c"], StageCache.disabled(), Progress(quiet=True), False
    )
    finished = pipeline.run(build, folder / "out")
    opened = open_build(finished.folder)
    (verdict,) = opened.report["verify"]["program_vs_artifact"]
    if verdict["mismatches"]:
        raise DifferentError(f"seed {seed}: {verdict}")
    if not sanitize:
        return int(verdict["values"])
    again = compare_artifact(
        IntegerHostRunner(flags=SANITIZERS),
        finished.folder / "artifact",
        opened.program,
        stress_inputs(opened.program, 2),
    )
    if again.mismatches:
        raise DifferentError(f"seed {seed}: {again.first_difference}")
    return int(verdict["values"]) + again.values


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.random_networks")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--layers", type=int, default=12)
    arguments = parser.parse_args()
    values = refused = 0
    for seed in range(arguments.seed, arguments.seed + arguments.count):
        with tempfile.TemporaryDirectory(prefix="nnkit-random-") as name:
            try:
                values += check(Path(name), seed, arguments.layers)
            except (ModelError, DoesNotFitError) as error:
                refused += 1
                print(f"seed {seed} was refused: {error}")
    print(f"{arguments.count - refused} networks, {values:,} values equal, {refused} refused")


if __name__ == "__main__":
    main()
