"""warp_before_affine: the normalisation behind the warp gives the same numbers, at the border too."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper
from stn_network import run_in_parts

from nnkit.custom_ops import Normalize, WarpPerspective, infer_shapes
from nnkit.graph import InputSpec, LayerTags, Model, OutputSpec
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.rewrite import resolve_steps, restructure_steps
from nnkit.rewrite.stn_split import split_stn


def network(graphs, mean=127.5, scale=1 / 128, localised=True, **warp):
    """image -> (image - mean) * scale -> localisation and warp -> conv."""
    net = graphs.Net(image=(1, 3, 16, 16))
    centred = net.op("Sub", "image", net.const(np.reshape(mean, (1, -1, 1, 1))), name="centre")
    x = net.op("Mul", centred, net.const(np.reshape(scale, (1, -1, 1, 1))), name="scale")
    flat = net.op("Flatten", net.op("AveragePool", x if localised else "image", kernel_shape=[16, 16]))
    near = np.array([1.1, 0.1, -1.0, -0.1, 1.2, 2.0, 0.001, 0.002, 1.0])
    matrix = net.op("Gemm", net.op("Tanh", flat), net.normal(3, 9, scale=1e-3), net.const(near), name="loc")
    op = WarpPerspective(out_h=12, out_w=12, **warp)
    net.nodes.append(op.node([x, matrix], ["warp_v"], "warp"))
    net.nodes.append(helper.make_node("Conv", ["warp_v", net.normal(5, 3, 12, 12)], ["y"], name="conv"))
    return finished(net, "y")


def finished(net, output):
    """As `Net.model`, with operators of `ai.nnkit`."""
    given = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, shape) for n, shape in net.inputs.items()]
    result = [helper.make_tensor_value_info(output, onnx.TensorProto.FLOAT, None)]
    graph = helper.make_graph(net.nodes, "net", given, result, net.constants)
    opsets = [helper.make_opsetid("", net.opset), helper.make_opsetid("ai.nnkit", 1)]
    proto = infer_shapes(helper.make_model(graph, opset_imports=opsets, ir_version=10), strict=True)
    shape = tuple(d.dim_value for d in proto.graph.output[0].type.tensor_type.shape.dim)
    inputs = tuple(InputSpec(name, shape) for name, shape in net.inputs.items())
    return Model(proto.SerializeToString(), LayerTags(), inputs, (OutputSpec(output, shape),), net.opset)


WARPS = [
    {"border": "constant"},
    {"border": "constant", "border_value": 0.75},
    {"border": "replicate"},
    {"border": "constant", "interpolation": "nearest"},
    {"border": "constant", "direction": "forward"},
]


def image(seed):
    return {"image": np.random.default_rng(seed).uniform(0, 255, (1, 3, 16, 16)).astype(np.float32)}


@pytest.mark.parametrize("warp", WARPS, ids=str)
@pytest.mark.parametrize("localised", [True, False])
def test_the_same_numbers(graphs, warp, localised):
    model = network(graphs, localised=localised, **warp)
    done = restructure_steps(model, resolve_steps(["warp_before_affine"]))
    assert len(done.log.of("warp_before_affine").fired) == 2  # the product, then the difference
    warped = next(node for node in done.model.proto().graph.node if node.op_type == "WarpPerspective")
    assert (warped.name, warped.input[0]) == ("warp", "image")
    for seed in range(3):
        wanted, found = (FloatSession(m, ["warp_v"]).run(image(seed))["warp_v"] for m in (model, done.model))
        np.testing.assert_allclose(found, wanted, rtol=0, atol=2e-5 * np.abs(wanted).max())


def test_other_operators_behind_a_normalisation_stay(graphs):
    """Another one of nnkit's own domain."""
    net = graphs.Net(image=(1, 3, 6, 6))
    scaled = net.op("Mul", "image", net.const(2.0), name="scale")
    net.nodes.append(Normalize().node([scaled], ["y"], "norm"))
    model = finished(net, "y")
    done = restructure_steps(model, resolve_steps(["warp_before_affine"]))
    entry = done.log.of("warp_before_affine")
    assert (entry.fired, entry.declined) == ((), ())
    assert [node.op_type for node in done.model.proto().graph.node] == ["Mul", "Normalize"]


def test_a_constant_border_must_stand_for_one_value_in_all_channels(graphs):
    means = [104.0, 117.0, 123.0]
    done = restructure_steps(network(graphs, mean=means), resolve_steps(["warp_before_affine"]))
    entry = done.log.of("warp_before_affine")
    assert len(entry.fired) == 1  # the factor, which is the same for all
    assert [d.reason for d in entry.declined] == [
        "the border stands for a different input value in each channel; a warp has one border value only"
    ]
    done = restructure_steps(network(graphs, mean=means, border="replicate"), resolve_steps(["warp_before_affine"]))
    assert len(done.log.of("warp_before_affine").fired) == 2


def test_the_network_can_then_be_split(graphs):
    model = network(graphs)
    rules = ["warp_before_affine", "fold_input_normalization", "fold_scale", "add_constant_to_bias"]
    done = restructure_steps(model, resolve_steps(rules))
    split = split_stn(done.model)
    assert split.image == "image"
    assert [node.op_type for node in split.net.proto().graph.node] == ["Conv"]
    wanted = FloatSession(model).run(image(1))["y"]
    np.testing.assert_allclose(run_in_parts(split, image(1))["y"], wanted, rtol=0, atol=1e-4 * np.abs(wanted).max())
