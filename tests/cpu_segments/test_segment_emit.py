"""Emission and execution of CPU segments: determinism, memory, outputs that no layer writes, refusals."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import helper
from segment_networks import network, uniform

from nnkit.cpu_segments import CompiledSegment, emit_segment, run_segment, segment_source
from nnkit.custom_ops import Custom, PriorBox, Proposal
from nnkit.errors import ModelError, ToolError, UsageError, UserFileError
from nnkit.graph import Model

X = {"x": np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)}


def chain(length: int, op_type: str = "Relu", **attributes: Any) -> Model:
    """`length` layers one after another."""
    nodes = [helper.make_node(op_type, [f"v{i}" if i else "x"], [f"v{i + 1}"], **attributes) for i in range(length)]
    return network(nodes, X, {})


def test_the_same_model_gives_the_same_text() -> None:
    first, again = segment_source(chain(3), "part"), segment_source(chain(3), "part")
    assert first.files == again.files
    headers = {"part.h", "nnkit_math.h", "nnkit_segment.h", "nnkit_vector.h"}
    assert set(first.files) == {*headers, "part.c", "part.json", "nnkit_unary.c"}


@pytest.mark.parametrize(("length", "buffers"), [(1, 0), (2, 1), (3, 2), (9, 2)])
def test_inner_values_share_memory(length: int, buffers: int) -> None:
    """A chain needs what one layer reads and what it writes, however long it is; the ends are the caller's."""
    source = segment_source(chain(length, "Transpose", perm=[0, 1, 2, 3]), "part")
    assert source.arena_bytes == buffers * 96
    assert source.proven_optimal


@pytest.mark.parametrize("length", [2, 9])
def test_activations_are_written_in_place(length: int) -> None:
    assert segment_source(chain(length), "part").arena_bytes == 96


def test_weights_are_counted() -> None:
    model = network([helper.make_node("Mul", ["x", "k"], ["y"])], X, {"k": np.ones((2, 1, 1), np.float32)})
    assert segment_source(model, "part").weight_bytes == 8


def test_outputs_that_no_layer_writes(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Flatten", ["x"], ["view_of_input"]),
        helper.make_node("Relu", ["x"], ["relu"]),
        helper.make_node("Flatten", ["relu"], ["view_of_output"]),
        helper.make_node("Neg", ["view_of_output"], ["neg"]),
        helper.make_node("Abs", ["neg"], ["inner"]),
        helper.make_node("Flatten", ["inner"], ["view_of_inner"]),
        PriorBox((30.0,)).node(["x", "x"], ["known"]),
    ]
    names = ["view_of_input", "relu", "view_of_output", "view_of_inner", "known", "neg"]
    emit_segment(network(nodes, X, {}, names), "part", tmp_path)
    outputs_of_c = run_segment(tmp_path, "part", X, sanitize=True)
    flat = X["x"].reshape(1, 24)
    np.testing.assert_array_equal(outputs_of_c["view_of_input"], flat)
    np.testing.assert_array_equal(outputs_of_c["view_of_output"], flat)
    np.testing.assert_array_equal(outputs_of_c["view_of_inner"], flat)
    np.testing.assert_array_equal(outputs_of_c["neg"], -flat)
    np.testing.assert_array_equal(outputs_of_c["known"], PriorBox((30.0,)).run(X["x"], X["x"])[0])


def test_names_of_any_kind(tmp_path: Path) -> None:
    source = {"in/put:0 */": X["x"]}
    nodes = [
        helper.make_node("Relu", ["in/put:0 */"], ["a"], name='layer */ /* "x" \\'),
        helper.make_node("Neg", ["a"], ["für\n2"]),
    ]
    emit_segment(network(nodes, source, {}), "part", tmp_path)
    np.testing.assert_array_equal(run_segment(tmp_path, "part", source)["für\n2"], -X["x"])


def test_two_segments_in_one_folder(tmp_path: Path) -> None:
    for name, length in (("first", 2), ("second", 3)):
        emit_segment(chain(length), name, tmp_path)
    for name in ("first", "second"):
        (outputs_of_c,) = run_segment(tmp_path, name, X).values()
        np.testing.assert_array_equal(outputs_of_c, X["x"])


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_compilers(tmp_path: Path, compiler: str) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    emit_segment(chain(3), "part", tmp_path)
    (outputs_of_c,) = run_segment(tmp_path, "part", X, compiler=compiler).values()
    np.testing.assert_array_equal(outputs_of_c, X["x"])


def test_all_refusals_at_once() -> None:
    weights: dict[str, NDArray[np.float32]] = {"s": np.array([1, 2, 2, 2], np.float32)}
    nodes = [
        helper.make_node("Sinh", ["x"], ["a"], name="strange"),
        helper.make_node("Resize", ["x", "", "s"], ["b"], name="deep", mode="cubic"),
        helper.make_node("ReduceMax", ["x"], ["low"], keepdims=0),
        helper.make_node("Clip", ["x", "low"], ["d"], name="moving"),
    ]
    with pytest.raises(ModelError) as caught:
        segment_source(network(nodes, X, weights), "part")
    resized = "deep (Resize): it resizes other dimensions than height and width"
    for words in ("strange (Sinh)", resized, "moving (Clip): its min is not constant"):
        assert words in caught.value.reason
    assert caught.value.remedy


def test_wrong_use(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no name for a C function"):
        segment_source(chain(1), "1 part")
    (tmp_path / "file").write_text("")
    with pytest.raises(UserFileError):
        emit_segment(chain(1), "part", tmp_path / "file" / "folder")
    with pytest.raises(UserFileError, match="does not exist"):
        run_segment(tmp_path, "part", X)
    emit_segment(chain(1), "part", tmp_path)
    with pytest.raises(UsageError, match="no values for input 'x'"):
        run_segment(tmp_path, "part", {})
    with pytest.raises(UsageError, match="has 3 values"):
        run_segment(tmp_path, "part", {"x": np.zeros(3)})
    with pytest.raises(ToolError, match="no C compiler"):
        run_segment(tmp_path, "part", X, compiler="no-such-compiler")
    (tmp_path / "part.c").write_text("broken")
    with pytest.raises(ToolError, match="refuses"):
        run_segment(tmp_path, "part", X)


def test_a_custom_layer_is_refused_with_all_others() -> None:
    nodes = [
        Custom.of([(1, 3)], "MyLayer").node(["x"], ["a"], "mine"),
        helper.make_node("Sinh", ["x"], ["b"], "s"),
    ]
    with pytest.raises(ModelError) as caught:
        segment_source(network(nodes, {"x": np.zeros((1, 3), np.float32)}, {}), "part")
    assert "mine (Custom): it has shapes, but no definition" in caught.value.reason
    assert "s (Sinh)" in caught.value.reason


def test_a_compiled_segment_keeps_no_state(tmp_path: Path) -> None:
    op = Proposal(scale=(1.0, 2.0, 4.0), pre_nms_topn=100, post_nms_topn=20, min_size=8.0)

    def inputs(seed: int) -> dict[str, NDArray[np.float32]]:
        arrays = {"scores": uniform(1, 18, 6, 7, seed=seed), "deltas": uniform(1, 36, 6, 7, seed=seed + 10)}
        return arrays | {"info": np.array([[96, 112, 1.5]], np.float32)}

    emit_segment(network([op.node(["scores", "deltas", "info"], ["y"])], inputs(1), {}), "part", tmp_path)
    program = CompiledSegment(tmp_path, "part")
    first = program.run(inputs(1))["y"]
    assert not np.array_equal(program.run(inputs(2))["y"], first)
    np.testing.assert_array_equal(program.run(inputs(1))["y"], first)
    program.close()
