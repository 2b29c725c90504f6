"""The rule by which names carry tags."""

from __future__ import annotations

import pytest
from onnx import TensorProto, helper

from nnkit.importers.name_tags import TagGlobs, follow_tags, lift_tags, split_tags, tags_in_name


@pytest.mark.parametrize(
    ("name", "tags"),
    [
        ("fc_pca_hp", {"hp": "fc_pca_hp"}),
        ("conv1_hp_cpu", {"hp": "conv1_hp", "cpu": "conv1_hp_cpu"}),
        ("conv1_cpu_hp", {"cpu": "conv1_cpu", "hp": "conv1_cpu_hp"}),
        ("fc_hp/Gemm", {"hp": "fc_hp"}),
        ("/layer_hp/Conv", {"hp": "/layer_hp"}),
        ("/a_cpu/b_hp.1/Conv", {"cpu": "/a_cpu", "hp": "/a_cpu/b_hp"}),
        ("conv_hp_1", {"hp": "conv_hp"}),
        ("conv_hp_output_0", {"hp": "conv_hp"}),
        ("conv__hp", {"hp": "conv__hp"}),
        ("a_hp/b_hp", {"hp": "a_hp"}),
        ("conv_hpx", {}),
        ("conv_hp2", {}),
        ("chp", {}),
        ("hp", {}),
        ("_hp", {}),
        ("fc_HP", {}),
        ("cpu/conv", {}),
        ("", {}),
    ],
)
def test_tags_in_name(name: str, tags: dict[str, str]) -> None:
    assert tags_in_name(name) == tags


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("fc_pca_hp", ("fc_pca", "_hp")),
        ("conv1_cpu_hp", ("conv1", "_cpu_hp")),
        ("conv__hp", ("conv", "__hp")),
        ("conv_hp_1", ("conv_hp_1", "")),
        ("/a_hp/Conv", ("/a_hp/Conv", "")),
        ("conv_hpx", ("conv_hpx", "")),
        ("_hp", ("_hp", "")),
        ("a/_hp", ("a/_hp", "")),
        ("", ("", "")),
    ],
)
def test_tags_at_the_end(name: str, parts: tuple[str, str]) -> None:
    assert split_tags(name) == parts


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
