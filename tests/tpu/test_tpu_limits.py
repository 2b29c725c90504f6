"""Limited ReLUs on the cv18xx, and builds whose inner values no model gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tpu_build import built, refuted
from tpu_net import Net

from nnkit.errors import ToolError
from nnkit.graph import Model
from nnkit_tpu.traced import Tracing


def _limited(net: Net, source: str, channels: int = 8) -> Model:
    """A ReLU that ends at 0.5, which a convolution and a sum read."""
    limited = net("Clip", source, net.constant(0.0), net.constant(0.5), to="limited")
    weighed = net("Conv", limited, net.normal(channels, channels, 1, 1), to="weighed")
    return net.model([net("Add", weighed, limited, to="sum")])


@pytest.mark.parametrize("options", ["precision: bf16", "tags: {hp: [conv]}", "tags: {hp: [conv, weighed, sum]}"])
def test_all_that_reads_a_limited_value_gets_it_with_its_limit(
    tpu_toolchain: object, tmp_path: Path, options: str
) -> None:
    net = Net()
    model = _limited(net, net("Conv", "x", net.normal(8, 8, 1, 1), to="conv"))
    report = built(model, f"chip: cv181x, {options}", tmp_path)
    assert report["status"] == "ok"
    assert not refuted(report)


@pytest.mark.parametrize("behind", ["MaxPool", "Concat"])
def test_a_limited_relu_that_no_op_takes_in_is_built(tpu_toolchain: object, tmp_path: Path, behind: str) -> None:
    """On its own the compiler takes its limit for the range of what it reads."""
    net = Net()
    if behind == "MaxPool":
        model = _limited(net, net("MaxPool", "x", kernel_shape=[2, 2], strides=[2, 2]))
    else:
        parts = net("Conv", "x", net.normal(4, 8, 1, 1), to="conv"), "x"
        model = _limited(net, net("Concat", *parts, axis=1), channels=12)
    report = built(model, "chip: cv181x", tmp_path)
    assert report["status"] == "ok"
    assert not refuted(report)


@pytest.mark.parametrize("readers", [1, 2])
@pytest.mark.parametrize(
    "options", ["precision: bf16", "tags: {hp: [limited]}", "tags: {hp: [limited, joined, conv]}"]
)
def test_a_limited_relu_behind_a_concatenation_keeps_its_limit(
    tpu_toolchain: object, tmp_path: Path, options: str, readers: int
) -> None:
    """Read once, the limit was lost, and the build refuted; read twice, the compiler ended."""
    net = Net()
    parts = net("Conv", "x", net.normal(4, 8, 1, 1), to="conv"), net("Conv", "x", net.normal(4, 8, 1, 1), to="other")
    limited = net(
        "Clip", net("Concat", *parts, axis=1, to="joined"), net.constant(0.0), net.constant(0.5), to="limited"
    )
    weighed = net("Conv", limited, net.normal(8, 8, 1, 1), to="weighed")
    model = net.model([weighed if readers == 1 else net("Add", weighed, limited, to="sum")])
    report = built(model, f"chip: cv181x, {options}", tmp_path)
    assert report["status"] == "ok"
    assert not refuted(report)
    assert not report["details"].get("prediction", {}).get("disagreements")


@pytest.mark.parametrize("options", ["chip: bm1684x", "chip: bm1684x, precision: f16"])
def test_a_traced_model_that_cannot_be_compiled_costs_no_build(
    tpu_toolchain: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: str
) -> None:
    def failing(*args: object) -> Any:
        raise ToolError("the TPU compiler failed while lowering the network", remedy="look at its log")

    monkeypatch.setattr(Tracing, "compiled", failing)
    net = Net()
    report = built(_limited(net, net("Conv", "x", net.normal(8, 8, 1, 1), to="conv")), options, tmp_path)
    assert report["status"] == "ok"
    assert not refuted(report)
    (line,) = [each for each in report["details"]["summary"] if each.startswith("traced")]
    assert "failed while lowering the network" in line


def test_values_that_later_parts_of_a_traced_model_write_over_refute_nothing(
    tpu_toolchain: object, tmp_path: Path
) -> None:
    """The host resizes the rows, so that the model has three parts, which share memory."""
    net = Net()
    first = net("Conv", "rows", net.normal(8, 6, 5), pads=[2, 2], to="first")
    wider = net("Resize", net("LeakyRelu", first, alpha=0.1), "", net.constant([1.0, 1.0, 2.0]), mode="linear")
    again = net("Conv", wider, net.normal(8, 8, 5), pads=[2, 2], to="again")
    report = built(
        net.model([net("Conv", again, net.normal(4, 8, 5), pads=[2, 2], to="last")]),
        "chip: cv181x, precision: bf16",
        tmp_path,
    )
    assert report["status"] == "ok"
    assert not refuted(report)
    assert "first" in report["details"]["traced"]["overwritten"][0]
    assert " first, " in report["verify"]["program_vs_artifact"][0]["note"], "compared with what reads it"
