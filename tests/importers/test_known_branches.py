"""If whose condition is known: the branch that is taken stands in its place, and computes what the file does."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from nnkit.errors import ModelError
from nnkit.importers import ImportOptions, TagGlobs, import_onnx

X = np.random.default_rng(5).standard_normal((1, 4, 8, 8)).astype(np.float32)


def _branch(name: str, nodes: list[onnx.NodeProto], outputs: list[str], **constants: Any) -> onnx.GraphProto:
    infos = [helper.make_tensor_value_info(each, TensorProto.FLOAT, None) for each in outputs]
    tensors = [numpy_helper.from_array(np.asarray(array), each) for each, array in constants.items()]
    return helper.make_graph(nodes, name, [], infos, tensors)


def _if(condition: str, then: onnx.GraphProto, other: onnx.GraphProto, *outputs: str) -> onnx.NodeProto:
    return helper.make_node("If", [condition], outputs, name=f"if_{outputs[0]}", then_branch=then, else_branch=other)


def _squeezed() -> list[onnx.NodeProto]:
    """As torch.jit.script writes a Squeeze of axis 0: only where it is one long."""
    squeeze = helper.make_node("Squeeze", ["a", "axis"], ["s"], name="squeezed")
    return [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Shape", ["a"], ["shape"]),
        helper.make_node("Gather", ["shape", "first"], ["length"]),
        helper.make_node("Equal", ["length", "wanted"], ["is_one"]),
        _if(
            "is_one",
            _branch("t", [squeeze], ["s"], axis=np.zeros(1, np.int64)),
            _branch("e", [helper.make_node("Identity", ["a"], ["s"])], ["s"]),
            "q",
        ),
        helper.make_node("Neg", ["q"], ["y"]),
    ]


@pytest.mark.parametrize(("wanted", "shape"), [(1, (4, 8, 8)), (2, (1, 4, 8, 8))])
def test_a_condition_on_a_shape(make_model: Any, save: Any, run_onnx: Any, wanted: int, shape: Any) -> None:
    constants = {"first": np.int64(0), "wanted": np.int64(wanted)}
    path = save(make_model(_squeezed(), constants, opset=13, inputs={"x": ["n", 4, 8, 8]}))
    result = import_onnx(path)
    assert result.model.outputs[0].shape == shape
    assert "If" not in [node.op_type for node in result.model.proto().graph.node]
    which = "then_branch" if wanted == 1 else "else_branch"
    assert f"layer 'if_q' (If): its condition is known, and its {which} is taken" in result.notes
    expected = run_onnx(path.read_bytes(), {"x": X})["y"]
    np.testing.assert_array_equal(run_onnx(result.model.onnx_bytes, {"x": X})["y"], expected)


@pytest.mark.parametrize("taken", [True, False])
def test_branches_within_branches_share_names(make_model: Any, save: Any, run_onnx: Any, taken: bool) -> None:
    """Both choices have the same inner names; one result is a constant."""
    constants = {"yes": np.array(taken), "no": np.array(not taken)}

    def choice(source: str, *outputs: str) -> onnx.NodeProto:
        inner = _if(
            "no",
            _branch("tt", [helper.make_node("Neg", ["r"], ["n"])], ["n"]),
            _branch("te", [helper.make_node("Exp", ["r"], ["n"])], ["n"]),
            "m",
        )
        nodes = [helper.make_node("Relu", [source], ["r"]), inner]
        other = [helper.make_node("Sigmoid", [source], ["r"])]
        third = np.full((1, 4, 1, 1), 3, np.float32)
        return _if(
            "yes",
            _branch("t", nodes, ["m", "k"], k=third),
            _branch("e", other, ["r", "k"], k=-third),
            *outputs,
        )

    nodes = [
        choice("x", "a", "b"),
        helper.make_node("Add", ["a", "b"], ["s"]),
        choice("s", "d", "e"),
        helper.make_node("Add", ["d", "e"], ["y"]),
    ]
    path = save(make_model(nodes, constants))
    model = import_onnx(path).model
    assert "If" not in [node.op_type for node in model.proto().graph.node]
    feeds = {"x": X / 4}
    expected = run_onnx(path.read_bytes(), feeds)["y"]
    np.testing.assert_allclose(run_onnx(model.onnx_bytes, feeds)["y"], expected, rtol=1e-6)


def test_layers_of_the_branch_can_be_tagged(make_model: Any, save: Any) -> None:
    constants = {"first": np.int64(0), "wanted": np.int64(1)}
    path = save(make_model(_squeezed(), constants, opset=13))
    model = import_onnx(path, ImportOptions(tag_globs=TagGlobs(cpu=("squeezed",)))).model
    assert model.tags.of("q").cpu


def test_a_condition_on_the_input_stays_an_if(make_model: Any, save: Any) -> None:
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["top"], keepdims=0),
        helper.make_node("Greater", ["top", "zero"], ["positive"]),
        _if(
            "positive",
            _branch("t", [helper.make_node("Relu", ["x"], ["r"])], ["r"]),
            _branch("e", [helper.make_node("Neg", ["x"], ["r"])], ["r"]),
            "y",
        ),
    ]
    model = import_onnx(save(make_model(nodes, {"zero": np.float32(0)}))).model
    assert [node.op_type for node in model.proto().graph.node][-1] == "If"


def test_what_cannot_be_imported_is_told_of_branches_too(make_model: Any, save: Any) -> None:
    foreign = helper.make_node("Fused", ["x"], ["r"], name="fused", domain="com.example")
    then = _branch("t", [foreign], ["r"])
    node = _if("yes", then, _branch("e", [helper.make_node("Neg", ["x"], ["r"])], ["r"]), "y")
    with pytest.raises(ModelError, match=r"fused \(Fused\): the operator set 'com\.example'"):
        import_onnx(save(make_model([node], {"yes": np.array(True)})))
