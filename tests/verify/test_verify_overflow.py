"""Infinities of a 16-bit format: named with layer and format, no agreement; the network's own are none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from nnkit.errors import ModelError
from nnkit.program import Float, Program, Tensor
from nnkit.target import RunResult
from nnkit.verify.artifact import compare_artifact
from nnkit.verify.overflow import refuse_overflow
from tests.verify.test_verify_float_vs_program import SHAPE, program

INFINITE = np.array([1.0, np.inf, 2.0, 3.0], np.float16).reshape(SHAPE[1:])
FINITE = np.array([1.0, 70000.0, 2.0, 3.0], np.float32).reshape(SHAPE)


def half() -> Program:
    """y = relu(x), both in float16."""
    return replace(
        program(), tensors={name: Tensor(name, SHAPE[1:], Float(16), 0, 0) for name in ("x", "y")}, numerics="half"
    )


def test_a_value_that_the_float_network_has_and_float16_has_not() -> None:
    with pytest.raises(ModelError) as caught:
        refuse_overflow(half(), {"y": INFINITE}, {"y": FINITE}, "face.png")
    assert caught.value.where == "face.png"
    assert "layer 'act'" in caught.value.reason
    assert "float16" in caught.value.reason
    assert "65,504" in caught.value.reason
    assert "70,000" in caught.value.reason
    refuse_overflow(half(), {"y": np.nan_to_num(INFINITE)}, {"y": FINITE})


def test_a_divisor_that_is_rounded_to_0_is_no_overflow_and_names_the_layers_that_round() -> None:
    """y = x / d, d = s + 1e-5, s = sqrt(v): s and with it d are 0 in one channel of two, v is not."""
    chain = (("root", ("v",), "s"), ("epsilon", ("s",), "d"), ("divide", ("x", "d"), "y"))
    layers = (SimpleNamespace(name=name, kind="cpu", inputs=inputs, output=output) for name, inputs, output in chain)
    divided = replace(
        half(),
        ops=cast(Any, tuple(layers)),
        tensors={name: Tensor(name, (2, 1, 1), Float(16), 0, 0) for name in "xvsdy"},
    )
    channels = {"v": [4.0, 0.25], "s": [2.0, 0.0], "d": [2.0, 0.0], "x": [1.0, 3.0], "y": [0.5, np.inf]}
    stored = {name: np.array(values, np.float16).reshape(2, 1, 1) for name, values in channels.items()}
    floats = {name: np.ones((1, 2, 1, 1), np.float32) for name in channels}
    with pytest.raises(ModelError) as caught:
        refuse_overflow(divided, stored, floats)
    assert "layer 'divide' (cpu) gives no finite number where 'epsilon' is rounded to 0" in caught.value.reason
    assert "tags: {cpu: [root, epsilon]}" in str(caught.value.remedy)
    stored["s"], stored["d"] = np.full((2, 1, 1), 2.0, np.float16), np.full((2, 1, 1), 2.0, np.float16)
    with pytest.raises(ModelError, match="65,504"):
        refuse_overflow(divided, stored, floats)


def test_an_infinity_of_the_network_itself_is_none_of_the_format() -> None:
    refuse_overflow(half(), {"y": INFINITE}, {"y": INFINITE})


class _Same:
    """Gives what it is told."""

    name, emulated, contract = "same", False, "bounded"

    def __init__(self, values: NDArray[Any]) -> None:
        self.values = values

    def missing(self) -> str | None:
        return None

    def bound(self, program: Program, tensor: str) -> float:
        return 0.1

    def run(
        self, artifact: Path, program: Program, inputs: Sequence[Mapping[str, NDArray[Any]]], *, trace: bool
    ) -> list[RunResult]:
        return [RunResult({"y": self.values}) for _ in inputs]


def test_equal_infinities_of_an_artifact_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="layer 'act'"):
        compare_artifact(_Same(INFINITE), tmp_path, half(), [{"x": INFINITE}], outputs=[{"y": INFINITE}])
