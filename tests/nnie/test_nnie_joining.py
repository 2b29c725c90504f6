"""Networks of more segments than may be: small ones of the NNIE move to the CPU, and others are refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from nnie_networks import Net

from nnkit.errors import ModelError
from nnkit.graph import Model
from nnkit.graph.view import GraphView
from nnkit_nnie.estimates import works_of
from nnkit_nnie.layers import layers_of
from nnkit_nnie.limits.context import Division
from nnkit_nnie.network import Network
from nnkit_nnie.segments import divide

CV500 = Division("hi3516cv500")


def alternating(kernels: list[int], hp: tuple[int, ...] = ()) -> Model:
    """Convolutions of 16 channels on 8 x 8 with these windows, and Softsign, which the CPU runs, between them."""
    net = Net()
    x = net.input("data", 16, 8, 8)
    for index, kernel in enumerate(kernels):
        x = net.conv(x, (16, 16), f"conv{index}", kernel=kernel)
        if index in hp:
            net.tag(x, hp=True)
        x = net.node("Softsign", [x], f"soft{index}")
    return net.model(x)


def moved(network: Network) -> list[str]:
    return [layer.name for layer in network.layers if layer.placement == "cpu" and layer.kind == "Convolution"]


def test_the_smallest_move_until_there_are_eight() -> None:
    """12 segments; of 4 x 121 + 9 + 1 taps the two smallest have 2 %."""
    network = divide(alternating([11, 3, 11, 1, 11, 11]), CV500)
    assert moved(network) == ["conv1", "conv3"]
    assert [segment.placement for segment in network.segments] == ["npu", "cpu"] * 4
    (note,) = [note for note in network.notes if "between segments" in note]
    assert "2 layers" in note
    assert "8 segments, not 12" in note
    assert "2.0%" in note  # 10 of 494
    assert note.endswith("conv3, conv1")


def test_no_more_than_has_to() -> None:
    network = divide(alternating([3, 1, 3, 1]), CV500)
    assert moved(network) == []
    assert len(network.segments) == 8


def test_where_much_would_move_the_message_says_how_much_and_what_to_write() -> None:
    """Two of six equal ones are a third, and the first is not among them."""
    model = alternating([3] * 6)
    with pytest.raises(ModelError) as refused:
        divide(model, CV500)
    assert "at most 8 segments; found 12" in str(refused.value)
    assert "join_segments: any: the CPU then runs 2 layers more, with 33% of" in str(refused.value)
    network = divide(model, replace(CV500, join_segments="any"))
    assert len(network.segments) == 8
    assert moved(network) == ["conv1", "conv2"]


def test_none_and_layers_of_sixteen_bits_stay() -> None:
    model = alternating([11, 3, 11, 1, 11, 11])
    with pytest.raises(ModelError, match="found 12"):
        divide(model, replace(CV500, join_segments="none"))
    tagged = alternating([3, 1, 3, 1, 3, 3], hp=(1,))
    network = divide(tagged, replace(CV500, compile_mode=2, join_segments="any"))
    assert moved(network) == ["conv2", "conv3"]


def test_rows_of_a_fully_connected_layer_count() -> None:
    """A product of 64 rows of 32 by 16 has 64 * 32 * 16 multiply-accumulates."""
    net = Net()
    weight = net.constant("weight", np.ones((32, 16)))
    graph = GraphView.of(net.model(net.node("MatMul", [net.input("data", 64, 32), weight], "fc")))
    layers = layers_of(graph)
    (work,) = works_of(Network(graph, layers, ()), layers, lambda _: 8)
    assert work.products == 64 * 32 * 16


def test_a_product_of_several_rows_is_not_the_nnies() -> None:
    """An InnerProduct would make one vector of all rows."""
    net = Net()
    x = net.conv(net.input("data", 32, 4, 4), (32, 32), "conv")
    rows = net.tag(net.reshape(x, [1, 16, 32], "rows"), cpu=True)
    model = net.model(net.node("MatMul", [rows, net.constant("weight", np.ones((32, 8)))], "product"))
    with pytest.raises(ModelError, match=r"(?s)product \(InnerProduct\).*one vector of its whole input; found 16 of"):
        divide(model, CV500)
    network = divide(model, replace(CV500, outside_limits_custom=True))
    assert [layer.placement for layer in network.layers if layer.name == "product"] == ["cpu"]
