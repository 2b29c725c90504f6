"""STN -> warp -> NET is the unsplit network, and the edit keeps either part."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper
from stn_network import StnNet, images, run_in_parts

from nnkit.errors import ModelError
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.recipe.restructure import RuleEntry
from nnkit.rewrite import resolve_steps, restructure_steps
from nnkit.rewrite.stn_split import split_stn


@pytest.fixture
def stn_net() -> StnNet:
    return StnNet()


def test_the_three_parts_one_after_another_are_the_network(stn_net):
    model = stn_net.model(hp=("stn_fc", "conv"))
    split = split_stn(model)
    assert (split.image, split.matrix, split.warped) == ("image", "matrix", "warped")
    assert split.warped_shape == (1, 3, 12, 10)
    assert [spec.name for spec in split.stn.inputs] == ["image"]
    assert [spec.name for spec in split.net.inputs] == ["warped"]
    whole = FloatSession(model)
    for sample in images():
        wanted = whole.run(sample)["feature"]
        found = run_in_parts(split, sample)["feature"]
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-6 * np.abs(wanted).max())


def test_tags_go_with_their_layers(stn_net):
    split = split_stn(stn_net.model(hp=("matrix", "conv")))
    assert (split.stn.tags.of("matrix").hp, split.stn.tags.of("conv").hp) == (True, False)
    assert (split.net.tags.of("matrix").hp, split.net.tags.of("conv").hp) == (False, True)


@pytest.mark.parametrize("part", ["stn", "net"])
def test_a_recipe_builds_either_part(stn_net, part):
    model = stn_net.model()
    steps = resolve_steps([RuleEntry(split_stn={"part": part}), "fc_to_conv"])
    done = restructure_steps(model, steps)
    split = split_stn(model)
    assert done.reference.digest == (split.stn if part == "stn" else split.net).digest
    assert done.log.of("split_stn").max_error == 0.0
    assert "inverse matrix, bilinear, border constant" in done.log.of("split_stn").effect


@pytest.mark.parametrize(("part", "gone"), [("stn", "conv"), ("net", "matrix")])
def test_the_log_names_the_tags_that_went_with_the_other_part(stn_net, part, gone):
    model = stn_net.model(hp=("matrix", "conv"))
    done = restructure_steps(model, resolve_steps([RuleEntry(split_stn={"part": part})]))
    assert done.log.of("split_stn").effect.endswith(f"; `_hp` of layer '{gone}' went with the other part")


def _no_warp(net):
    del net.nodes[4:]
    net.outputs = ["matrix"]


def _two_warps(net):
    second = type(net.nodes[4])()
    second.CopyFrom(net.nodes[4])
    second.name, second.output[0] = "warp2", "warped2"
    net.nodes.append(second)
    net.outputs.append("warped2")


def _image_is_computed(net):
    net.nodes.insert(0, helper.make_node("Neg", ["image"], ["negative"], name="neg"))
    net.nodes[5].input[0] = "negative"


def _matrix_is_an_output(net):
    net.outputs.append("matrix")


def _connection(net):
    net.nodes.append(helper.make_node("Concat", ["feature", "flat"], ["joined"], name="joined", axis=1))
    net.outputs = ["joined"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (_no_warp, "no warp to be split at"),
        (_two_warps, "2 warps"),
        (_image_is_computed, "the warp reads 'negative'"),
        (_matrix_is_an_output, "output 'matrix' does not depend on the warp"),
        (_connection, "layers behind the warp read what the STN computes"),
    ],
)
def test_refusals(stn_net, change, reason):
    change(stn_net)
    with pytest.raises(ModelError) as caught:
        split_stn(stn_net.model())
    assert reason in caught.value.reason
    assert caught.value.remedy
