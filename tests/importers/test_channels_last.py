"""An input of [1, H, W, C] is taken as [1, C, H, W]: ONNX Runtime gives what it gives of the file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from nnkit.errors import RecipeError
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.importers import ImportOptions, TagGlobs, import_onnx

WEIGHT = np.random.default_rng(0).normal(0, 0.3, (4, 3, 3, 3)).astype(np.float32)
BACK = helper.make_node("Transpose", ["c"], ["y"], name="back", perm=[0, 2, 3, 1])
PLAIN = [
    helper.make_node("Transpose", ["x"], ["t"], name="first", perm=[0, 3, 1, 2]),
    helper.make_node("Conv", ["t", "w"], ["c"], name="conv", pads=[1, 1, 1, 1]),
    BACK,
]
NORMALISED = [helper.make_node("Mul", ["x", "k"], ["m"], name="scale"), PLAIN[0], *PLAIN[1:]]
TWO_READERS = [*PLAIN[:2], helper.make_node("ReduceMean", ["x"], ["y"], name="mean", axes=[1, 2], keepdims=1)]


@pytest.mark.parametrize(
    ("nodes", "transposes"), [(PLAIN, 1), (NORMALISED, 3), (TWO_READERS, 1)], ids=["plain", "behind", "two readers"]
)
def test_it_computes_what_the_file_does(make_model, save, nodes, transposes):
    nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    if nodes[0].name == "scale":
        nodes[1].input[0] = "m"
    outputs = {"y": None, "c": None} if nodes[-1].name == "mean" else {"y": None}
    constants = {"w": WEIGHT, "k": np.float32([1.0, 2.0, 4.0])}
    path: Path = save(make_model(nodes, constants, inputs={"x": ["n", 8, 6, 3]}, outputs=outputs))
    result = import_onnx(path, ImportOptions(channels_last=["x"]))
    assert result.model.inputs[0].shape == (1, 3, 8, 6)
    assert "input 'x' is taken as [1, 3, 8, 6]" in result.notes
    assert [n.op_type for n in result.model.proto().graph.node].count("Transpose") == transposes
    image = np.random.default_rng(1).normal(0, 1, (1, 8, 6, 3)).astype(np.float32)
    expected = onnxruntime.InferenceSession(str(path)).run(list(outputs), {"x": image})
    found = FloatSession(result.model).run({"x": image.transpose(0, 3, 1, 2)})
    for name, values in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(found[name], values, rtol=0, atol=1e-5)


def test_a_tag_on_the_transpose_stays(make_model, save):
    path = save(make_model(PLAIN, {"w": WEIGHT}, inputs={"x": [1, 8, 6, 3]}))
    model = import_onnx(path, ImportOptions(channels_last=["x"], tag_globs=TagGlobs(cpu=("first",), hp=()))).model
    assert model.tags.of("t").cpu


@pytest.mark.parametrize(
    ("shape", "name", "reason"),
    [([1, 12], "x", "has shape"), ([1, 12], "y", "is not there")],
)
def test_inputs_that_have_no_channels_last(make_model, save, shape, name, reason):
    path = save(make_model([helper.make_node("Relu", ["x"], ["y"], name="relu")], inputs={"x": shape}))
    with pytest.raises(RecipeError, match=reason):
        import_onnx(path, ImportOptions(channels_last=[name], input_where=lambda _: "recipe.yaml:7:3"))
