"""Segments: maximal runs of one placement in execution order, and all unsupported ops in one message."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from nnkit.errors import ExitCode, ModelError
from nnkit.graph import InputSpec, LayerTags, Model, OutputSpec, ValueTags
from nnkit.partition import Segment, partition

SHAPE = (1, 2, 4, 4)


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
    assert partition(chain(["Relu"] * 3)) == (Segment("npu", ("l0", "l1", "l2")),)


def test_a_tag_cuts() -> None:
    assert partition(chain(["Relu"] * 5, cpu=[2, 3])) == (
        Segment("npu", ("l0", "l1")),
        Segment("cpu", ("l2", "l3")),
        Segment("npu", ("l4",)),
    )


@settings(max_examples=40)
@given(st.lists(st.booleans(), min_size=1, max_size=12))
def test_runs_are_maximal_and_in_order(cpu: list[bool]) -> None:
    segments = partition(chain(["Relu"] * len(cpu), cpu=[i for i, tagged in enumerate(cpu) if tagged]))
    flat = [(segment.placement, layer) for segment in segments for layer in segment.layers]
    assert flat == [("cpu" if tagged else "npu", f"l{i}") for i, tagged in enumerate(cpu)]
    assert all(a.placement != b.placement for a, b in itertools.pairwise(segments))


def test_every_unsupported_op_is_in_one_message_with_its_node() -> None:
    with pytest.raises(ModelError) as caught:
        partition(chain(["Sigmoid", "Relu", "Tanh", "Sigmoid"]))
    assert caught.value.exit_code == ExitCode.MODEL
    lines = caught.value.reason.splitlines()
    assert lines[0] == "3 layers cannot be deployed:"
    assert [line.split()[0] for line in lines[1:]] == ["l0", "l2", "l3"]
    assert ["Sigmoid" in line or "Tanh" in line for line in lines[1:]] == [True] * 3
