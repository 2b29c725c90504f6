"""What the log says of tags that hold for another layer after a rewrite."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from nnkit.graph import Model
from nnkit.rewrite import RewriteLog, resolve_rules, restructure


def _activated(graphs, *, hp: Sequence[str]) -> Model:
    net = graphs.Net(x=(1, 3, 8, 8))
    conv = net.conv("x", (4, 3, 3, 3), name="conv")
    return net.model(net.op("LeakyRelu", conv, name="leaky", alpha=0.1), hp=hp)


def _log(model: Model, *rules: str) -> RewriteLog:
    return restructure(model, resolve_rules(list(rules)))[1]


def test_the_tag_of_a_fused_activation_is_the_convolutions(graphs):
    entry = _log(_activated(graphs, hp=["leaky"]), "fuse_activation").of("fuse_activation")
    assert entry.tags == ("`_hp` of 'leaky' now holds for 'conv'",)
    assert entry.report()["tags"] == ["`_hp` of 'leaky' now holds for 'conv'"]


@pytest.mark.parametrize("hp", [[], ["conv"], ["conv", "leaky"]])
def test_a_layer_that_had_the_tag_anyway_is_no_news(graphs, hp: list[str]):
    entry = _log(_activated(graphs, hp=hp), "fuse_activation").of("fuse_activation")
    assert entry.tags == ()
    assert "tags" not in entry.report()


def test_every_layer_that_takes_over_is_named(graphs):
    net = graphs.Net(x=(1, 3, 4, 4), y=(1, 3, 4, 4), z=(1, 3, 4, 4))
    model = net.model(net.op("Sum", "x", "y", "z", name="total"), hp=["total"])
    after, log = restructure(model, resolve_rules(["sum_to_add"]))
    first, last = (node.name for node in after.proto().graph.node)
    assert log.of("sum_to_add").tags == (f"`_hp` of 'total' now holds for '{first}', '{last}'",)


def test_a_tag_is_followed_from_rule_to_rule(graphs):
    net = graphs.Net(x=(1, 3, 8, 8))
    conv = net.conv("x", (4, 3, 3, 3), name="conv")
    relu = net.op("Relu", conv, name="relu")
    model = net.model(net.op("Identity", relu, name="same"), hp=["same"])
    log = _log(model, "remove_identity", "fuse_activation")
    assert log.of("remove_identity").tags == ("`_hp` of 'same' now holds for 'relu'",)
    assert log.of("fuse_activation").tags == ("`_hp` of 'same' now holds for 'conv'",)


def test_cpu_on_a_layer_that_is_replaced_one_to_one_stays_where_it_is(graphs):
    net = graphs.Net(x=(1, 3, 4, 4))
    model = net.model(net.op("Max", "x", net.const(0.0), name="most"), cpu=["most"])
    entry = _log(model, "simplify_clip").of("simplify_clip")
    assert entry.fired == ("most",)
    assert entry.tags == ()
