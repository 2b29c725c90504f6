"""Segments: maximal runs of one placement in execution order, and all unsupported ops in one message."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from nnkit.errors import ExitCode, ModelError
from nnkit.graph import InputSpec, LayerTags, Model, OutputSpec, ValueTags
from nnkit.quantize.float_program import FloatConv2d
from nnkit.quantize.lowered import LoweredLayers
from nnkit.target import Segment
from tests.quantize.affine.test_affine_balance import residual

SHAPE = (1, 2, 4, 4)


def segments(model: Model) -> tuple[Segment, ...]:
    return LoweredLayers.of(model).segments


def chain(ops: Sequence[str], cpu: Sequence[int] = ()) -> Model:
    """x -> op0 -> op1 ...; layers named l0, l1, ...; `cpu` lists the tagged ones."""
    nodes = [helper.make_node(op, [f"v{i}" if i else "x"], [f"v{i + 1}"], name=f"l{i}") for i, op in enumerate(ops)]
    out = f"v{len(ops)}"
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info(out, TensorProto.FLOAT, SHAPE)],
    )
    proto = onnx.shape_inference.infer_shapes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    )
    tags = LayerTags({f"v{i + 1}": ValueTags(cpu=True, origins=(f"l{i}",)) for i in cpu})
    return Model(proto.SerializeToString(), tags, (InputSpec("x", SHAPE),), (OutputSpec(out, SHAPE),), 17)


def test_untagged_layers_are_one_segment() -> None:
    assert segments(chain(["Relu"] * 3)) == (Segment("npu", ("l0", "l1", "l2")),)


def test_a_tag_cuts() -> None:
    assert segments(chain(["Relu"] * 5, cpu=[2, 3])) == (
        Segment("npu", ("l0", "l1")),
        Segment("cpu", ("l2", "l3")),
        Segment("npu", ("l4",)),
    )


@settings(max_examples=40)
@given(st.lists(st.booleans(), min_size=1, max_size=12))
def test_runs_are_maximal_and_in_order(cpu: list[bool]) -> None:
    found = segments(chain(["Relu"] * len(cpu), cpu=[i for i, tagged in enumerate(cpu) if tagged]))
    flat = [(segment.placement, layer) for segment in found for layer in segment.layers]
    assert flat == [("cpu" if tagged else "npu", f"l{i}") for i, tagged in enumerate(cpu)]
    assert all(a.placement != b.placement for a, b in itertools.pairwise(found))


def test_every_unsupported_op_is_in_one_message_with_its_node() -> None:
    with pytest.raises(ModelError) as caught:
        segments(chain(["Sin", "Relu", "Cos", "Sin"]))
    assert caught.value.exit_code == ExitCode.MODEL
    lines = caught.value.reason.splitlines()
    assert lines[0] == "3 layers cannot be deployed (2 Sin, 1 Cos):"
    assert [line.split(" (")[0].strip() for line in lines[1:]] == ["l0, l3", "l2"]
    assert ["Sin" in lines[1], "Cos" in lines[2]] == [True] * 2


def test_changed_convolutions_are_those_of_the_changed_model() -> None:
    """The structure is not read again: what is known of it is what reading the model anew would give."""
    network = LoweredLayers.of(residual())
    factor = 1.0 / 3.0
    convolutions = [op for op in network.layers.ops if isinstance(op, FloatConv2d)]
    changed = {op.name: replace(op, weight=op.weight * factor, bias=op.bias + factor) for op in convolutions[::2]}
    made = network.with_convolutions(changed, "third")
    assert (made.segments, made.layers.shapes) == (network.segments, network.layers.shapes)
    again = LoweredLayers.of(made.model).layers
    scaled = 0
    for op, same in zip(made.layers.ops, again.ops, strict=True):
        assert (op.name, op.output, op.inputs) == (same.name, same.output, same.inputs)
        if isinstance(op, FloatConv2d):
            assert isinstance(same, FloatConv2d)
            np.testing.assert_array_equal(op.weight, same.weight)
            np.testing.assert_array_equal(op.bias, same.bias)
            scaled += op.name in changed
    assert scaled == len(changed) > 1


def test_layers_in_16_bits_are_those_of_the_tagged_model() -> None:
    network = LoweredLayers.of(residual())
    chosen = [op.output for op in network.layers.ops][::2]
    made = network.with_sixteen_bits(chosen)
    assert [op.output for op in made.layers.ops if op.tags.hp] == chosen
    again = LoweredLayers.of(made.model).layers
    assert [op.output for op in again.ops if op.tags.hp] == chosen
    assert not any(op.tags.hp for op in network.layers.ops)
