"""Float against Program on a network whose values are known by hand: y = relu(x)."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from onnx import TensorProto, helper

from nnkit.calibrate.stats import ValueRange
from nnkit.commands.run import clipped_line, unseen_line
from nnkit.errors import ModelError
from nnkit.graph import InputSpec, LayerTags, Model, OutputSpec
from nnkit.program import Activation, Fixed, OutputStage, Program, Tensor
from nnkit.samples import Sample
from nnkit.verify.float_vs_program import compare_with_float
from nnkit.verify.unseen import Unseen

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


@pytest.mark.parametrize("changed", ["inputs", "outputs"])
def test_outputs_refer_to_the_restructured_network_where_inputs_or_outputs_changed(changed: str) -> None:
    """As an edit changes them that appends a layer, or takes the preprocessing in."""
    other = {"inputs": (InputSpec("x", (1, 4)),), "outputs": (OutputSpec("y", (1, 4)),)}[changed]
    original = replace(model("Neg"), **{changed: other})
    verdict = compare_with_float(original, model("Relu"), program(), [sample(1, 2, 3, 4)])
    assert verdict.outputs.cosine == pytest.approx(1.0)
    assert verdict.outputs.max_abs == 0.0


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_float_network_that_gives_nan_is_named_with_the_input() -> None:
    with pytest.raises(ModelError) as caught:
        compare_with_float(model("Log"), model("Relu"), program(), [sample(1, 1, 1, -1, source="face_07.pgm")])
    assert caught.value.where == "face_07.pgm"
    assert "'y'" in caught.value.reason
    assert caught.value.remedy


def test_values_that_calibration_never_saw_are_counted_with_the_input_that_has_the_largest() -> None:
    seen = ValueRange(low=0.0, high=1.5, observed_low=0.0, observed_high=2.0)
    samples = [
        sample(0, 1, 2, -5, source="within.pgm"),  # relu: nothing above 2
        sample(0, 3, 2.5, 1, source="more.pgm"),
        sample(4, 1, 1, 1, source="most.pgm"),
    ]
    verdict = compare_with_float(model("Relu"), model("Relu"), program(), samples, ranges={"y": seen})
    assert verdict.unseen == {"act": Unseen(share=3 / 12, factor=2.0, source="most.pgm")}

    inside = compare_with_float(model("Relu"), model("Relu"), program(), samples[:1], ranges={"y": seen})
    assert inside.unseen == {}


def test_parts_of_the_samples_merge_to_the_same_unseen_values() -> None:
    seen = ValueRange(low=0.0, high=2.0, observed_low=0.0, observed_high=2.0)
    samples = [sample(0, 1, 2, 2 + index % 5, source=f"{index}.pgm") for index in range(40)]
    verdict = compare_with_float(model("Relu"), model("Relu"), program(), samples, ranges={"y": seen})
    assert verdict.unseen == {"act": Unseen(share=32 / 160, factor=3.0, source="4.pgm")}  # the first of the largest


@pytest.mark.parametrize(
    ("layers", "line"),
    [
        (
            [("norm", 1.84, "s32.12"), ("fc", 1.3, "s32.12"), ("tail", 1.2, "s8.1")],
            "2 layers met values up to 1.84",
        ),
        ([("norm", 1.5, "s16.12")], "1 layer met values up to 1.50"),
        ([("norm", 1.84, "f32"), ("tail", 1.25, "s8.1")], None),
    ],
)
def test_the_summary_names_the_layer_that_left_its_range_most(
    layers: list[tuple[str, float, str]], line: str | None
) -> None:
    rows = [
        {"name": name, "formats": {"output": form}, "unseen": {"share": 0.1, "factor": factor, "input": "a.pgm"}}
        for name, factor, form in layers
    ]
    found = unseen_line([*rows, {"name": "quiet", "formats": {"output": "s8.1"}}])
    assert (found is None) if line is None else (line in str(found) and "'norm' most, on a.pgm" in str(found))


def test_the_run_tells_of_clipped_values_that_are_worth_a_line() -> None:
    rows = [{"name": "few", "clip_rate": 0.0009}, {"name": "input"}, {"name": "some", "clip_rate": 0.001}]
    assert clipped_line(rows[:2]) is None
    assert clipped_line(rows) == "clipped  0.10% of the values of 'some', the most of 1 layer with 0.1% or more"
    rows.append({"name": "many", "clip_rate": 0.25})
    assert clipped_line(rows) == "clipped  25.00% of the values of 'many', the most of 2 layers with 0.1% or more"
