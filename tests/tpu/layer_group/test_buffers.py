"""Scratch memory of convolutions, pools and casts: beside what the compiler's final programs give them."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nnkit.calibrate.stats import ValueRange
from nnkit.program import Window
from nnkit_tpu.chips import chip_named, lane_bytes
from nnkit_tpu.compile import CompileOptions, lower_graph
from nnkit_tpu.layer_group.buffers import spread_taps
from nnkit_tpu.layer_group.from_program import group_graph
from nnkit_tpu.layer_group.injection import compile_groups
from nnkit_tpu.program import (
    Mode,
    TpuActivation,
    TpuConv,
    TpuGraph,
    TpuMatMul,
    TpuOp,
    TpuPool,
    TpuReduce,
    TpuSoftmax,
    TpuTensor,
)
from nnkit_tpu.toolchain import Toolchain

_ITEM = re.compile(
    r'^\s*(%\d+) = "tpu\.(\w+)"\((%\w+).*?out_size = (\d+), buffer_addr = \d+, buffer_size = (\d+)', re.M
)
_CONVOLUTION = re.compile(
    r'"tpu\.Conv2D".*kernel_shape = \[(\d+), (\d+)\].*?use_3ic_optimize = (\d+).*?: \(tensor<1x(\d+)x8x8x'
)


def _conv(name: str, source: str, inputs: int, outputs: int, window: Window, group: int = 1) -> TpuConv:
    random = np.random.default_rng(5)
    weight = random.normal(0, 0.1, (outputs, inputs // group, window.kernel_h, window.kernel_w)).astype(np.float32)
    bias = random.normal(0, 0.1, outputs).astype(np.float32)
    fields = {"name": name, "inputs": (source,), "output": name, "window": window, "group": group}
    return TpuConv(**fields, weight=weight, bias=bias, relu=name != "deep")


def _network(channels: int, first: Window) -> TpuGraph:
    """A first convolution of few channels, one in each lane and more, depthwise, in four groups, and a pool."""
    point, same = Window(1, 1), Window(3, 3, pad_top=1, pad_left=1, pad_bottom=1, pad_right=1)
    ops: tuple[TpuOp, ...] = (
        _conv("first", "x", channels, 32, first),
        _conv("point", "first", 32, 96, point),
        _conv("deep", "point", 96, 96, same, 96),
        _conv("grouped", "deep", 96, 96, same, 4),
        TpuPool(name="p", inputs=("grouped",), output="p", function="average", window=Window(2, 2, 2, 2)),
        _conv("last", "p", 96, 16, same),
    )
    shapes = {"x": (1, channels, 46, 46), "p": (1, 96, 11, 11), "last": (1, 16, 11, 11), "first": (1, 32, 23, 23)}
    shapes |= dict.fromkeys(("point", "deep", "grouped"), (1, 96, 23, 23))
    return TpuGraph("net", {name: TpuTensor(name, shape) for name, shape in shapes.items()}, ops, ("x",), ("last",))


@pytest.mark.parametrize("chip", ["bm1684x", "bm1688"])
@pytest.mark.parametrize("mode", ["INT8", "F16"])
@pytest.mark.parametrize(
    ("channels", "first"),
    [
        (3, Window(3, 3, 2, 2, pad_top=1, pad_left=1, pad_bottom=1, pad_right=1)),
        (8, Window(3, 3, 2, 2, pad_top=1, pad_left=1, pad_bottom=1, pad_right=1)),
        (3, Window(1, 5, 2, 2, pad_left=2, pad_right=2)),
    ],
)
def test_scratch_is_what_the_compiler_gives(
    tpu_toolchain: Toolchain, tmp_path: Path, chip: str, mode: Mode, channels: int, first: Window
) -> None:
    graph = _network(channels, first)
    ranges = {n: ValueRange(-2.0, 4.0, -2.0, 4.0) for n in graph.tensors} if mode == "INT8" else None
    lowered = lower_graph(tpu_toolchain, graph, CompileOptions(chip, mode), tmp_path, ranges=ranges).ready
    compile_groups(tpu_toolchain, lowered, keep=tmp_path)
    final = (tmp_path / "final.mlir").read_text()
    items = _ITEM.findall(final)
    sizes = {value: int(size) for value, _, _, size, _ in items}
    planned = [op for function in lowered.functions for op in function.graph.ops]
    compared = 0
    for kind, name in (("conv", "Conv2D"), ("average_pool", "Pool2D"), ("unary", "Cast")):
        ours = [op for op in planned if op.kind == kind and (kind != "unary" or op.function == "cast")]
        theirs = [item for item in items if item[1] == name]
        assert len(ours) == len(theirs)
        for op, (_, _, source, size, buffer) in zip(ours, theirs, strict=True):
            scratch = op.buffer.size_bytes(int(size), sizes[source])
            aligning = 2 * chip_named(chip).eu_bytes if "first" in op.name else 0  # pixels of both input and output
            assert int(buffer) <= scratch <= int(buffer) + aligning, (op.name, buffer, scratch)
            compared += scratch > 0
    assert compared >= 3
    by_program = group_graph(replace(graph, ops=tuple(replace(op, mode=mode) for op in graph.ops)), chip_named(chip))
    rules = {op.name: op.buffer for op in planned if op.kind == "conv"}
    assert {op.name: op.buffer for op in by_program.ops if op.kind == "conv"} == rules


@pytest.mark.parametrize("chip", ["bm1684x", "bm1688"])
@pytest.mark.parametrize("mode", ["INT8", "F16"])
def test_taps_are_spread_as_the_compiler_spreads_them(
    tpu_toolchain: Toolchain, tmp_path: Path, chip: str, mode: Mode
) -> None:
    kernels = ((3, 3), (1, 5), (5, 1), (3, 5), (5, 3), (7, 7))
    cases = {f"y{c}_{h}_{w}": (c, Window(h, w)) for c in (1, 3, 4, 8, 10, 11, 16, 21, 32) for h, w in kernels}
    ops = tuple(_conv(name, name.replace("y", "x"), c, 8, window) for name, (c, window) in cases.items())
    tensors = {}
    for op, (channels, window) in zip(ops, cases.values(), strict=True):
        tensors[op.inputs[0]] = TpuTensor(op.inputs[0], (1, channels, 8, 8))
        tensors[op.output] = TpuTensor(op.output, (1, 8, *window.output_hw(8, 8)))
    graph = TpuGraph("net", tensors, ops, tuple(op.inputs[0] for op in ops), tuple(cases))
    ranges = {n: ValueRange(-2.0, 4.0, -2.0, 4.0) for n in tensors} if mode == "INT8" else None
    text = lower_graph(tpu_toolchain, graph, CompileOptions(chip, mode), tmp_path, ranges=ranges).ready.text
    theirs = {f"y{c}_{h}_{w}": int(spread) & 3 for h, w, spread, c in _CONVOLUTION.findall(text)}
    assert len(theirs) == len(cases)
    integer = mode == "INT8"
    assert theirs == {
        name: spread_taps(chip_named(chip), integer=integer, channels=channels, window=window, readers=1)
        for name, (channels, window) in cases.items()
    }


@pytest.mark.parametrize("chip", ["bm1684x", "bm1688"])
def test_scratch_of_functions_and_casts_is_what_the_compiler_gives(
    tpu_toolchain: Toolchain, tmp_path: Path, chip: str
) -> None:
    functions = (
        "sigmoid",
        "silu",
        "hard_swish",
        "tanh",
        "gelu",
        "gelu_by_tanh",
        "erf",
        "elu",
        "softplus",
        "mish",
        "log",
    )
    ops: list[TpuOp] = []
    for index, function in enumerate(functions):
        source = ops[-1].output if ops else "x"
        ops.append(_conv(f"c{index}", source, 32, 32, Window(1, 1)))
        ops.append(TpuActivation(name=function, inputs=(f"c{index}",), output=function, function=function))
    last = ops[-1].output
    ops.append(
        TpuActivation(name="twice", inputs=("silu",), output="twice", function="tanh")
    )  # silu is cast and read
    tensors = {name: TpuTensor(name, (1, 32, 9, 9)) for name in ("x", *(op.output for op in ops))}
    graph = TpuGraph("net", tensors, tuple(ops), ("x",), (last, "twice"))
    ranges = dict.fromkeys(tensors, ValueRange(-2.0, 4.0, -2.0, 4.0))
    modes = dict.fromkeys((*functions, "twice"), "F16")  # in an INT8 network: with casts from and to INT8
    options = CompileOptions(chip, "INT8")
    lowered = lower_graph(tpu_toolchain, graph, options, tmp_path, ranges=ranges, modes=modes).ready
    compile_groups(tpu_toolchain, lowered, keep=tmp_path)
    items = _ITEM.findall((tmp_path / "final.mlir").read_text())
    sizes = {value: int(size) for value, _, _, size, _ in items}
    planned = [op for function in lowered.functions for op in function.graph.ops]
    for name in ("Active", "Cast"):
        ours = [op for op in planned if op.function == name.lower() and op.kind == "unary"]
        theirs = [item for item in items if item[1] == name]
        assert len(ours) == len(theirs) >= len(functions) - 1
        for op, (_, _, source, size, buffer) in zip(ours, theirs, strict=True):
            assert op.buffer.size_bytes(int(size), sizes[source]) == int(buffer), op.name
    assert any(op.buffer.per_input for op in planned if op.function == "cast")  # of what else is read


def _products() -> TpuGraph:
    """Products of rows in several blocks, with constants and with a computed value; long ones, and of a vector."""
    random = np.random.default_rng(5)
    shapes = {"x": (1, 150, 70), "z": (1, 50, 30), "v": (1, 300), "w": (1, 20)}
    ops: list[TpuOp] = []
    for name, source, columns in (("a", "x", 130), ("b", "a", 300), ("c", "b", 200), ("d", "c", 50)):
        shapes[name] = (1, 150, columns)
        weight = random.normal(0, 0.1, (shapes[source][2], columns)).astype(np.float32)
        bias = random.normal(0, 0.1, columns).astype(np.float32) if name != "b" else None
        ops.append(TpuMatMul(name=name, inputs=(source,), output=name, weight=weight, bias=bias))
    shapes["e"] = (1, 150, 30)
    ops.append(TpuMatMul(name="e", inputs=("d", "z"), output="e", weight=None))
    ops.append(TpuActivation(name="f", inputs=("e",), output="f", function="abs"))
    shapes["f"] = shapes["e"]
    weight = random.normal(0, 0.1, (300, 20)).astype(np.float32)
    ops.append(TpuMatMul(name="w", inputs=("v",), output="w", weight=weight))
    tensors = {name: TpuTensor(name, shape) for name, shape in shapes.items()}
    return TpuGraph("net", tensors, tuple(ops), ("x", "z", "v"), ("f", "w"))


@pytest.mark.parametrize("chip", ["bm1684x", "bm1688"])
@pytest.mark.parametrize("mode", ["INT8", "F16"])
def test_local_memory_of_products_is_what_the_compiler_gives(
    tpu_toolchain: Toolchain, tmp_path: Path, chip: str, mode: Mode
) -> None:
    graph, on = _products(), chip_named(chip)
    ranges = {n: ValueRange(-2.0, 4.0, -2.0, 4.0) for n in graph.tensors} if mode == "INT8" else None
    lowered = lower_graph(tpu_toolchain, graph, CompileOptions(chip, mode), tmp_path, ranges=ranges).ready
    compile_groups(tpu_toolchain, lowered, keep=tmp_path)
    final = (tmp_path / "final.mlir").read_text()
    items = _ITEM.findall(final)
    sizes = {value: int(size) for value, _, _, size, _ in items}
    theirs = [item for item in items if item[1] == "MatMul"]
    for made in (
        lowered.functions[0].graph,
        group_graph(replace(graph, ops=tuple(replace(op, mode=mode) for op in graph.ops)), on),
    ):
        ours = [op for op in made.ops if op.kind == "matmul" and not op.not_local]
        assert len(ours) == len(theirs) == len([op for op in made.ops if op.kind == "matmul"]) - 1
        for op, (_, _, source, size, buffer) in zip(ours, theirs, strict=True):
            assert op.buffer.size_bytes(int(size), sizes[source]) == int(buffer), op.name
        loaded = {int(size) for _, kind, _, size, _ in items if kind == "Load"}
        of_ours = {
            lane_bytes(on, w.shape, w.dtype_bytes, w.aligned)
            for n in ours
            for w in map(made.weights.get, n.weights)
            if w
        }
        assert of_ours <= loaded
        assert [op.macs for op in made.ops if op.kind == "matmul"] == [
            150 * 70 * 130,
            150 * 130 * 300,
            150 * 300 * 200,
            150 * 200 * 50,
            150 * 50 * 30,
            300 * 20,
        ]


def _along_axes() -> TpuGraph:
    """Softmax and reductions along rows and columns, of whole vectors and others, of more channels than lanes."""
    shapes: dict[str, tuple[int, ...]] = {}
    ops: list[TpuOp] = []
    cases = [(64, 10, 12, 3, False), (100, 10, 40, 3, False), (20, 7, 64, 3, False), (64, 33, 7, 3, False)]
    cases += [(100, 9, 40, 2, False), (64, 10, 12, 2, True), (64, 10, 40, 3, True)]
    for index, (channels, height, width, axis, log) in enumerate(cases):
        x, a, s, b, r = (f"{name}{index}" for name in "xasbr")
        shapes |= dict.fromkeys((x, a, s, b), (1, channels, height, width))
        shapes[r] = (1, channels, 1, width) if axis == 2 else (1, channels, height, 1)
        function = ("max", "sum", "mean")[index % 3]
        ops += [
            _conv(a, x, channels, channels, Window(1, 1)),
            TpuSoftmax(name=s, inputs=(a,), output=s, axis=axis, log=log),
            _conv(b, s, channels, channels, Window(1, 1)),
            TpuReduce(name=r, inputs=(b,), output=r, function=function, axes=(axis,), keep_dims=True),  # type: ignore[arg-type]
        ]
    tensors = {name: TpuTensor(name, shape) for name, shape in shapes.items()}
    inputs, outputs = (tuple(name for name in shapes if name[0] == first) for first in "xr")
    return TpuGraph("net", tensors, tuple(replace(op, mode="F16") for op in ops), inputs, outputs)


@pytest.mark.parametrize("chip", ["bm1684x", "bm1688"])
def test_scratch_of_softmax_and_reductions_is_what_the_compiler_gives(
    tpu_toolchain: Toolchain, tmp_path: Path, chip: str
) -> None:
    graph = _along_axes()
    lowered = lower_graph(tpu_toolchain, graph, CompileOptions(chip, "F16"), tmp_path).ready
    compile_groups(tpu_toolchain, lowered, keep=tmp_path)
    items = _ITEM.findall((tmp_path / "final.mlir").read_text())
    for made in (lowered.functions[0].graph, group_graph(graph, chip_named(chip))):
        for kind, name in (("softmax", "Softmax"), ("reduce", "Reduce")):
            ours = sorted(op.buffer.fixed for op in made.ops if op.kind == kind and not op.not_local)
            theirs = sorted(int(buffer) for _, each, _, _, buffer in items if each == name)
            assert len(theirs) == len(graph.inputs)
            assert ours == theirs
