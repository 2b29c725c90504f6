"""The model that gives inner values, where the compiler's own groups make it wrong and the released one is right."""

from __future__ import annotations

from pathlib import Path

from tpu_build import built, refuted
from tpu_net import Net

from nnkit_tpu.toolchain import Toolchain

_TOKENS, _HEADS, _WIDTH = 240, 3, 32


def _attention_over_channels(net: Net) -> None:
    """As DaViT's: channels attend to channels; the keys' rows, 240 x 32 values, are scaled by a table."""
    channels = _HEADS * _WIDTH
    tokens = net("Reshape", net("Conv", "x", net.normal(192, 8, 1, 1)), net.ints(1, _TOKENS, channels))
    parts = net("Reshape", net("MatMul", tokens, net.normal(channels, 3 * channels)), net.ints(1, _TOKENS, 3, 3, 32))
    heads = net("Transpose", parts, perm=[2, 0, 3, 1, 4])
    query, key, value = (
        net("Squeeze", net("Slice", heads, net.ints(at), net.ints(at + 1), net.ints(0)), net.ints(0))
        for at in range(3)
    )
    scaled = net("Mul", key, net.constant(_WIDTH**-0.5))
    scores = net("MatMul", net("Transpose", scaled, perm=[0, 1, 3, 2]), value)
    mixed = net("MatMul", net("Softmax", scores, axis=-1), net("Transpose", query, perm=[0, 1, 3, 2]))
    rows = net("Reshape", net("Transpose", mixed, perm=[0, 3, 1, 2]), net.ints(1, _TOKENS, channels))
    net("MatMul", rows, net.normal(channels, channels), to="y")


def test_layers_alone_stand_in_for_groups_that_are_wrong(tpu_toolchain: Toolchain, tmp_path: Path) -> None:
    net = Net()
    _attention_over_channels(net)
    report = built(net.model(["y"]), "chip: cv181x", tmp_path)
    assert refuted(report) == []
    assert report["status"] == "ok"
    assert report["details"]["traced"]["groups"] == "layers are computed otherwise: no groups stand in"
