"""The rule by which names carry tags."""

from __future__ import annotations

import pytest

from nnkit.graph.tag_words import split_tags, tags_in_name


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
