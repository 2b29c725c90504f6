"""Which operators may stay in float between integers, and what they compute there."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from nnkit.graph.refusal import Refused
from nnkit.graph.view import GraphView
from nnkit.quantize.float_fallback import kept_in_float

from .conftest import make_model


def _view(nodes: list[onnx.NodeProto], shape: tuple[int, ...], **constants: Any) -> GraphView:
    return GraphView.of(make_model(nodes, {k: np.asarray(v) for k, v in constants.items()}, {"x": shape}, ["y"]))


def test_it_computes_what_the_operator_computes_with_its_constants() -> None:
    view = _view([helper.make_node("CumSum", ["x", "axis"], ["y"], name="sums")], (1, 3, 4), axis=np.int64(2))
    op = kept_in_float(view, view.nodes[0])
    assert (op.name, op.operator, op.inputs, op.output) == ("sums", "CumSum", ("x",), "y")
    x = np.random.default_rng(1).normal(0, 1, (1, 3, 4)).astype(np.float32)
    (y,) = onnxruntime.InferenceSession(op.model).run(None, {"x": x})
    np.testing.assert_allclose(y, np.cumsum(x, axis=2), rtol=1e-6)


SIN = [helper.make_node("Sin", ["x"], ["y"])]
TURNED = [helper.make_node("Transpose", ["x"], ["y"], perm=[1, 0])]
WHOLE = [
    helper.make_node("Cast", ["x"], ["whole"], to=TensorProto.INT64),
    helper.make_node("Cast", ["whole"], ["y"], to=TensorProto.FLOAT),
]


@pytest.mark.parametrize(
    ("nodes", "shape", "value"),
    [
        (SIN, (2, 3), "x"),  # a batch of several
        (SIN, (1,), "x"),  # nothing but a batch
        (TURNED, (1, 3), "y"),  # the batch is not the first axis
        (WHOLE, (1, 3), "whole"),  # no float32 numbers
    ],
)
def test_values_that_do_not_go_between_integers(
    nodes: list[onnx.NodeProto], shape: tuple[int, ...], value: str
) -> None:
    view = _view(nodes, shape)
    with pytest.raises(Refused, match=f"'{value}' is no value of a batch of one float32 input"):
        kept_in_float(view, view.nodes[0])


def test_several_results() -> None:
    view = _view([helper.make_node("Split", ["x"], ["y", "z"], axis=1)], (1, 4))
    with pytest.raises(Refused, match="no single operator"):
        kept_in_float(view, view.nodes[0])
