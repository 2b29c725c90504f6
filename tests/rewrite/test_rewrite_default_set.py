"""Random networks through the whole default set: same numbers, no tag lost, nothing left but the normal form."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nnkit.rewrite import DEFAULT_RULES, resolve_rules, restructure

NORMAL_FORM = {
    "Conv", "ConvTranspose", "MaxPool", "AveragePool", "GlobalAveragePool", "Add", "Mul", "Relu", "Clip",
    "LeakyRelu", "PRelu", "Concat", "Resize", "Pad", "Reshape", "Flatten", "Squeeze", "Unsqueeze",
}  # fmt: skip


class _Grower:
    """Grows a network op by op as hypothesis draws; `values` holds (name, channels, height, width)."""

    def __init__(self, graphs, draw):
        self.draw = draw
        size = (draw(st.integers(6, 14)), draw(st.integers(6, 14)))
        channels = draw(st.integers(1, 4))
        self.net = graphs.Net(seed=draw(st.integers(0, 10_000)), image=(1, channels, *size))
        self.values = [("image", channels, *size)]

    def pick(self):
        return self.draw(st.sampled_from([self.values[-1], *reversed(self.values[-3:])]))

    def push(self, name, channels, height, width):
        self.values.append((name, channels, height, width))

    def window(self, height, width, largest=3):
        """kernel, strides, pads that leave at least one output row and column; pads below the kernel."""
        kernel = [self.draw(st.integers(1, min(largest, side))) for side in (height, width)]
        strides = [self.draw(st.integers(1, 2)) for _ in range(2)]
        pads = [self.draw(st.integers(0, k - 1)) for k in (*kernel, *kernel)]
        sizes = [
            (side + pads[a] + pads[a + 2] - kernel[a]) // strides[a] + 1 for a, side in enumerate((height, width))
        ]
        return {"kernel_shape": kernel, "strides": strides, "pads": pads}, sizes

    def conv(self):
        value, channels, height, width = self.pick()
        attributes, sizes = self.window(height, width)
        divisors = [g for g in range(1, channels + 1) if channels % g == 0]
        groups = self.draw(st.sampled_from(divisors))
        outputs = groups * self.draw(st.integers(1, 3))
        shape = (outputs, channels // groups, *attributes["kernel_shape"])
        bias = self.draw(st.booleans())
        self.push(self.net.conv(value, shape, bias=bias, group=groups, **attributes), outputs, *sizes)

    def conv_transpose(self):
        value, channels, height, width = self.pick()
        if height * width > 200:
            return
        stride = self.draw(st.integers(1, 2))
        weight = self.net.normal(channels, 2, 2, 2, scale=0.5)
        name = self.net.op("ConvTranspose", value, weight, strides=[stride, stride])
        self.push(name, 2, (height - 1) * stride + 2, (width - 1) * stride + 2)

    def affine(self):
        value, channels, height, width = self.pick()
        kind = self.draw(st.sampled_from(["BatchNormalization", "Add", "Sub", "Mul", "Div", "left Sub"]))
        shape = self.draw(st.sampled_from([(), (channels, 1, 1)]))
        constant = self.net.const(self.net.rng.uniform(0.5, 2, shape))
        if kind == "BatchNormalization":
            name = self.net.batch_norm(value, channels)
        elif kind == "left Sub":
            name = self.net.op("Sub", constant, value)
        else:
            name = self.net.op(kind, value, constant)
        self.push(name, channels, height, width)

    def activation(self):
        value, *shape = self.pick()
        net = self.net
        name = self.draw(
            st.sampled_from(
                [
                    lambda: net.op("Relu", value),
                    lambda: net.op("Clip", value, net.const(0.0), net.const(6.0)),
                    lambda: net.op("Max", value, net.const(-0.5)),
                    lambda: net.op("LeakyRelu", value, alpha=0.1),
                    lambda: net.op("PRelu", value, net.normal(shape[0], 1, 1)),
                ]
            )
        )()
        self.push(name, *shape)

    def pool(self):
        value, channels, height, width = self.pick()
        attributes, sizes = self.window(height, width)
        kind = self.draw(st.sampled_from(["MaxPool", "AveragePool"]))
        if kind == "AveragePool":
            attributes["count_include_pad"] = self.draw(st.integers(0, 1))
        self.push(self.net.op(kind, value, **attributes), channels, *sizes)

    def block(self):
        """A convolution and what usually follows it, in any order."""
        self.conv()
        for step in self.draw(st.permutations(["affine", "activation", "pool"])):
            if self.draw(st.booleans()):
                self.values = [*self.values, self.values[-1]]  # so that `pick` takes the newest more often
                getattr(self, step)()

    def fire(self):
        """Two convolutions of one value, concatenated and pooled."""
        value, channels, height, width = self.pick()
        one = self.net.op("Relu", self.net.conv(value, (2, channels, 1, 1)))
        pads = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
        three = self.net.op("Relu", self.net.conv(value, (3, channels, 3, 3), **pads))
        self.push(self.net.op("Concat", one, three, axis=1), 5, height, width)
        self.pool()

    def join(self):
        value, channels, height, width = self.pick()
        partners = [v for v in self.values if v[2:] == (height, width)]
        other = self.draw(st.sampled_from(partners))
        if other[1] == channels and self.draw(st.booleans()):
            self.push(
                self.net.op(self.draw(st.sampled_from(["Add", "Sum"])), value, other[0]), channels, height, width
            )
        elif channels + other[1] <= 16:
            self.push(self.net.op("Concat", value, other[0], axis=1), channels + other[1], height, width)

    def no_op(self):
        value, *shape = self.pick()
        self.push(self.net.op(self.draw(st.sampled_from(["Identity", "Dropout"])), value), *shape)

    def pad(self):
        value, channels, height, width = self.pick()
        top, left, bottom, right = (self.draw(st.integers(0, 1)) for _ in range(4))
        widths = self.net.ints(0, 0, top, left, 0, 0, bottom, right)
        constant = self.net.const(self.draw(st.sampled_from([0.0, 0.75])))
        self.push(self.net.op("Pad", value, widths, constant), channels, height + top + bottom, width + left + right)

    def resize(self):
        value, channels, height, width = self.pick()
        if height * width > 200:
            return
        name = self.net.op("Resize", value, "", self.net.const([1, 1, 2, 2]), mode="nearest")
        self.push(name, channels, 2 * height, 2 * width)

    def head(self):
        """A flatten and one or two fully connected layers on the newest value."""
        value, channels, height, width = self.values[-1]
        features = channels * height * width
        if self.draw(st.booleans()):
            value, features = self.net.op("ReduceMean", value, axes=[2, 3], keepdims=0), channels
        else:
            value = self.net.op("Flatten", value)
        for _ in range(self.draw(st.integers(1, 2))):
            weight = self.net.normal(features, 5, scale=1 / math.sqrt(features))
            value, features = self.net.op("MatMul", value, weight), 5
            value = self.net.op("Add", value, self.net.normal(5))
            if self.draw(st.booleans()):
                value = self.net.batch_norm(value, 5)
            value = self.net.op("Relu", value)
        return value


STEPS = ["conv", "conv", "conv", "conv_transpose", "affine", "affine", "activation", "activation", "pool", "join"]
STEPS += ["no_op", "pad", "resize", "block", "block", "block", "fire"]


@st.composite
def _networks(draw, graphs):
    grower = _Grower(graphs, draw)
    for step in draw(st.lists(st.sampled_from(STEPS), min_size=2, max_size=10)):
        getattr(grower, step)()
    outputs = [grower.head()] if draw(st.booleans()) else []
    produced = [value[0] for value in grower.values[1:]]
    if not outputs or (produced and draw(st.booleans())):
        outputs += [draw(st.sampled_from(produced))] if produced else [grower.head()]
    layers = [node.name for node in grower.net.nodes]
    hp = draw(st.lists(st.sampled_from(layers), max_size=3, unique=True))
    cpu = draw(st.lists(st.sampled_from(layers), max_size=1, unique=True))
    return _without_dead_nodes(grower.net, outputs, hp, cpu)


def _without_dead_nodes(net, outputs, hp, cpu):
    needed, kept = set(outputs), []
    for node in reversed(net.nodes):
        if needed & set(node.output):
            needed |= set(node.input)
            kept.insert(0, node)
    net.nodes = kept
    alive = {node.name for node in kept}
    return net.model(*dict.fromkeys(outputs), hp=[n for n in hp if n in alive], cpu=[n for n in cpu if n in alive])


def _assert_marks_form_chains(proto):
    """conv -> [activation] -> [pool], each read by the next alone; a marked Pad feeds its convolution."""
    producer = {name: node for node in proto.graph.node for name in node.output}
    outputs = {info.name for info in proto.graph.output}
    for node in proto.graph.node:
        start = next((e.value for e in node.metadata_props if e.key == "nnkit.fuse_into"), None)
        if start is None:
            continue
        if node.op_type == "Pad":
            assert node.output[0] == producer[start].input[0]
            continue
        assert producer[start].op_type in ("Conv", "ConvTranspose", "Add")
        value, steps = node.input[0], [node.op_type]
        while True:
            assert value not in outputs
            assert sum(list(n.input).count(value) for n in proto.graph.node) == 1
            if value == start:
                break
            steps.insert(0, producer[value].op_type)
            value = producer[value].input[0]
        assert len(steps) <= 2
        assert len(steps) == 1 or (steps[0] not in ("MaxPool", "AveragePool"))


def _assert_tags_kept(before, after):
    proto = after.proto()
    node_of = {name: node for node in proto.graph.node for name in node.output}
    for tags in before.tags.values.values():
        (layer,) = tags.origins
        for kind in ("hp", "cpu"):
            if getattr(tags, kind):
                carriers = [v for v, t in after.tags.values.items() if getattr(t, kind) and layer in t.origins]
                assert carriers, f"{kind} of {layer} is gone"
                assert all(value in node_of for value in carriers)
                if kind == "cpu":
                    marked = {e.value for n in proto.graph.node for e in n.metadata_props}
                    assert not marked & set(carriers), "something is fused into a layer tagged _cpu"
                    assert not any(node_of[value].metadata_props for value in carriers), (
                        "a layer tagged _cpu is fused"
                    )


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_random_networks(graphs, data):
    model = data.draw(_networks(graphs))
    after, log = restructure(model, resolve_rules(DEFAULT_RULES))
    graphs.assert_equal(model, after, bound=1e-4)
    _assert_tags_kept(model, after)
    _assert_marks_form_chains(after.proto())
    assert [entry.name for entry in log.entries] == list(DEFAULT_RULES)
    if not any(tags.cpu for tags in model.tags.values.values()):
        assert set(graphs.ops(after)) <= NORMAL_FORM | {"Identity", "Dropout"}  # between two outputs
        constants = {t.name for t in after.proto().graph.initializer}
        for node in after.proto().graph.node:
            if node.op_type in ("Add", "Mul"):
                assert not constants & set(node.input)


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_a_second_run_finds_nothing_to_do(graphs, data):
    model = data.draw(_networks(graphs))
    once, _ = restructure(model, resolve_rules(DEFAULT_RULES), check_inputs=[])
    twice, log = restructure(once, resolve_rules(DEFAULT_RULES), check_inputs=[])
    assert all(entry.fired == () for entry in log.entries)
    assert graphs.ops(twice) == graphs.ops(once)


def test_the_published_shape_of_a_fire_network(graphs):
    """SqueezeNet with batch norm, normalised input and a fully connected head ends as convolutions and fusions."""
    net = graphs.Net(image=(1, 1, 32, 32))
    value = net.op("Div", net.op("Sub", "image", net.const(127.5)), net.const(128.0))
    value = net.batch_norm(net.conv(value, (8, 1, 3, 3), bias=False, pads=[1] * 4, strides=[2, 2]), 8)
    value = net.op("MaxPool", net.op("Relu", value), kernel_shape=[2, 2], strides=[2, 2])
    for _ in range(2):
        squeeze = net.op("Relu", net.batch_norm(net.conv(value, (4, 8, 1, 1)), 4))
        one = net.op("Relu", net.batch_norm(net.conv(squeeze, (4, 4, 1, 1)), 4))
        three = net.op("Relu", net.batch_norm(net.conv(squeeze, (4, 4, 3, 3), pads=[1] * 4), 4))
        value = net.op("MaxPool", net.op("Concat", one, three, axis=1), kernel_shape=[2, 2], strides=[2, 2])
    value = net.op("Dropout", net.op("Flatten", value))
    value = net.op("Gemm", value, net.normal(10, 32), net.normal(10), transB=1, name="fc")
    model = net.model(net.batch_norm(value, 10))
    after, _ = restructure(model, resolve_rules(DEFAULT_RULES))
    graphs.assert_equal(model, after)
    assert sorted(set(graphs.ops(after))) == ["Concat", "Conv", "MaxPool", "Pad", "Relu", "Reshape"]
    unfused = {n.name for n in after.proto().graph.node if n.op_type in ("Relu", "MaxPool", "Pad")} - set(
        graphs.marks(after)
    )
    assert unfused == set()


@pytest.mark.parametrize("layers", [1, 3])
def test_a_network_of_fully_connected_layers(graphs, layers):
    net = graphs.Net(x=(1, 20))
    value = net.op("Div", net.op("Sub", "x", net.normal(20)), net.const(np.full(20, 2.0)))
    for _ in range(layers):
        value = net.op("Relu", net.op("Add", net.op("MatMul", value, net.normal(20, 20, scale=0.2)), net.normal(20)))
    after, _ = restructure(net.model(value), resolve_rules(DEFAULT_RULES))
    assert graphs.ops(after) == ["Reshape", *["Conv", "Relu"] * layers, "Reshape"]


def test_the_shortcut_of_a_cifar_resnet_is_one_strided_convolution(graphs):
    net = graphs.Net(x=(1, 4, 8, 8))
    trunk = net.conv("x", (8, 4, 3, 3), pads=[1] * 4, strides=[2, 2])
    shortcut = "x"
    for axis in (2, 3):
        bounds = ((0,), (2**31 - 1,), (axis,), (2,))
        shortcut = net.op("Slice", shortcut, *(net.ints(*each) for each in bounds))
    shortcut = net.op("Pad", shortcut, net.ints(0, 2, 0, 0, 0, 2, 0, 0), name="widen")
    model = net.model(net.op("Relu", net.op("Add", trunk, shortcut)))
    after, _ = restructure(model, resolve_rules(DEFAULT_RULES))
    graphs.assert_equal(model, after)
    assert sorted(graphs.ops(after)) == ["Add", "Conv", "Conv", "Relu"]
    widen = next(n for n in after.proto().graph.node if n.name == "widen")
    assert graphs.attribute(widen, "strides") == [2, 2]
