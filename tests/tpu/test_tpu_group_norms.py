"""Group and instance normalisation in all the forms that exporters write: one op on the BM chips, parts elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from tpu_build import built, refuted
from tpu_net import Net

from nnkit.graph import Model
from nnkit_tpu.toolchain import Toolchain

_PARTS = "chip: cv181x"


def _group_norm(net: Net, before: str, channels: int, groups: int, to: str, *, scaled: bool) -> str:
    rows = net("Reshape", before, net.ints(1, groups, -1))
    ones, zeros = net.constant([1.0] * groups), net.constant([0.0] * groups)
    normal = net("InstanceNormalization", rows, ones, zeros)
    image = net("Reshape", normal, net.ints(1, channels, 12, 10), to="" if scaled else to)
    if not scaled:
        return image
    gain, offset = net.positive(channels, 1, 1), net.normal(channels, 1, 1)
    return net("Add", net("Mul", image, gain), offset, to=to)


def _network() -> Model:
    net = Net()
    wide = net("Conv", "x", net.normal(96, 8, 1, 1), net.normal(96))
    narrow = net("Conv", "x", net.normal(12, 8, 3, 3), pads=[1, 1, 1, 1])
    scaled = net("Relu", _group_norm(net, wide, 96, 32, "scaled", scaled=True))
    plain = net("Relu", _group_norm(net, narrow, 12, 3, "plain", scaled=False))
    own = net("InstanceNormalization", net("Conv", plain, net.normal(12, 12, 1, 1)), net.positive(12), net.normal(12))
    sums = net("Add", net("Conv", scaled, net.normal(12, 96, 1, 1)), own)
    return net.model([net("Conv", sums, net.normal(4, 12, 3, 3))])


@pytest.mark.parametrize("options", ["chip: bm1684x", "chip: bm1688", "chip: bm1684x, precision: bf16", _PARTS])
def test_a_normalisation_by_groups_is_one_op_where_the_chip_has_it(
    tpu_toolchain: Toolchain, tmp_path: Path, options: str
) -> None:
    report = built(_network(), options, tmp_path)
    of_groups = [each for each in report["layers"] if each["op"] == "group_norm"]
    assert len(of_groups) == (0 if options == _PARTS else 3)
    assert all(each["formats"]["output"] == "f32" for each in of_groups)
    assert refuted(report) == []
    assert report["status"] == "ok"


def _of_patches() -> Model:
    """One group around layers of patches, as MobileViT v2 has them: x as patches, normalised, and back."""
    net = Net()
    apart = net("Reshape", net("Conv", "x", net.normal(8, 8, 1, 1)), net.ints(1, 8, 6, 2, 5, 2))
    patches = net("Reshape", net("Transpose", apart, perm=[0, 1, 3, 5, 2, 4]), net.ints(1, 8, 4, 30))

    def normalised(before: str, shape: list[int]) -> str:
        row = net("Reshape", before, net.ints(1, 1, -1))
        normal = net("InstanceNormalization", row, net.constant([1.0]), net.constant([0.0]))
        return net("Reshape", normal, net.ints(*shape))

    mixed = net("Conv", normalised(patches, [1, 8, 4, 30]), net.normal(8, 8, 1, 1))
    blocks = net("Reshape", normalised(mixed, [1, 8, 4, 30]), net.ints(1, 8, 2, 2, 6, 5))
    image = net("Reshape", net("Transpose", blocks, perm=[0, 1, 4, 2, 5, 3]), net.ints(1, 8, 12, 10))
    return net.model([net("Conv", image, net.normal(4, 8, 1, 1))])


@pytest.mark.parametrize("options", ["chip: bm1684x", "chip: bm1688", _PARTS])
def test_patches_are_an_image_where_another_reshape_shows_it(
    tpu_toolchain: Toolchain, tmp_path: Path, options: str
) -> None:
    report = built(_of_patches(), options, tmp_path)
    kinds = [each["op"] for each in report["layers"]]
    assert kinds.count("group_norm") == (0 if options == _PARTS else 2)
    assert options == _PARTS or kinds.count("permute") == 2
    assert refuted(report) == []
    assert report["status"] == "ok"
