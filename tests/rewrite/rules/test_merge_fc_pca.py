"""merge_fc_pca: a projection behind a layer becomes one layer with it."""

from __future__ import annotations

import pytest

from nnkit.rewrite import restructure
from nnkit.rewrite.rules.merge_fc_pca import RULE as MERGE


@pytest.mark.parametrize("first", ["Gemm", "MatMul", "Conv"])
@pytest.mark.parametrize("last", ["Gemm", "MatMul", "Conv"])
@pytest.mark.parametrize("centred", [False, True])
def test_projection_is_merged(graphs, first, last, centred):
    net = graphs.Net(x=(1, 3, 4, 4))
    if first == "Conv":
        x = net.conv("x", (9, 3, 4, 4), name="feature")
    else:
        flat = net.op("Flatten", "x")
        constants = [net.normal(48, 9)] + ([net.normal(9)] if first == "Gemm" else [])
        x = net.op(first, flat, *constants, name="feature")
    if last != "Conv":
        x = net.op("Flatten", x)
    if centred:
        shape = (1, 9, 1, 1) if first == last == "Conv" else (9,)
        x = net.op("Sub", x, net.normal(*shape), name="centre")
    if last == "Conv":
        x = net.op("Reshape", x, net.ints(1, 9, 1, 1))
        y = net.conv(x, (4, 9, 1, 1), name="pca")
    else:
        y = net.op(last, x, net.normal(9, 4), name="pca")
    model = net.model(y, hp=["pca"])
    after, log = restructure(model, [MERGE])
    assert len(log.of("merge_fc_pca").fired) == 1
    graphs.assert_equal(model, after)
    layers = [node for node in after.proto().graph.node if node.op_type in ("Gemm", "MatMul", "Conv")]
    assert [layer.name for layer in layers] == ["pca"]
    assert after.tags.of(layers[0].output[0]).hp
    assert set(after.tags.of(layers[0].output[0]).origins) >= {"pca", "feature"}


def normalised(net, x):
    return net.op("Div", x, net.op("ReduceL2", x, axes=[1]), name="norm")


def test_a_normalisation_between_is_named(graphs):
    net = graphs.Net(x=(1, 12))
    x = net.op("Gemm", "x", net.normal(12, 9), name="feature")
    model = net.model(net.op("Gemm", normalised(net, x), net.normal(9, 4), name="pca"))
    same, log = restructure(model, [MERGE])
    (declined,) = log.of("merge_fc_pca").declined
    assert declined.reason == "the normalisation 'norm' stands between the two"
    assert same.proto() == model.proto()


def test_declines(graphs):
    def reason(*outputs, net):
        _, log = restructure(net.model(*outputs), [MERGE])
        (declined,) = log.of("merge_fc_pca").declined
        return declined.reason

    net = graphs.Net(x=(1, 12))
    x = net.op("Gemm", "x", net.normal(12, 9), name="feature")
    assert "also an output" in reason(net.op("Gemm", x, net.normal(9, 4)), x, net=net)
    net = graphs.Net(x=(1, 100))
    x = net.op("Gemm", "x", net.normal(100, 2), name="feature")
    assert "would have 5,000 weights, the two have 300" in reason(net.op("Gemm", x, net.normal(2, 50)), net=net)
    net = graphs.Net(x=(1, 3, 8, 8))
    x = net.conv("x", (4, 3, 3, 3))
    assert "more than one position" in reason(net.conv(x, (2, 4, 1, 1)), net=net)
    net = graphs.Net(x=(1, 4, 1, 1))
    x = net.conv("x", (4, 1, 1, 1), group=4)
    assert "grouped" in reason(net.conv(x, (2, 4, 1, 1)), net=net)
