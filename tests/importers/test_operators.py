"""Unsupported layers are all listed, with their names and reasons."""

from __future__ import annotations

from typing import Any

import onnx
import pytest
from onnx import helper

from nnkit.errors import ModelError
from nnkit.importers import import_onnx, raise_unsupported, unsupported


def _square_only(node: onnx.NodeProto) -> str | None:
    kernel = next(list(a.ints) for a in node.attribute if a.name == "kernel_shape")
    return None if kernel[0] == kernel[1] else f"kernel {kernel} is not square"


@pytest.fixture
def model(make_model: Any, save: Any) -> Any:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="first"),
        helper.make_node("MaxPool", ["a"], ["b"], name="wide", kernel_shape=[1, 2]),
        helper.make_node("Erf", ["b"], ["c"], name="bell"),
        helper.make_node("MaxPool", ["c"], ["d"], name="square", kernel_shape=[2, 2]),
        helper.make_node("Sin", ["d"], ["y"], name="wave"),
    ]
    return import_onnx(save(make_model(nodes)), simplify=False).model


def test_all_unsupported_are_found_in_order(model: Any) -> None:
    found = unsupported(model, {"Relu": None, "MaxPool": _square_only})
    assert found == [
        ("wide", "MaxPool", "kernel [1, 2] is not square"),
        ("bell", "Erf", "the operator is not supported"),
        ("wave", "Sin", "the operator is not supported"),
    ]
    with pytest.raises(ModelError) as caught:
        raise_unsupported(found, where="net.onnx", remedy="use other layers")
    for layer, op, reason in found:
        assert f"layer '{layer}' ({op}): {reason}" in caught.value.reason
    assert "(3)" in caught.value.reason
    assert (caught.value.where, caught.value.remedy) == ("net.onnx", "use other layers")


def test_one_check_for_all(model: Any) -> None:
    found = unsupported(model, lambda node: "a curve" if node.op_type in ("Erf", "Sin") else None)
    assert [layer for layer, _, _ in found] == ["bell", "wave"]


def test_nothing_unsupported_raises_nothing(model: Any) -> None:
    assert raise_unsupported(unsupported(model, lambda node: None), where="net.onnx") is None
