"""Forms that the cv18xx compute right: parts of pools, dense kernels, copies, against numpy; what they refuse."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnkit.calibrate.stats import ValueRange
from nnkit.errors import ModelError
from nnkit.program import Window
from nnkit.program.convolution import convolve
from nnkit.target import load_target
from nnkit_tpu import kernels
from nnkit_tpu.arithmetic import convolution_weights
from nnkit_tpu.chip_forms import Written, for_chip, with_copies
from nnkit_tpu.options import TpuOptions
from nnkit_tpu.pool_parts import pools_of_parts
from nnkit_tpu.program import (
    TpuActivation,
    TpuBinary,
    TpuConcat,
    TpuConv,
    TpuGraph,
    TpuOp,
    TpuPool,
    TpuSlice,
    TpuTensor,
)
from nnkit_tpu.quantize import Precision, to_program
from nnkit_tpu.thresholds import thresholds

SHAPE = (1, 4, 8, 8)


@st.composite
def _pools(draw: st.DrawFn) -> tuple[TpuPool, tuple[int, int]]:
    """An average pool whose every window lies on the image in part, and the image's size."""
    kernel = draw(st.tuples(st.integers(1, 5), st.integers(1, 5)))
    size = tuple(draw(st.integers(max(2, k), 12)) for k in kernel)
    stride = draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    pads = [draw(st.integers(0, k - 1)) for k in (*kernel, *kernel)]
    window = Window(*kernel, *stride, 1, 1, *pads)
    return TpuPool(name="p", inputs=("x",), output="y", function="average", window=window), (size[0], size[1])


@given(_pools())
def test_parts_give_the_mean_of_what_lies_on_the_image(case: tuple[TpuPool, tuple[int, int]]) -> None:
    pool, size = case
    x = np.random.default_rng(1).integers(-9, 10, (1, 2, *size)).astype(np.float64)
    values = {"x": x}
    for op, shape in pools_of_parts(pool, x.shape):
        if isinstance(op, TpuSlice):
            found = kernels.sliced(values[op.inputs[0]], op)
        elif isinstance(op, TpuConcat):
            found = np.concatenate([values[name] for name in op.inputs], op.axis)
        else:
            assert isinstance(op, TpuPool)
            assert not op.window.has_padding
            source = values[op.inputs[0]]
            found = kernels.window_sums(source, op.window) / (op.window.kernel_h * op.window.kernel_w)
        assert found.shape == shape
        values[op.output] = np.asarray(found, np.float64)
    w = pool.window
    for i in range(values["y"].shape[2]):
        for j in range(values["y"].shape[3]):
            top, left = i * w.stride_h - w.pad_top, j * w.stride_w - w.pad_left
            seen = x[:, :, max(top, 0) : top + w.kernel_h, max(left, 0) : left + w.kernel_w]
            assert np.allclose(values["y"][:, :, i, j], seen.mean(axis=(2, 3)))


def _graph(*ops: TpuOp, outputs: tuple[str, ...]) -> TpuGraph:
    tensors = {name: TpuTensor(name, SHAPE) for name in ("x", *(op.output for op in ops))}
    return TpuGraph("g", tensors, ops, ("x",), outputs)


def _conv(source: str, output: str, *, dilation: int = 1, group: int = 1, relu: bool = False) -> TpuConv:
    weight = np.random.default_rng(2).normal(0, 1, (4, 4 // group, 3, 3)).astype(np.float32)
    window = Window(3, 3, 1, 1, dilation, dilation, *[dilation] * 4)
    return TpuConv(
        name=output, inputs=(source,), output=output, weight=weight, bias=None, window=window, group=group, relu=relu
    )


def _prelu(source: str, output: str) -> TpuActivation:
    slopes = np.full(4, 0.25, np.float32)
    return TpuActivation(name=output, inputs=(source,), output=output, function="prelu", slopes=slopes)


def test_a_dense_kernel_computes_what_the_dilated_one_says() -> None:
    graph = _graph(_conv("x", "y", dilation=3, group=4), outputs=("y",))
    (dense,) = for_chip(graph, "cv181x", "INT8").ops
    assert isinstance(dense, TpuConv)
    assert (dense.window.dilation_h, dense.window.kernel_h, dense.weight.shape) == (1, 7, (4, 1, 7, 7))
    x = np.random.default_rng(3).normal(0, 1, SHAPE)
    results = [convolve(x, c.weight.astype(np.float64), c.window, 4, 0.0) for c in (graph.ops[0], dense)]  # type: ignore[attr-defined]
    assert np.allclose(results[0], results[1])
    assert for_chip(graph, "bm1684x", "INT8") is graph


def test_only_values_that_are_needed_elsewhere_are_copied() -> None:
    alone = _graph(_conv("x", "c"), _prelu("c", "y"), outputs=("y",))
    assert with_copies(Written(alone, None, None), "cv181x", "INT8").graph.ops == alone.ops
    shown = _graph(_conv("x", "c"), _prelu("c", "y"), _prelu("c", "z"), outputs=("c", "y", "z"))
    unit = ValueRange(-1.0, 1.0, -1.0, 1.0)
    ranges = dict.fromkeys(("x", "c", "y", "z"), unit)
    written = with_copies(Written(shown, ranges, {"y": "BF16"}), "cv181x", "INT8")
    kinds = [op.kind for op in written.graph.ops]
    assert kinds == ["conv", "pad", "activation", "pool", "activation"]
    assert written.graph.ops[2].inputs == ("c_for_y",)
    assert written.graph.outputs == shown.outputs
    assert written.ranges is not None
    assert written.ranges["c_for_y"] == unit
    assert written.modes == {"y": "BF16", "c_for_y": "BF16"}
    assert with_copies(Written(shown, ranges, None), "bm1684x", "INT8").graph is shown


def test_parts_that_others_read_leave_the_parts_beside_them_their_thresholds() -> None:
    """Of parts of one scale the compiler's code for the cv18xx joins none in local memory."""
    parts = TpuConcat(name="j", inputs=("c", "d"), output="j", axis=1)
    graph = _graph(_conv("x", "c"), _conv("c", "d"), parts, outputs=("j",))
    ranges = {name: ValueRange(-most, most, -most, most) for name, most in (("x", 1.0), ("c", 4.0), ("d", 2.0))}
    ranges["j"] = ranges["c"]
    for always_signed, kept in ((True, 2.0), (False, 4.0)):
        assert thresholds(graph, ranges, always_signed=always_signed)["d"].value == kept


def test_signs_are_those_that_the_compiler_makes() -> None:
    window = Window(kernel_h=1, kernel_w=1)
    mean = TpuPool(name="mean", inputs=("c",), output="mean", function="average", window=window)
    positive = _conv("x", "positive", relu=True)
    joined = TpuConcat(name="joined", inputs=("mean", "positive"), output="joined", axis=1)
    graph = _graph(_conv("x", "c"), mean, positive, joined, outputs=("joined",))
    low = {"x": -1.0, "c": -2.0, "mean": 0.0, "positive": 0.0, "joined": 0.0}
    ranges = {name: ValueRange(value, 3.0, value, 3.0) for name, value in low.items()}
    found = thresholds(graph, ranges, always_signed=False)
    assert found["mean"].signed  # as its input
    assert found["joined"] == found["mean"]
    assert not found["positive"].signed  # behind a relu, whatever it is joined with


@pytest.mark.parametrize(
    ("scale", "whole"), [(1.0, True), (0.5, True), (1 / 64, True), (1 / 128, False), (0.3, False)]
)
def test_weights_that_are_whole_numbers_stay_so(scale: float, whole: bool) -> None:
    from nnkit.program.formats import Affine

    integers = np.array([[1, -3], [2, 5]]).reshape(2, 2, 1, 1)
    unit = Affine(8, (1.0,), (0,), signed=True)
    weight = (integers * scale).astype(np.float32)
    found = convolution_weights(weight, None, unit, unit, rounding="half_up", keeps_whole=True)
    assert np.array_equal(found.weight, integers) == whole


def test_what_the_cv18xx_compute_wrongly_is_refused_beside_integers() -> None:
    constant = np.full(1, 2.0, np.float32)
    least = TpuBinary(name="least", inputs=("x",), output="y", function="min", constant=constant)
    relu = TpuActivation(name="relu", inputs=("x",), output="z", function="relu")
    ranges = {name: ValueRange(-1.0, 1.0, -1.0, 1.0) for name in ("x", "y", "z")}
    program = to_program(_graph(least, relu, outputs=("y", "z")), ranges, Precision("cv181x", "INT8"))
    target = load_target("tpu")
    with pytest.raises(ModelError, match=r"least \(binary\): .* in INT8 networks; found min\n.*bm1684x"):
        target.check(program, TpuOptions(chip="cv181x"))
    target.check(program, TpuOptions(chip="bm1684x"))
