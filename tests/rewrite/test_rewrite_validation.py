"""What the runner refuses after a rule: each invariant broken on purpose."""

from __future__ import annotations

from dataclasses import replace

import onnx
import pytest
from onnx import helper

from nnkit.errors import InternalError
from nnkit.graph import LayerTags, ValueTags
from nnkit.rewrite.validation import validate


@pytest.fixture
def model(graphs):
    net = graphs.Net(x=(1, 3, 8, 8))
    value = net.op("Relu", net.conv("x", (4, 3, 3, 3), name="c"), name="r")
    return net.model(net.op("Neg", value, name="n"), hp=["c"], cpu=["n"])


def _with(model, **changes):
    """The model after an edit of its proto by `edit`, or with other `tags`."""
    proto = model.proto()
    changes.get("edit", lambda p: None)(proto)
    return replace(model, onnx_bytes=proto.SerializeToString(), tags=changes.get("tags", model.tags))


def test_an_unchanged_graph_passes(model):
    validate(model, model, "nothing")


def _refused(before, after, text):
    with pytest.raises(InternalError, match=text) as error:
        validate(before, after, "some_rule")
    assert "'some_rule'" in str(error.value)


def test_renamed_output(model):
    def edit(proto):
        proto.graph.output[0].name = proto.graph.node[2].output[0] = "other"

    tags = LayerTags({"c_v": model.tags.of("c_v"), "other": model.tags.of("n_v")})
    _refused(model, _with(model, edit=edit, tags=tags), "changed the network's inputs or outputs")


def test_missing_and_symbolic_shapes(model):
    def drop(proto):
        del proto.graph.value_info[:]

    def symbolic(proto):
        next(i for i in proto.graph.value_info if i.name == "r_v").type.tensor_type.shape.dim[1].dim_param = "C"

    _refused(model, _with(model, edit=drop), "value 'c_v' without a static shape")
    _refused(model, _with(model, edit=symbolic), "value 'r_v' without a static shape")


def test_not_topological(model):
    def edit(proto):
        nodes = list(proto.graph.node)
        del proto.graph.node[:]
        proto.graph.node.extend(reversed(nodes))

    _refused(model, _with(model, edit=edit), "not valid")


@pytest.mark.parametrize("start", ["gone", "n_v"])
def test_mark_that_points_nowhere(model, start):
    def edit(proto):
        proto.graph.node[1].metadata_props.append(onnx.StringStringEntryProto(key="nnkit.fuse_into", value=start))

    _refused(model, _with(model, edit=edit), f"'r' fused into '{start}'")


def test_good_mark_passes(model):
    def edit(proto):
        proto.graph.node[1].metadata_props.append(onnx.StringStringEntryProto(key="nnkit.fuse_into", value="c_v"))

    validate(model, _with(model, edit=edit), "fuse")


def test_tag_on_a_value_that_is_gone(model):
    tags = LayerTags({"nowhere": model.tags.of("c_v"), "n_v": model.tags.of("n_v")})
    _refused(model, _with(model, tags=tags), "lost the tags of layer 'c': value 'nowhere' is gone")


@pytest.mark.parametrize(("layer", "kind"), [("c", "hp"), ("n", "cpu")])
def test_tag_that_vanished(model, layer, kind):
    values = {value: tags for value, tags in model.tags.values.items() if value != f"{layer}_v"}
    _refused(model, _with(model, tags=LayerTags(values)), f"lost the tag `_{kind}` of layer '{layer}'")


def test_tag_without_origins_is_known_by_its_layer(model):
    before = replace(model, tags=LayerTags({"c_v": ValueTags(hp=True)}))
    validate(before, replace(model, tags=LayerTags({"r_v": ValueTags(hp=True, origins=("c", "r"))})), "moved")
    _refused(before, replace(model, tags=LayerTags()), "`_hp` of layer 'c'")


def test_wrong_type_of_value(model):
    def edit(proto):
        proto.graph.node[1].CopyFrom(helper.make_node("Cast", ["c_v"], ["r_v"], name="r", to=onnx.TensorProto.INT64))

    _refused(model, _with(model, edit=edit), "not valid")
