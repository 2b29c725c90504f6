"""Rewrites around operators of `ai.nnkit`: their values are compared like any other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import helper
from random_network_inputs import random_inputs

from nnkit.custom_ops import Custom, Normalize, infer_shapes
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.rewrite import resolve_steps, restructure, restructure_steps
from nnkit.rewrite.rules.norm_from_concat import make


def with_node(model, node, output):
    """`model` with one more layer of `ai.nnkit` at its end, whose value is the output."""
    proto = model.proto()
    proto.graph.node.append(node)
    del proto.graph.output[:]
    proto.graph.output.add(name=output).type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    proto.opset_import.append(helper.make_opsetid("ai.nnkit", 1))
    proto = infer_shapes(proto, strict=True)
    dims = tuple(d.dim_value for d in proto.graph.output[0].type.tensor_type.shape.dim)
    spec = replace(model.outputs[0], name=output, shape=dims)
    return replace(model, onnx_bytes=proto.SerializeToString(), outputs=(spec,))


@pytest.fixture
def normalised(graphs):
    def build(height, eps=1.0, across=True, scale=None, shared=True):
        net = graphs.Net(image=(1, 3, 6, 6))
        value = net.batch_norm(net.conv("image", (8, 3, 7 - height, 7 - height), name="conv"), 8, name="bn")
        inputs = [value] + ([net.const(scale)] if scale is not None else [])
        node = Normalize(across_spatial=across, channel_shared=shared, eps=eps).node(inputs, ["y"], "norm")
        return with_node(net.model(value), node, "y")

    return build


@pytest.mark.parametrize(("eps", "scale"), [(1.0, None), (1e-10, None), (0.25, [3.0])])
@pytest.mark.parametrize("height", [1, 2])
def test_caffes_normalize_is_rebuilt(normalised, eps, scale, height):
    model = normalised(height, eps, scale=scale)
    after, log = restructure(model, [make("mean")])
    assert len(log.of("norm_from_concat").fired) == 1
    assert not any(node.domain for node in after.proto().graph.node)
    sample = random_inputs(model, 5)
    wanted, found = FloatSession(model).run(sample)["y"], FloatSession(after).run(sample)["y"]
    np.testing.assert_allclose(found, wanted, rtol=0, atol=2e-6 * np.abs(wanted).max())


def test_normalize_that_is_no_feature_norm_stays(normalised):
    for model, reason in [
        (normalised(2, across=False), "each position"),
        (normalised(1, scale=np.arange(1.0, 9.0), shared=False), "not one positive number"),
    ]:
        _, log = restructure(model, [make()])
        (declined,) = log.of("norm_from_concat").declined
        assert reason in declined.reason


def test_other_rules_work_beside_it(normalised):
    model = normalised(2, across=False)
    done = restructure_steps(model, resolve_steps(["fold_batch_norm"]))
    assert done.log.of("fold_batch_norm").max_error > 0
    sample = random_inputs(model, 5)
    wanted = FloatSession(model).run(sample)["y"]
    np.testing.assert_allclose(FloatSession(done.model).run(sample)["y"], wanted, rtol=0, atol=1e-5)


def test_a_layer_that_cannot_be_run_ends_the_comparison(graphs):
    net = graphs.Net(image=(1, 3, 6, 6))
    value = net.batch_norm(net.conv("image", (8, 3, 3, 3), name="conv"), 8, name="bn")
    node = Custom.of([(1, 2, 3)], caffe_type="Mystery").node([value], ["y"], "mystery")
    model = with_node(net.model(value), node, "y")
    done = restructure_steps(model, resolve_steps(["fold_batch_norm"]))
    assert done.log.of("fold_batch_norm").fired
    assert done.log.of("fold_batch_norm").max_error > 0
