"""The float program: what is gathered into one op, and what is refused with which reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from nnkit.errors import ModelError
from nnkit.quantize.float_program import FloatAdd, FloatAveragePool, FloatConv2d, FloatMul, FloatProgram
from nnkit.quantize.lowering import lower
from nnkit.rewrite import RewriteLog

from .conftest import make_model, mark

MAP = (1, 4, 6, 6)
WEIGHT = np.ones((4, 4, 3, 3), np.float32)


def _lower(
    nodes: list[onnx.NodeProto], constants: dict[str, Any] | None = None, **inputs: tuple[int, ...]
) -> FloatProgram:
    return lower(make_model(nodes, constants or {}, inputs or {"x": MAP}, ["y"]))


def test_a_chain_is_one_op() -> None:
    nodes = [
        mark(helper.make_node("Pad", ["x", "pads", "value"], ["p"], name="pad"), "c"),
        helper.make_node("Conv", ["p", "w"], ["c"], name="conv"),
        mark(helper.make_node("Clip", ["c", "low", "high"], ["a"], name="act"), "c"),
        mark(helper.make_node("AveragePool", ["a"], ["y"], name="pool", kernel_shape=[2, 2], strides=[2, 2]), "c"),
    ]
    constants = {
        "pads": np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64),
        "value": np.float32(-2),
        "w": WEIGHT,
        "low": np.float32(0),
        "high": np.float32(6),
    }
    program = _lower(nodes, constants)
    (conv,) = program.ops
    assert isinstance(conv, FloatConv2d)
    assert (conv.name, conv.inputs, conv.output, conv.range_value) == ("conv", ("x",), "y", "a")
    window = conv.window
    assert (window.pad_top, window.pad_left, window.pad_bottom, window.pad_right) == (1, 1, 1, 1)
    assert conv.pad_value == -2
    assert conv.activation is not None
    assert (conv.activation.low, conv.activation.high) == (0.0, 6.0)
    assert conv.pool is not None
    assert conv.pool.kind == "average"
    assert np.array_equal(conv.bias, np.zeros(4))
    assert (program.inputs, program.outputs, program.shapes["y"]) == (("x",), ("y",), (4, 3, 3))
    assert "w" not in program.shapes


def test_a_factor_for_each_channel_comes_second() -> None:
    nodes = [helper.make_node("Mul", ["s", "x"], ["y"])]
    (mul,) = _lower(nodes, s=(1, 4, 1, 1), x=MAP).ops
    assert isinstance(mul, FloatMul)
    assert mul.inputs == ("x", "s")
    (mul,) = _lower(nodes, s=(1, 4, 1, 1), x=(1, 4, 1, 1)).ops
    assert mul.inputs == ("s", "x")  # both are factors: nothing is turned


def test_more_layers_in_sixteen_bits() -> None:
    program = _lower([helper.make_node("Add", ["x", "x"], ["a"]), helper.make_node("Add", ["a", "x"], ["y"])])
    tagged = program.with_sixteen_bits(["a"])
    assert [op.tags.hp for op in tagged.ops] == [True, False]
    assert all(isinstance(op, FloatAdd) for op in tagged.ops)


@pytest.mark.parametrize(
    ("node", "constants", "inputs", "reason"),
    [
        (
            helper.make_node("Conv", ["x", "w"], ["y"]),
            {},
            {"x": MAP, "w": (4, 4, 3, 3)},
            "its weights are not constant",
        ),
        (
            helper.make_node("Conv", ["x", "w", "b"], ["y"]),
            {"w": WEIGHT},
            {"x": MAP, "b": (4,)},
            "its bias is not constant",
        ),
        (helper.make_node("Conv", ["x", "w"], ["y"]), {"w": WEIGHT[..., 0]}, {"x": (1, 4, 6)}, "of 3 dimensions"),
        (helper.make_node("Add", ["x", "c"], ["y"]), {"c": np.ones(1, np.float32)}, {}, "one operand is a constant"),
        (helper.make_node("Add", ["x", "z"], ["y"]), {}, {"x": MAP, "z": (1, 4, 1, 1)}, "cannot be broadcast here"),
        (helper.make_node("Concat", ["x", "x"], ["y"], axis=2), {}, {}, "only concatenation along the channels"),
        (
            helper.make_node("Concat", ["x", "c"], ["y"], axis=1),
            {"c": np.ones(MAP, np.float32)},
            {},
            "concatenation with a constant is not supported",
        ),
        (
            helper.make_node("Resize", ["x", "", "s"], ["y"], mode="linear"),
            {"s": np.float32([1, 1, 2, 2])},
            {},
            "resize mode linear; only nearest is supported",
        ),
        (
            helper.make_node("Resize", ["x", "", "s"], ["y"]),
            {"s": np.float32([1, 1, 1.5, 1.5])},
            {},
            r"resize from \(6, 6\) to \(9, 9\); only whole factors",
        ),
        (
            helper.make_node("Pad", ["x", "p"], ["y"], mode="reflect"),
            {"p": np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64)},
            {},
            "pad mode reflect; only constant is supported",
        ),
        (
            helper.make_node("Pad", ["x", "p"], ["y"]),
            {"p": np.array([0, 1, 0, 0, 0, 0, 0, 0], np.int64)},
            {},
            "only non-negative padding of H and W",
        ),
        (
            helper.make_node("Clip", ["x", "h", "l"], ["y"]),
            {"h": np.float32(1), "l": np.float32(0)},
            {},
            "its lower bound is above its upper bound",
        ),
        (
            helper.make_node(
                "AveragePool",
                ["x"],
                ["y"],
                kernel_shape=[3, 3],
                strides=[2, 2],
                pads=[1, 1, 1, 1],
                ceil_mode=1,
                count_include_pad=1,
            ),
            {},
            {},
            "with ceil_mode windows reach beyond it",
        ),
        (
            helper.make_node("MatMul", ["c", "x"], ["y"]),
            {"c": np.ones((5, 6), np.float32)},
            {"x": (1, 6, 7)},
            "its constant is the left factor",
        ),
        (
            helper.make_node("GlobalAveragePool", ["x"], ["y"]),
            {},
            {"x": (2, 4, 6, 6)},
            r"'x' of shape \[2, 4, 6, 6\] begins with an axis of 2; that of images is 1 here",
        ),
    ],
)
def test_refusals(node: onnx.NodeProto, constants: dict[str, Any], inputs: dict[str, Any], reason: str) -> None:
    with pytest.raises(ModelError, match=reason):
        _lower([node], constants, **inputs)


def test_a_mean_that_counts_padding_but_has_none_is_over_what_ceil_mode_leaves() -> None:
    """PyTorch's AvgPool2d(4, ceil_mode=True), whose count_include_pad is on by default."""
    fields = {"kernel_shape": [4, 4], "strides": [4, 4], "ceil_mode": 1, "count_include_pad": 1}
    (pool,) = _lower([helper.make_node("AveragePool", ["x"], ["y"], **fields)]).ops
    assert isinstance(pool, FloatAveragePool)
    assert (pool.counts_padding, pool.window.has_padding) == (False, True)


@pytest.mark.parametrize(
    ("nodes", "reason"),
    [
        (
            [
                helper.make_node("MaxPool", ["x"], ["a"], kernel_shape=[2, 2]),
                mark(helper.make_node("Relu", ["a"], ["y"]), "a"),
            ],
            "an activation was marked to fuse; only Conv, ConvTranspose, Add, Mul can take one in",
        ),
        (
            [
                helper.make_node("Add", ["x", "x"], ["a"]),
                mark(helper.make_node("MaxPool", ["a"], ["y"], kernel_shape=[2, 2]), "a"),
            ],
            "only a Conv can take in a pool",
        ),
        (
            [
                helper.make_node("Add", ["x", "x"], ["a"]),
                mark(helper.make_node("Sigmoid", ["a"], ["y"], name="gate"), "a"),
            ],
            "nodes marked to fuse do not form pad, layer, activation, pool: gate",
        ),
    ],
)
def test_marks_that_make_no_op_are_refused(nodes: list[onnx.NodeProto], reason: str) -> None:
    with pytest.raises(ModelError, match=reason):
        _lower(nodes)


def test_a_refusal_names_the_rewrite_that_may_take_the_node_away() -> None:
    model = make_model([helper.make_node("Identity", ["x"], ["y"], name="copy")], {}, {"x": MAP}, ["y"])
    with pytest.raises(ModelError) as caught:
        lower(model, RewriteLog(()), "docs/somewhere.md")
    assert "copy (Identity): op Identity is not supported; the rewrite remove_identity may take it away" in str(
        caught.value
    )
    assert "docs/somewhere.md lists what is supported" in caught.value.remedy
