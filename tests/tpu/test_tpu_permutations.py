"""Transpositions in steps: against numpy, and on the vendor's chip model where the compiler has no code for them."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from tpu_build import built, refuted
from tpu_net import Net

from nnkit_tpu.permutations import steps_of
from nnkit_tpu.toolchain import Toolchain

SIZES = (2, 3, 4, 5, 6)
NO_CODE = ("1032", "1302", "1320", "2031", "2310", "3021", "3210")  # the chip model's compiler, one network for each


@pytest.mark.parametrize("rank", [3, 4, 5])
def test_steps_are_the_transposition(rank: int) -> None:
    shape = (1, *SIZES[:rank])
    x = np.arange(np.prod(shape)).reshape(shape)
    for order in permutations(range(1, rank + 1)):
        steps = steps_of(shape, (0, *order))
        axes = "".join(str(axis - 1) for axis in order)
        assert bool(steps) == (axes in NO_CODE) or rank != 4
        value = x
        for step in steps:
            value = value.reshape(step.shape).transpose(step.order)
            short = [axis for axis in step.order if step.shape[axis] > 1]
            ranks = "".join(str(sorted(short).index(axis)) for axis in short)
            assert len(ranks) <= 4
            assert ranks not in NO_CODE
        if steps:
            truth = x.transpose(0, *order)
            assert np.array_equal(value.reshape(truth.shape), truth)


def test_axes_of_one_do_not_count() -> None:
    """DepthToSpace of one channel: what is traced is no longer one layer for the compiler."""
    assert len(steps_of((1, 1, 2, 2, 32, 32), (0, 1, 4, 2, 5, 3))) == 2
    assert steps_of((1, 1, 2, 3, 4), (0, 1, 4, 3, 2)) == ()


def test_the_chip_model_agrees(tpu_toolchain: Toolchain, tmp_path: Path) -> None:
    net = Net()
    one = net("Conv", "x", net.normal(4, 8, 1, 1))
    outputs = [net("DepthToSpace", one, blocksize=2, mode=mode, to=mode.lower()) for mode in ("DCR", "CRD")]
    outputs.append(net("SpaceToDepth", net("Conv", "x", net.normal(1, 8, 1, 1)), blocksize=2, to="parts"))
    parted = net("Reshape", "x", net.ints(1, 2, 4, 4, 3, 10))
    outputs.append(net("Transpose", parted, perm=[0, 3, 1, 5, 2, 4], to="turned"))
    report = built(net.model(outputs), "chip: cv181x", tmp_path)
    assert refuted(report) == []
    assert report["status"] == "ok"


@pytest.mark.parametrize("chip", ["bm1684x", "cv181x"])
def test_what_integers_alone_read_is_moved_as_integers(tpu_toolchain: Toolchain, tmp_path: Path, chip: str) -> None:
    """Behind a normalisation in floating point, unless something in floating point reads it, too."""
    net = Net()
    parted = net("Reshape", "x", net.ints(1, 8, 120))
    normal = net("LayerNormalization", parted, net.normal(120), net.normal(120), axis=-1)
    turned = net("Transpose", normal, perm=[0, 2, 1], to="turned")
    product = net("MatMul", turned, net.normal(8, 6), to="product")
    another = net("LayerNormalization", parted, net.normal(120), net.normal(120), axis=-1)
    other = net("Transpose", another, perm=[0, 2, 1], to="other")
    mean = net("ReduceMean", other, net.ints(2), keepdims=1, to="mean")
    mixed = net("Add", mean, net("MatMul", other, net.normal(8, 8)), to="mixed")
    report = built(net.model([product, mixed]), f"chip: {chip}", tmp_path)
    formats = {layer["name"]: layer["formats"]["output"] for layer in report["layers"]}
    assert formats["turned"].startswith("s8 ")
    assert not formats["other"].startswith("s8 ")
    assert refuted(report) == []
    assert report["status"] == "ok"


def test_blocks_of_rows_are_not_taken_for_an_image(tpu_toolchain: Toolchain, tmp_path: Path) -> None:
    """The compiler makes SpaceToDepth of reshapes and a transposition, of rows [1, 8, 120] as of an image."""
    net = Net()
    rows = net("Sigmoid", net("Reshape", net("Conv", "x", net.normal(8, 8, 1, 1)), net.ints(1, 8, 120)))
    parted = net("Transpose", net("Reshape", rows, net.ints(1, 8, 6, 2, 5, 2)), perm=[0, 1, 3, 5, 2, 4])
    outputs = [net("Conv", net("Reshape", parted, net.ints(1, 32, 6, 5)), net.normal(4, 32, 1, 1), to="unshuffled")]
    report = built(net.model(outputs), "chip: bm1684x", tmp_path)
    assert refuted(report) == []
    assert report["status"] == "ok"
