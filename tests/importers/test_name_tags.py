"""Tags are followed through the tools of an import, and none is lost."""

from __future__ import annotations

from onnx import TensorProto, helper

from nnkit.importers.name_tags import TagGlobs, follow_tags, lift_tags


def test_a_tag_that_another_layer_takes_over_is_noted() -> None:
    """A tool that drops a layer which computes nothing lets the one before it give the result."""
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3]) for name in ("x", "y")]
    before = [
        helper.make_node("Relu", ["x"], ["r"], name="relu"),
        helper.make_node("Identity", ["r"], ["y"], name="i"),
    ]
    after = [helper.make_node("Relu", ["x"], ["y"], name="relu")]
    tagged = lift_tags(helper.make_graph(before, "g", infos[:1], infos[1:]), TagGlobs(hp=("i",)))
    tags, notes = follow_tags(tagged, helper.make_graph(after, "g", infos[:1], infos[1:]), "net.onnx")
    assert tags.of("y").hp
    assert notes == ("the tag of layer 'i' holds for 'relu', which gives its result now",)
