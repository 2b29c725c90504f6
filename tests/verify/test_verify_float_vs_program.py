"""Float against Program on a network whose values are known by hand: y = relu(x)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from onnx import TensorProto, helper

from nnkit.errors import ModelError
from nnkit.graph import InputSpec, LayerTags, Model, OutputSpec
from nnkit.program import Activation, Fixed, OutputStage, Program, Tensor
from nnkit.verify.float_vs_program import compare_with_float
from nnkit.verify.samples import Sample

SHAPE = (1, 1, 1, 4)


def model(op: str) -> Model:
    graph = helper.make_graph(
        [helper.make_node(op, ["x"], ["y"], name="act")],
        "one",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, SHAPE)],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return Model(proto.SerializeToString(), LayerTags(), (InputSpec("x", SHAPE),), (OutputSpec("y", SHAPE),), 17)


def program() -> Program:
    """relu in s8.1, in steps of a half."""
    form = Fixed(8, 1)
    tensors = {name: Tensor(name, SHAPE[1:], form, -128, 127) for name in ("x", "y")}
    op = Activation(name="act", inputs=("x",), output="y", stage=OutputStage(0, 0, 127))
    return Program("relu", tensors, (op,), ("x",), ("y",))


def sample(*values: float, source: str = "") -> Sample:
    return Sample(source, {"x": np.array(values, np.float32).reshape(SHAPE)})


def test_distances_over_all_samples_by_hand() -> None:
    # 0.2 -> 0, 1.3 -> 1.5, -2 -> 0, 3 -> 3: errors -0.2, +0.2. Then 1, 1, 1, 1 without error.
    calls: list[int] = []
    verdict = compare_with_float(
        model("Relu"),
        model("Relu"),
        program(),
        [sample(0.2, 1.3, -2, 3), sample(1, 1, 1, 1)],
        progress=calls.append,
    )
    power = 0.2**2 + 1.3**2 + 3**2 + 4
    assert verdict.outputs.sqnr_db == pytest.approx(10 * math.log10(power / (2 * 0.2**2)), abs=1e-4)
    assert verdict.outputs.max_abs == pytest.approx(0.2, abs=1e-6)
    own = 1.5**2 + 3**2 + 4
    assert verdict.outputs.cosine == pytest.approx((1.3 * 1.5 + 9 + 4) / math.sqrt(power * own))
    assert verdict.by_output["y"] == verdict.outputs
    assert verdict.layers["act"] == verdict.outputs
    assert verdict.samples == sum(calls) == 2
    assert verdict.watch.of("act").values == 8


def test_outputs_refer_to_the_imported_and_layers_to_the_restructured_network() -> None:
    verdict = compare_with_float(model("Neg"), model("Relu"), program(), [sample(1, 2, 3, 4)])
    assert verdict.outputs.cosine == pytest.approx(-1.0)
    assert verdict.layers["act"].max_abs == 0.0


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_float_network_that_gives_nan_is_named_with_the_input() -> None:
    with pytest.raises(ModelError) as caught:
        compare_with_float(model("Log"), model("Relu"), program(), [sample(1, 1, 1, -1, source="face_07.pgm")])
    assert caught.value.where == "face_07.pgm"
    assert "'y'" in caught.value.reason
    assert caught.value.remedy
