"""A network of several images is imported as it is where the recipe edits it down to one."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from nnkit.errors import ModelError, RecipeError
from nnkit.importers import ImportOptions, import_onnx
from nnkit.recipe.restructure import ReplaceInput
from nnkit.rewrite import restructure_steps
from nnkit.rewrite.edits import replace_input


@pytest.fixture
def batch_of_three(tmp_path):
    rng = np.random.default_rng(0)
    weights = [("w", rng.normal(0, 1, (4, 1, 3, 3))), ("f", rng.normal(0, 1, (36, 5)))]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv"),
        helper.make_node("Reshape", ["c", "shape"], ["flat"], name="flat"),
        helper.make_node("MatMul", ["flat", "f"], ["y"], name="fc"),
    ]
    constants = [numpy_helper.from_array(array.astype(np.float32), name) for name, array in weights]
    constants.append(numpy_helper.from_array(np.array([3, 36]), "shape"))
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 1, 5, 5])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 5])],
        constants,
    )
    path = tmp_path / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


@pytest.mark.parametrize("declared", [{}, {"x": [1, 1, 5, 5]}])
def test_imported_and_edited_down_to_one_image(graphs_run, batch_of_three, declared):
    model = import_onnx(batch_of_three, ImportOptions(inputs=declared, any_batch=True)).model
    assert model.inputs[0].shape == (3, 1, 5, 5)
    done = restructure_steps(model, [replace_input.make(ReplaceInput())])
    images = np.random.default_rng(1).normal(0, 1, (3, 1, 5, 5)).astype(np.float32)
    wanted = graphs_run(batch_of_three.read_bytes(), images)
    for index in range(3):
        found = graphs_run(done.model.onnx_bytes, images[index : index + 1])
        np.testing.assert_allclose(found, wanted[index : index + 1], rtol=0, atol=1e-5)


@pytest.fixture
def graphs_run():
    import onnxruntime

    def run(model: bytes, x):
        session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
        return session.run(None, {"x": x})[0]

    return run


def test_refused_without_the_edit(batch_of_three):
    with pytest.raises(ModelError, match="has batch 3") as caught:
        import_onnx(batch_of_three)
    assert "replace_input" in caught.value.remedy


def test_a_shape_that_contradicts_is_still_refused(batch_of_three):
    with pytest.raises((ModelError, RecipeError)):
        import_onnx(batch_of_three, ImportOptions(inputs={"x": [2, 1, 5, 5]}, any_batch=True))
    with pytest.raises(RecipeError, match="contradicts"):
        import_onnx(batch_of_three, ImportOptions(inputs={"x": [1, 1, 5, 6]}, any_batch=True))
