"""What names in a recipe's edits stand for, and what is said of names that stand for nothing."""

from __future__ import annotations

import pytest

from nnkit.errors import RecipeError
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.naming import matching_layers, named_output, named_value


@pytest.fixture
def editor(graphs):
    net = graphs.Net(x=(1, 3, 8, 8))
    conv = net.conv("x", (4, 3, 3, 3), name="conv")
    return Editor(net.model(net.op("Relu", conv, name="relu"), net.op("Neg", conv, name="neg")), "recipe.yaml:7")


@pytest.mark.parametrize(
    ("name", "value"), [("conv", "conv_v"), ("conv_v", "conv_v"), ("x", "x"), ("relu", "relu_v")]
)
def test_a_layer_stands_for_its_output_and_a_value_for_itself(editor, name, value):
    assert named_value(editor, name).name == value


def test_an_unknown_name_is_told_with_the_nearest_and_all(editor):
    with pytest.raises(RecipeError, match="no layer or value 'rellu'") as caught:
        named_value(editor, "rellu")
    assert caught.value.where == "recipe.yaml:7"
    assert caught.value.remedy == "did you mean 'relu'? it has: conv, relu, neg, x, conv_v, relu_v, neg_v"


def test_outputs(editor):
    assert named_output(editor, "neg_v").name == "neg_v"
    with pytest.raises(RecipeError, match="the network has 2 outputs"):
        named_output(editor, None)
    with pytest.raises(RecipeError, match="no output 'conv_v'"):
        named_output(editor, "conv_v")
    editor.set_outputs(list(editor.graph.outputs[:1]))
    assert named_output(editor, None).name == "relu_v"


def test_globs_match_layers_and_their_values_in_graph_order(editor):
    assert [node.name for node in matching_layers(editor, ["neg*", "*e?u"])] == ["relu", "neg"]
    assert [node.name for node in matching_layers(editor, ["*_v"])] == ["conv", "relu", "neg"]
    with pytest.raises(RecipeError, match=r"no layer that matches 'pool\*'"):
        matching_layers(editor, ["neg", "pool*"])


@pytest.mark.parametrize(("layers", "told"), [(5, False), (6, True)])
def test_of_many_names_twelve_are_told_and_how_many_there_are(graphs, layers, told):
    net = graphs.Net(x=(1, 1, 2, 2))
    value = "x"
    for number in range(layers):
        value = net.op("Relu", value, name=f"layer{number}")
    editor = Editor(net.model(value), "recipe.yaml:7")
    with pytest.raises(RecipeError) as caught:
        named_value(editor, "nothing alike")  # layers, the input, values: 2 * layers + 1 names
    assert ("... (13 in all)" in caught.value.remedy) == told
    assert caught.value.remedy.count(",") == (12 if told else 2 * layers)
