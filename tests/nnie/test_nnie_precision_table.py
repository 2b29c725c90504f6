"""The table of the usual choices: which layers, what they cost, and that a row is such a build's accuracy."""

from __future__ import annotations

from nnie_networks import Net
from nnie_precision_networks import FORMATS, descriptor, lowered, pixel_samples, pixels_first, samples

from nnkit.calibrate import calibrate
from nnkit.distance import DistanceSum
from nnkit.graph import Model
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.program import Fixed
from nnkit.program.inputs import quantized_inputs
from nnkit.simulate import simulate
from nnkit_nnie.gfpq.quantize import Precision, to_program
from nnkit_nnie.options import NnieOptions
from nnkit_nnie.precision_table import better_choice, precision_table, table_lines, usual_choices
from nnkit_nnie.stn.calibration import AlignedStatistics


def measured(model: Model, given, formats=FORMATS):
    """Network, statistics, formats and samples of a table."""
    divided = lowered(model, 2)
    found = calibrate(model, {"data": [sample.inputs["data"] for sample in given]}, {})
    options = NnieOptions(chip="hi3516cv500", compile_mode=2)
    return divided.network, AlignedStatistics(divided, found, formats, lambda count: [], options), formats, given


def test_the_usual_choices():
    rows = precision_table(*measured(descriptor(), samples()))
    assert [row["choice"] for row in rows] == ["no_hp", "lastfc_hp", "fullfc_hp", "firstconv_hp", "all"]
    every = ["conv1", "conv2", "comp_fc", "pca"]
    assert [row["layers"] for row in rows] == [[], ["pca"], ["comp_fc", "pca"], ["conv1"], every]
    noise = [row["sqnr_db"] for row in rows]
    assert noise[4] > noise[0] + 15  # all in 16 bits is another class
    weights = {"conv1": 8 * 3 * 9, "conv2": 16 * 8 * 9, "comp_fc": 32 * 16 * 16, "pca": 8 * 32}
    plain = sum(weights.values())
    assert [row["weight_bytes"] for row in rows] == [
        plain,
        plain + weights["pca"],
        plain + weights["pca"] + weights["comp_fc"],
        plain + weights["conv1"],
        2 * plain,
    ]
    # 8 x 8 and 4 x 4 positions of the convolutions, one of each fully connected layer.
    macs = 64 * weights["conv1"] + 16 * weights["conv2"] + weights["comp_fc"] + weights["pca"]
    assert [row["macs"] for row in rows] == [macs] * 5
    in_16_bits = [0, weights["pca"], weights["pca"] + weights["comp_fc"], 64 * weights["conv1"], macs]
    assert [row["macs_16_bit"] for row in rows] == in_16_bits
    inputs = [3 * 256, 8 * 64, 16 * 16, 32]
    assert rows[0]["input_bytes"] == sum(inputs)
    assert rows[1]["input_bytes"] == sum(inputs) + inputs[3]


def test_another_choice_of_the_build_has_a_row_of_its_own():
    given = measured(descriptor(), samples())
    own = precision_table(*given, choices=usual_choices(given[0], frozenset({"conv2"})))
    assert [(row["choice"], row["layers"]) for row in own[5:]] == [("as_built", ["conv2"])]
    assert len(usual_choices(given[0], frozenset({"pca"}))) == 5


def test_each_row_has_the_accuracy_of_such_a_build():
    """Against programs that are made and simulated one by one."""
    network, statistics, formats, given = measured(descriptor(), samples())
    session, said = FloatSession(network.graph.model), list[str]()
    choices = usual_choices(network, frozenset({"conv2"}))
    for row in precision_table(network, statistics, formats, given, choices=choices, say=said.append):
        precision = Precision(2, frozenset(row["layers"]))
        program = to_program(network, statistics.of(precision), precision, name="x", inputs=formats)
        total = DistanceSum()
        for sample in given:
            stored = simulate(program, quantized_inputs(program, sample))
            total.add(program.tensors["pca"].format.dequantize(stored["pca"]), session.run(sample.inputs)["pca"])
        assert (row["cosine"], row["sqnr_db"]) == (total.result().cosine, total.result().sqnr_db)
        assert row["images"] == len(given)
    assert said == [f"choices of 16-bit layers, image {number} of 4" for number in (1, 2, 3, 4)]


def test_a_network_without_fully_connected_layers():
    """The last layers with weights before the outputs take the place of the projection."""
    net = Net(3)
    x = net.node("Relu", [net.conv(net.input("data", 3, 16, 16), (3, 8), "stem")], "relu")
    scores = net.node("Sigmoid", [net.conv(x, (8, 2), "score")], "prob")
    trunk = net.conv(x, (8, 4), "trunk")
    boxes = net.node("Add", [net.conv(trunk, (4, 4), "box"), trunk], "sum")
    model = net.model(scores, boxes)
    given = measured(model, samples())
    rows = precision_table(*given)
    assert {row["choice"]: row["layers"] for row in rows} == {
        "no_hp": [],
        "lastconv_hp": ["score", "trunk", "box"],
        "firstconv_hp": ["stem"],
        "all": ["stem", "score", "trunk", "box", "sum"],
    }
    assert [line.split()[0] for line in table_lines(rows)] == [row["choice"] for row in rows]
    one = measured(_single(), samples())
    assert list(usual_choices(one[0], frozenset({"conv"}))) == ["no_hp", "lastconv_hp"]  # the rest is the same
    assert [row["choice"] for row in precision_table(*one)] == ["no_hp", "lastconv_hp"]
    assert precision_table(*one[:3], []) == []


def _single() -> Model:
    net = Net()
    return net.model(net.conv(net.input("data", 3, 16, 16), (3, 4), "conv"))


def test_the_first_convolutions_are_suggested_where_they_win():
    form = {"data": Fixed(8, 0, signed=False)}
    rows = precision_table(*measured(pixels_first(), pixel_samples(), form))
    noise = {row["choice"]: row["sqnr_db"] for row in rows}
    # A code of 16 steps an octave has 8 pixels a step from 128 on; they vary by 41.
    assert noise["no_hp"] < 15
    assert noise["firstconv_hp"] > noise["no_hp"] + 10 > noise["lastfc_hp"]
    line = better_choice(rows, frozenset()) or ""
    assert "hp: [center, scale, conv1]" in line
    assert better_choice(rows, frozenset(rows[-1]["layers"])) is None  # a build with all in 16 bits needs no advice


def test_lists_of_detections_have_no_cosine():
    row = {
        "choice": "no_hp",
        "cosine": 0.9,
        "weight_bytes": 8,
        "macs": 4,
        "macs_16_bit": 1,
        "sqnr_db": 1.0,
        "layers": [],
    }
    agreement = {"name": "detection_agreement", "program": 0.5, "float": None}
    task = {"task": [agreement], "task_kind": "detection"}
    assert table_lines([row | task])[0].split(None, 1)[1].startswith("detection agreement 0.5000, 8 B of weights")
    assert table_lines([row])[0].split(None, 1)[1].startswith("cosine 0.900000, 8 B")
    better = row | task | {"choice": "firstconv_hp", "sqnr_db": 30.0, "layers": ["a"]}
    assert better_choice([row | task, better], frozenset()) is None
