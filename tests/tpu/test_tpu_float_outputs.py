"""Small last layers in F16: which, for whom, and what it is worth."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from nnkit.calibrate.limits import limits_of
from nnkit.calibrate.room import with_room
from nnkit.calibrate.run import calibrate
from nnkit.calibrate.stats import MethodTrial
from nnkit.graph import Model
from nnkit.importers import import_onnx
from nnkit.program import Program
from nnkit.quantize.judge import program_sqnr_db
from nnkit.recipe.sections import Calibration
from nnkit.rewrite import RewriteLog
from nnkit.samples import Sample
from nnkit.target import Quantization
from nnkit_tpu.options import TpuOptions
from nnkit_tpu.program import TpuOp
from nnkit_tpu.target import TpuTarget

_SHAPE = (1, 3, 24, 24)


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """A small head on a vector, one of one channel on the image, one with many weights, and an activation."""
    random = np.random.default_rng(7)
    shapes = {"w1": (32, 3, 3, 3), "w2": (32, 32, 3, 3), "head": (32, 10), "mask": (1, 32, 1, 1), "wide": (32, 100)}
    weights = {name: random.normal(0, 0.2, shape).astype(np.float32) for name, shape in shapes.items()}
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["c1"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("Conv", ["r1", "w2"], ["c2"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c2"], ["r2"]),
        helper.make_node("Conv", ["r2", "mask"], ["masks"]),
        helper.make_node("GlobalAveragePool", ["r2"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("MatMul", ["f", "head"], ["scores"]),
        helper.make_node("MatMul", ["f", "wide"], ["features"]),
        helper.make_node("Conv", ["r2", "w2"], ["c3"], pads=[1, 1, 1, 1]),
        helper.make_node("Tanh", ["c3"], ["picture"]),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, _SHAPE)],
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
            for name in ("scores", "masks", "features", "picture")
        ],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    path = tmp_path_factory.mktemp("outputs") / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return import_onnx(path).model


def _samples(seed: int, count: int) -> list[Sample]:
    random = np.random.default_rng(seed)
    return [Sample("made", {"x": random.normal(0, 1, _SHAPE).astype(np.float32)}) for _ in range(count)]


def _program(
    network: Model, calibration: dict[str, object], *, chosen: bool = False, images: int = 4, **options: object
) -> Program:
    """chosen: the method was, as with a recipe that leaves it to the target."""
    target, chip = TpuTarget(), TpuOptions.model_validate({"chip": "bm1684x", **options})
    given = {"x": [sample.inputs["x"] for sample in _samples(1, images)]}
    statistics = calibrate(network, given, {}, method="kl" if chosen else "max")
    if chosen:
        statistics = with_room(statistics, limits_of(network, {}))
        object.__setattr__(statistics, "trials", (MethodTrial("max", 30.0),))
    settings = Calibration.model_validate(calibration)
    lowered = target.lower(network, RewriteLog(), chip)
    return target.quantize(lowered, Quantization("net", statistics, settings, {}, lambda count: []), chip)


def _modes(program: Program) -> dict[str, str]:
    return {op.output.removesuffix("_image"): op.mode for op in program.ops if isinstance(op, TpuOp)}


def test_small_last_layers_are_in_floating_point_where_the_recipe_leaves_it(network: Model) -> None:
    program = _program(network, {}, chosen=True)
    modes = _modes(program)
    assert (modes["scores"], modes["masks"], modes["features"]) == ("F16", "F16", "INT8")
    assert (modes["c3"], modes["picture"]) == ("INT8", "F32")  # the chip computes it so where F16 is asked for
    assert sum("its results are outputs" in note for note in program.notes) == 3


def test_the_cv18xx_take_few_numbers_of_few_weights(network: Model) -> None:
    """With room for what 40 numbers do not show, steps of 8 bits are half as wide again; 320 weights are few here."""
    modes = _modes(_program(network, {}, chosen=True, chip="cv181x"))
    assert {name for name, mode in modes.items() if mode == "BF16"} == {"scores"}
    narrow = _modes(_program(network, {}, chosen=True, images=8, chip="cv181x"))
    assert set(narrow.values()) == {"INT8"}


def test_on_images_the_bm1688_keeps_integers(network: Model) -> None:
    """A last convolution in F16 took 2 % more of its cycles; a head on a vector hardly any."""
    modes = _modes(_program(network, {}, chosen=True, chip="bm1688"))
    assert (modes["scores"], modes["masks"], modes["picture"]) == ("F16", "INT8", "INT8")


def test_last_activations_on_vectors_stay_integers(network: Model, tmp_path: Path) -> None:
    proto = network.proto()
    proto.graph.node.append(helper.make_node("Tanh", ["features"], ["bounded"]))
    proto.graph.output.append(helper.make_tensor_value_info("bounded", TensorProto.FLOAT, (1, 100)))
    onnx.save(proto, tmp_path / "net.onnx")
    modes = _modes(_program(import_onnx(tmp_path / "net.onnx").model, {}, chosen=True))
    assert (modes["bounded"], modes["picture"]) == ("INT8", "F32")


@pytest.mark.parametrize(
    ("calibration", "options"),
    [
        ({"corrections": []}, {}),
        ({"method": "max"}, {}),
        ({"corrections": ["float_outputs"]}, {"quant_output": True}),
    ],
)
def test_others_stay_integers(network: Model, calibration: dict[str, object], options: dict[str, object]) -> None:
    assert set(_modes(_program(network, calibration, **options)).values()) == {"INT8"}


def test_what_is_asked_for_is_nearer_to_the_float_network(network: Model) -> None:
    plain, asked = (_program(network, {"corrections": each}) for each in ([], ["float_outputs"]))
    unseen = _samples(2, 8)
    assert program_sqnr_db(network, asked, unseen) > program_sqnr_db(network, plain, unseen) + 0.3
