"""The editor's promises: names stand for numbers, tags are never dropped."""

from __future__ import annotations

import numpy as np
import pytest

from nnkit.errors import InternalError
from nnkit.graph import LayerTags, ValueTags
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.rule import FUSE_INTO


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
