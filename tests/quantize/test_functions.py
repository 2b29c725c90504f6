"""The functions that tables hold: every one as ONNX Runtime computes the operator, and where it is least."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from nnkit.quantize.functions import Function, FunctionName

CASES: tuple[tuple[Function, dict[str, Any]], ...] = (
    (Function("Sigmoid"), {}),
    (Function("Tanh"), {}),
    (Function("HardSigmoid"), {}),
    (Function("HardSigmoid", 0.3, 0.4), {"alpha": 0.3, "beta": 0.4}),
    (Function("HardSwish"), {}),
    (Function("Gelu", 0.0), {}),
    (Function("Gelu", 1.0), {"approximate": "tanh"}),
    (Function("Erf"), {}),
    (Function("Softplus"), {}),
    (Function("Softsign"), {}),
    (Function("Mish"), {}),
    (Function("Elu", 1.0), {}),
    (Function("Elu", 0.7), {"alpha": 0.7}),
    (Function("Abs"), {}),
    (Function("Sign"), {}),
    (Function("Sqrt"), {}),
    (Function("Exp"), {}),
    (Function("Log"), {}),
    (Function("Reciprocal"), {}),
    (Function("Pow", 2.0), {}),
    (Function("Pow", 0.75), {}),
)
NAMES = [f"{function.name} {attributes or function.parameters}" for function, attributes in CASES]


def _onnx_runtime(function: Function, attributes: dict[str, Any], x: NDArray[np.float32]) -> NDArray[np.float32]:
    exponent = [numpy_helper.from_array(np.array(function.alpha, np.float32), "exponent")]
    power = function.name == "Pow"
    node = helper.make_node(function.name, ["x", "exponent"] if power else ["x"], ["y"], **attributes)
    graph = helper.make_graph(
        [node],
        "one",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, x.shape)],
        exponent if power else [],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"x": x})[0])


def test_no_function_is_left_out() -> None:
    assert {function.name for function, _ in CASES} == set(get_args(FunctionName))


@pytest.mark.parametrize(("function", "attributes"), CASES, ids=NAMES)
def test_values_are_those_of_onnx_runtime(function: Function, attributes: dict[str, Any]) -> None:
    """Up to what float32 rounds, of the values and of what they are made of, such as the 1 that Elu takes off."""
    above_zero = function.name in ("Log", "Sqrt") or (function.name == "Pow" and function.alpha != 2.0)
    x = np.linspace(0.01 if above_zero else -8.0, 8.0, 401, dtype=np.float32)
    x = x[x != 0.0]
    np.testing.assert_allclose(
        function.values(x), _onnx_runtime(function, attributes, x), rtol=2e-6, atol=0 if above_zero else 5e-7
    )


@pytest.mark.parametrize(("function", "attributes"), CASES, ids=NAMES)
def test_the_image_holds_every_value_and_no_more(function: Function, attributes: dict[str, Any]) -> None:
    """Gelu's minimum is that of its exact form, at -0.7518: by tanh it is at -0.7525, and there 1.8e-7 lower."""
    above_zero = function.name in ("Log", "Sqrt", "Reciprocal", "Pow")
    for low, high in ((0.5, 3.0), (1.0, 1.5)) if above_zero else ((-6.0, 3.0), (-0.5, 2.0), (-5.0, -2.0)):
        values = function.values(np.linspace(low, high, 90_001))
        least, most = function.image(low, high)
        assert least <= values.min() + (2e-7 if attributes == {"approximate": "tanh"} else 1e-9)
        assert most >= values.max() - 1e-9
        assert (least, most) == pytest.approx((values.min(), values.max()), abs=1e-6)
