"""The editor's promises: names stand for numbers, tags are never dropped."""

from __future__ import annotations

import numpy as np
import pytest

from nnkit.errors import InternalError, RecipeError
from nnkit.graph import LayerTags, ValueTags
from nnkit.graph.metadata import FUSE_INTO
from nnkit.graph.refusal import Refused
from nnkit.rewrite.editor import Editor


@pytest.fixture
def chain(graphs):
    net = graphs.Net(x=(1, 3, 8, 8))
    value = net.op("Relu", net.conv("x", (4, 3, 3, 3), name="c"), name="r")
    return net.model(net.op("Neg", value, name="n"), hp=["c"], cpu=["n"])


def _nodes(editor):
    return {editor.layer(node): node for node in editor.nodes()}


def test_supersede_takes_readers_name_tags_and_marks(chain):
    editor = Editor(chain)
    nodes = _nodes(editor)
    nodes["n"].metadata_props[FUSE_INTO] = "c_v"
    editor.supersede(nodes["r"].outputs[0], nodes["c"].outputs[0])
    assert nodes["c"].outputs[0].name == "r_v"
    assert nodes["n"].inputs[0] is nodes["c"].outputs[0]
    assert nodes["n"].metadata_props[FUSE_INTO] == "r_v"
    assert editor.tags.of("r_v") == ValueTags(hp=True, origins=("c", "r"))
    assert "c_v" not in editor.tags.values


def test_redirect_to_a_value_keeps_an_output_name(chain, graphs):
    editor = Editor(chain)
    nodes = _nodes(editor)
    editor.move_tags(nodes["n"], nodes["r"].outputs[0])
    editor.redirect(nodes["n"].outputs[0], nodes["r"].outputs[0])
    editor.remove(nodes["n"])
    after = editor.finish()
    assert graphs.ops(after) == ["Conv", "Relu"]
    assert list(graphs.node(after, "Relu").output) == ["n_v"]
    assert after.tags.of("n_v").cpu
    assert after.tags.of("n_v").origins == ("r", "n")
    assert after.tags.of("c_v").hp


def test_removing_a_tagged_layer_is_refused(chain):
    editor = Editor(chain)
    nodes = _nodes(editor)
    nodes["r"].replace_input_with(0, nodes["c"].inputs[0])
    with pytest.raises(InternalError, match="removing layer 'c' would lose its tags"):
        editor.remove(nodes["c"])


def test_tags_without_origins_get_the_layers_name(chain):
    from dataclasses import replace

    editor = Editor(replace(chain, tags=LayerTags({"c_v": ValueTags(hp=True)})))
    nodes = _nodes(editor)
    editor.move_tags(nodes["c"], nodes["r"].outputs[0])
    assert editor.tags.of("r_v") == ValueTags(hp=True, origins=("r", "c"))


def test_names_are_unique_and_dead_constants_go(chain):
    editor = Editor(chain)
    first = editor.constant("c", np.zeros(3, np.float32))
    second = editor.constant("c", np.zeros(3, np.float32))
    assert {first.name, second.name} == {"c_1", "c_2"}
    used = {t.name for t in editor.finish().proto().graph.initializer}
    assert used == {"const0", "const1"}


def test_scalar_constants_stay_scalars(chain):
    editor = Editor(chain)
    assert editor.array(editor.constant("s", np.array(2.5, np.float32))).shape == ()


def test_constant_nodes_become_initializers(graphs):
    net = graphs.Net(x=(1, 3))
    from onnx import numpy_helper

    constant = net.op("Constant", value=numpy_helper.from_array(np.ones(3, np.float32)))
    model = net.model(net.op("Add", "x", constant))
    after = Editor(model).finish()
    assert graphs.ops(after) == ["Add"]
    graphs.assert_equal(model, after)


def test_unknown_shape_is_an_error(chain):
    import onnx_ir as ir

    editor = Editor(chain)
    value = _nodes(editor)["r"].outputs[0]
    value.shape = ir.Shape([1, "C", 6, 6])
    with pytest.raises(InternalError, match="the shape of value 'r_v' is not static"):
        editor.shape(value)


def test_unnamed_nodes_go_by_their_output(graphs):
    net = graphs.Net(x=(1, 3))
    value = net.op("Relu", "x", name="some")
    net.nodes[0].name = ""
    editor = Editor(net.model(value))
    assert [editor.layer(node) for node in editor.nodes()] == ["some_v"]


def test_an_edit_ends_with_what_its_outputs_need(graphs):
    net = graphs.Net(x=(1, 3, 8, 8), y=(1, 4, 8, 8))
    conv = net.conv("x", (4, 3, 1, 1), name="c")
    model = net.model(net.op("Add", conv, "y", name="sum"), hp=["c"])
    editor = Editor(model)
    kept = _nodes(editor)["c"].outputs[0]
    editor.set_outputs([editor.append("Softmax", [kept], {"axis": 1}, name="c")])
    after = editor.finish_edit()
    assert graphs.ops(after) == ["Conv", "Softmax"]
    assert [(spec.name, spec.shape) for spec in after.inputs] == [("x", (1, 3, 8, 8))]
    assert [(spec.name, spec.shape) for spec in after.outputs] == [("c_1", (1, 4, 8, 8))]
    assert after.tags == model.tags


def test_a_value_can_be_fed_instead_of_computed(chain, graphs):
    editor = Editor(chain)
    editor.feed(_nodes(editor)["r"].outputs[0])
    with pytest.raises(RecipeError, match="layer 'c', which is tagged `_hp`, would be removed"):
        editor.finish_edit()
    editor = Editor(chain)
    editor.feed(_nodes(editor)["r"].outputs[0])
    after = editor.finish_edit(tags_may_go=True)
    assert graphs.ops(after) == ["Neg"]
    assert [(spec.name, spec.shape) for spec in after.inputs] == [("r_v", (1, 4, 6, 6))]
    assert set(after.tags.values) == {"n_v"}
    x = np.random.default_rng(0).normal(size=(1, 4, 6, 6)).astype(np.float32)
    np.testing.assert_array_equal(graphs.run(after, {"r_v": x})[0], -x)


def test_who_else_reads_a_value(graphs):
    net = graphs.Net(x=(1, 3))
    first, second = net.op("Relu", "x", name="first"), net.op("Neg", "x", name="second")
    doubled = net.op("Add", first, first, name="doubled")
    editor = Editor(net.model(doubled, net.op("Abs", second, name="last"), second))
    nodes = _nodes(editor)
    for node, reader, reason in (
        ("first", "doubled", "'doubled' reads 'first_v' more than once"),
        ("first", "last", "'first_v' is also read by 'doubled'"),
        ("second", "last", "'second_v' is also an output of the network"),
    ):
        with pytest.raises(Refused, match=reason):
            editor.require_only_reader(nodes[node].outputs[0], nodes[reader])
