"""Values that share bytes: what it saves, worked out by hand, and that ONNX Runtime still agrees to the bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import NodeProto, helper
from segment_networks import network

from nnkit.cpu_segments import emit_segment, run_segment
from nnkit.graph.onnx_runtime import FloatSession

VALUE_BYTES = 4
X = {"x": np.arange(-12, 12, dtype=np.float32).reshape(1, 2, 3, 4)}


def arena_values(nodes: list[NodeProto], folder: Path, outputs: list[str] | None = None) -> int:
    """Numbers in the working memory; the C's outputs are compared with ONNX Runtime's on the way."""
    model = network(nodes, X, {}, outputs)
    source = emit_segment(model, "part", folder)
    computed = run_segment(folder, "part", X, sanitize=True)
    for name, expected in FloatSession(model).run(X).items():
        np.testing.assert_array_equal(computed[name], expected)
    return source.arena_bytes // VALUE_BYTES


def node(op_type: str, inputs: str, output: str, **attributes: object) -> NodeProto:
    return helper.make_node(op_type, inputs.split(), [output], **attributes)


def test_parts_are_written_into_their_concatenation(tmp_path: Path) -> None:
    """Two parts of 24 values, each made in two steps, and the whole of 48: nothing but the whole is kept."""
    nodes = [
        node("Neg", "x", "a"),
        node("Relu", "a", "p"),
        node("Abs", "x", "b"),
        node("Relu", "b", "q"),
        node("Concat", "p q", "whole", axis=1),
        node("Neg", "whole", "y"),
    ]
    assert arena_values(nodes, tmp_path) == 48
    assert "nnkit_copy" not in (tmp_path / "part.c").read_text()


def test_a_part_that_is_read_again_keeps_its_values(tmp_path: Path) -> None:
    nodes = [
        node("Neg", "x", "p"),
        node("Relu", "p", "q"),
        node("Concat", "p q", "whole", axis=1),
        node("Abs", "whole", "z"),
        node("Concat", "p p", "twice", axis=1),
        node("Add", "z twice", "y"),
    ]
    assert arena_values(nodes, tmp_path) >= 48


def test_a_concatenation_that_would_live_too_long_is_copied(tmp_path: Path) -> None:
    """While `wide` and `turned` live, 48 values each, the skipped part of 24 is kept, not the concatenation of 48."""
    nodes = [
        node("Neg", "x", "skip"),
        node("Concat", "x x", "wide", axis=2),
        node("Transpose", "wide", "turned", perm=[0, 1, 3, 2]),
        node("MaxPool", "turned", "most", kernel_shape=[4, 6]),
        node("Mul", "skip most", "p"),
        node("Concat", "skip p", "whole", axis=1),
        node("Neg", "whole", "y"),
    ]
    assert arena_values(nodes, tmp_path) == 24 + 48 + 48


def test_concatenation_behind_the_channels_is_copied(tmp_path: Path) -> None:
    nodes = [node("Neg", "x", "p"), node("Abs", "x", "q"), node("Concat", "p q", "w", axis=3), node("Neg", "w", "y")]
    assert arena_values(nodes, tmp_path) == 96
    assert "nnkit_copy" in (tmp_path / "part.c").read_text()


def test_a_value_is_not_overwritten_while_a_part_of_it_is_read(tmp_path: Path) -> None:
    """`p` lies in `whole`, and every channel of `whole` is multiplied by it."""
    nodes = [
        helper.make_node("Split", ["x"], ["s", "t"], axis=1, num_outputs=2),
        node("Neg", "s", "p"),
        node("Abs", "t", "q"),
        node("Concat", "p q", "whole", axis=1),
        node("Mul", "whole p", "m"),
        node("Neg", "m", "y"),
    ]
    assert arena_values(nodes, tmp_path) == 24 + 24


def test_both_operands_may_be_one_value(tmp_path: Path) -> None:
    nodes = [node("Neg", "x", "p"), node("Mul", "p p", "s"), node("Neg", "s", "y")]
    assert arena_values(nodes, tmp_path) == 24
