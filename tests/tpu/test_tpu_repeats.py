"""Expand of computed values."""

from __future__ import annotations

from math import prod
from pathlib import Path

import pytest
from tpu_build import built, refuted
from tpu_net import Net

from nnkit.errors import ModelError
from nnkit_tpu.lowering import lower


@pytest.mark.parametrize("options", ["chip: bm1684x", "chip: bm1688, precision: f16", "chip: cv181x"])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((1, 8, 1, 15), (1, 8, 4, 15)),
        ((1, 120), (1, 1, 3, 120)),
        ((8, 1, 15), (1, 8, 3, 15)),
        ((1, 8, 1, 15, 1), (1, 8, 2, 15, 3)),
    ],
)
def test_a_repeated_value_is_built(
    tpu_toolchain: object, tmp_path: Path, before: tuple[int, ...], after: tuple[int, ...], options: str
) -> None:
    """As the logits of relative positions have it."""
    net = Net()
    value = net("Reshape", net("Relu", net("MatMul", "rows", net.normal(20, 20))), net.ints(*before))
    repeated = net("Expand", value, net.ints(*after), to="repeated")
    count = after[-2] * after[-1]
    rows = net("Reshape", repeated, net.ints(1, prod(after) // count, count))
    report = built(net.model([net("MatMul", rows, net.normal(count, 6), to="out")]), options, tmp_path)
    assert report["status"] == "ok"
    assert not refuted(report)
    assert report["verify"]["float_vs_program"]["cosine"] > 0.999


def test_very_many_repeats_are_refused() -> None:
    net = Net()
    column = net("ReduceSum", net("Relu", "rows"), net.ints(2), to="column")
    model = net.model([net("Expand", column, net.ints(1, 6, 100), to="repeated")])
    with pytest.raises(ModelError, match="up to 64 times; found 100 times"):
        lower(model, "net", "bm1684x")
