"""Networks in one form: inputs of both kinds, old layers, phases, in-place layers, and networks that are none."""

from __future__ import annotations

import pytest

from nnkit.caffe.network import CaffeNetwork, read_network
from nnkit.caffe.weights import LayerWeights
from nnkit.errors import ModelError

INPUT = 'layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 8 dim: 8 } } }\n'


def network(text: str, weights: dict[str, LayerWeights] | None = None) -> CaffeNetwork:
    return read_network(text.encode(), weights or {}, "net.prototxt")


def relu(name: str, bottom: str, top: str, more: str = "") -> str:
    return f'layer {{ name: "{name}" type: "ReLU" bottom: "{bottom}" top: "{top}" {more} }}\n'


@pytest.mark.parametrize(
    "head",
    [
        'input: "data" input_dim: 1 input_dim: 3 input_dim: 8 input_dim: 8\n',
        'input: "data" input_shape { dim: 1 dim: 3 dim: 8 dim: 8 }\n',
        INPUT,
    ],
)
def test_inputs_of_every_kind(head: str) -> None:
    found = network(head + relu("r", "data", "y"))
    assert [(item.name, item.shape) for item in found.inputs] == [("data", (1, 3, 8, 8))]
    assert [layer.name for layer in found.layers] == ["r"]
    assert found.outputs == ("y",)


def test_values_of_in_place_layers() -> None:
    text = INPUT + relu("a", "data", "x") + relu("b", "x", "x") + relu("c", "x", "x") + relu("d", "x", "y")
    found = network(text + relu("e", "x", "z"))
    assert [(layer.bottoms, layer.tops, layer.in_place) for layer in found.layers] == [
        (("data",), ("x_before_b",), False),
        (("x_before_b",), ("x_before_c",), True),
        (("x_before_c",), ("x",), True),
        (("x",), ("y",), False),
        (("x",), ("z",), False),
    ]
    assert found.outputs == ("y", "z")


def test_an_input_that_is_overwritten_keeps_its_name() -> None:
    found = network(INPUT + relu("a", "data", "data") + relu("b", "data", "y"))
    assert found.inputs[0].name == "data"
    assert [(layer.bottoms, layer.tops) for layer in found.layers] == [
        (("data",), ("data_after_a",)),
        (("data_after_a",), ("y",)),
    ]


def test_old_layers() -> None:
    text = """input: "data" input_dim: 1 input_dim: 3 input_dim: 8 input_dim: 8
layers { name: "c" type: CONVOLUTION bottom: "data" top: "c" blobs_lr: 1 weight_decay: 1
  convolution_param { num_output: 4 kernel_size: 3 weight_filler { type: "xavier" } } }
layers { name: "r" type: RELU bottom: "c" top: "c" relu_param { negative_slope: 0.25 } }
"""
    found = network(text)
    assert [(layer.name, layer.type) for layer in found.layers] == [("c", "Convolution"), ("r", "ReLU")]
    assert found.layers[0].parameters.convolution_param.num_output == 4
    assert found.layers[1].parameters.relu_param.negative_slope == 0.25
    with pytest.raises(ModelError, match="first format"):
        network('input: "d" input_shape { dim: 1 } layers { layer { name: "c" type: "conv" } bottom: "d" top: "c" }')


@pytest.mark.parametrize(
    ("rule", "used"),
    [
        ("include { phase: TRAIN }", False),
        ("include { phase: TEST }", True),
        ("exclude { phase: TEST }", False),
        ("exclude { phase: TRAIN }", True),
        ('include { stage: "deploy" }', False),
        ('include { phase: TRAIN } include { not_stage: "deploy" }', True),
        ("include { min_level: 1 }", False),
        ("include { max_level: 0 }", True),
    ],
)
def test_phases(rule: str, used: bool) -> None:
    found = network(INPUT + relu("r", "data", "y") + relu("s", "data", "z", rule))
    assert ("s" in [layer.name for layer in found.layers]) is used
    assert any("left out" in note for note in found.notes) is not used


def test_state_of_the_net_counts() -> None:
    text = (
        'state { stage: "deploy" level: 2 }'
        + INPUT
        + relu("s", "data", "z", 'include { stage: "deploy" min_level: 2 }')
    )
    assert [layer.name for layer in network(text).layers] == ["s"]


def test_measuring_layers_are_left_out_and_their_bottoms_are_the_result() -> None:
    text = (
        INPUT
        + relu("r", "data", "y")
        + 'layer { name: "loss" type: "SoftmaxWithLoss" bottom: "y" bottom: "data" top: "loss" }\n'
        + 'layer { name: "s" type: "Silence" bottom: "y" }\n'
    )
    found = network(text)
    assert [layer.name for layer in found.layers] == ["r"]
    assert found.outputs == ("y",)
    assert len(found.notes) == 2


def test_losses_of_labels_that_only_training_has_are_left_out() -> None:
    """As a prototxt of training has them, whose Data layer is of its own phase or was taken out by hand."""
    text = (
        INPUT
        + relu("r", "data", "y")
        + 'layer { name: "loss" type: "SoftmaxWithLoss" bottom: "y" bottom: "label" top: "loss" }\n'
        + 'layer { name: "right" type: "Accuracy" bottom: "y" bottom: "label" top: "right" }\n'
    )
    read = network(text)
    assert [layer.name for layer in read.layers] == ["r"]
    assert read.outputs == ("y",)
    assert [note.split(" computes")[0] for note in read.notes] == [
        "layer 'loss' (SoftmaxWithLoss)",
        "layer 'right' (Accuracy)",
    ]


def test_unknown_fields_are_reported_by_name_and_line() -> None:
    notes = network(INPUT + relu("r", "data", "y", "clip: 1")).notes
    assert notes == ("unknown field 'layer.clip' is ignored (net.prototxt, line 2)",)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("", None, "describes no layers"),
        (relu("r", "data", "y"), None, "has no input"),
        (INPUT + relu("r", "nowhere", "y"), 2, "which nothing computes"),
        (INPUT + relu("r", "y", "z") + relu("s", "data", "y"), 2, "a later layer computes"),
        (INPUT + relu("r", "data", "y") + relu("s", "data", "y"), 3, "computes already"),
        (INPUT + INPUT, None, "two inputs"),
        (INPUT + 'layer { name: "x" bottom: "data" top: "y" }', 2, "has no type"),
        (INPUT + 'layer { type: "ReLU" }', 2, "neither name nor top"),
        (INPUT + 'layers { name: "x" type: RELU }', 2, "mixes `layer` and `layers`"),
        ('layer { name: "d" type: "Data" top: "data" top: "label" }' + relu("r", "data", "y"), 1, "training data"),
        ('input: "a" input: "b" input_shape { dim: 1 } input_shape { dim: 1 } input_shape { dim: 1 }'
         + relu("r", "a", "y"), None, "2 inputs and 3 shapes"),
        ('input: "a" input_shape { dim: 1 dim: 0 }' + relu("r", "a", "y"), None, "has shape [1, 0]"),
        ('input: "a" input_shape { dim: 65536 dim: 65536 dim: 65536 }' + relu("r", "a", "y"), None, "has shape"),
        (INPUT + 'layer { name: "s" type: "Split" bottom: "data" top: "a" top: "a" }', 2, "two tops of one name"),
    ],
)  # fmt: skip
def test_networks_that_are_none(text: str, line: int | None, words: str) -> None:
    with pytest.raises(ModelError) as caught:
        network(text)
    assert words in caught.value.reason
    assert caught.value.where == "net.prototxt" + (f":{line}" if line else "")
    assert caught.value.remedy
