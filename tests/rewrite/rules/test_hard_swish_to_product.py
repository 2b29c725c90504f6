"""hard_swish_to_product: HardSwish as a product with HardSigmoid."""

from __future__ import annotations

RULE = "hard_swish_to_product"


def test_product(graphs):
    net = graphs.Net(x=(1, 3, 4, 5))
    after, _ = graphs.apply(net.model(net.op("HardSwish", "x", name="h"), hp=["h"]), RULE)
    assert graphs.ops(after) == ["HardSigmoid", "Mul"]
    assert after.tags.of("h_v").hp
