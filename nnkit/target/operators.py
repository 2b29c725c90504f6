"""Which operators of ONNX a target takes: found by restructuring and lowering networks of one operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from nnkit.errors import ModelError
from nnkit.graph import InputSpec, LayerTags, Model, OutputSpec
from nnkit.importers.canonical import canonicalise

if TYPE_CHECKING:
    from nnkit.recipe import TargetOptionsBase
    from nnkit.target.loading import AnyTarget


@dataclass(frozen=True)
class Case:
    """inputs: "x" and "y" are computed [1, 4, 6, 6]; anything else is a constant. shape: x and y reshaped to it.

    order: the axes of the result as the network gives it, where the operator does not put images first.
    """

    inputs: Sequence[Any] = ("x",)
    attributes: Mapping[str, Any] = field(default_factory=dict)
    shape: tuple[int, ...] = (1, 4, 6, 6)
    order: tuple[int, ...] = ()


def _ints(*values: int) -> Any:
    return np.array(values, np.int64)


def _floats(*shape: int) -> Any:
    return np.random.default_rng(1).normal(0.5, 0.2, shape).astype(np.float32)


_TWO = Case(("x", "y"))
_ROWS = (6, 1, 24)
_ROWS_ORDER = (2, 0, 1, 3)
CASES: Mapping[str, Case] = MappingProxyType(
    {
        **dict.fromkeys(("Add", "Sub", "Mul", "Div", "Max", "Min"), _TWO),
        **{name: Case() for name in ("Abs", "Elu", "Erf", "Exp", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu")},
        **{
            name: Case()
            for name in ("Log", "Mish", "Neg", "Reciprocal", "Relu", "Sigmoid", "Sign", "Softplus", "Softsign")
        },
        **{name: Case() for name in ("Sqrt", "Tanh", "GlobalAveragePool", "GlobalMaxPool", "Flatten")},
        "Transpose": Case(attributes={"perm": [0, 2, 3, 1]}),
        "Clip": Case(("x", np.float32(-0.5), np.float32(0.5))),
        "PRelu": Case(("x", _floats(4, 1, 1))),
        "Pow": Case(("x", np.float32(2))),
        "Conv": Case(("x", _floats(4, 4, 3, 3)), {"pads": [1] * 4}),
        "Conv (1-D)": Case(("x", _floats(4, 4, 3)), {"pads": [1, 1]}, (1, 4, 36)),
        "ConvTranspose": Case(("x", _floats(4, 4, 2, 2)), {"strides": [2, 2]}),
        "MaxPool": Case(attributes={"kernel_shape": [2, 2], "strides": [2, 2]}),
        "AveragePool": Case(attributes={"kernel_shape": [2, 2], "strides": [2, 2]}),
        "BatchNormalization": Case(("x", *(abs(_floats(4)) for _ in range(4)))),
        "InstanceNormalization": Case(("x", _floats(4), _floats(4))),
        "LayerNormalization": Case(("x", _floats(6), _floats(6)), {"axis": -1}),
        "LRN": Case(attributes={"size": 3}),
        "Softmax": Case(attributes={"axis": -1}),
        "LogSoftmax": Case(attributes={"axis": -1}),
        "Gemm": Case(("x", _floats(144, 8), _floats(8)), {}, (1, 144)),
        "MatMul (constant)": Case(("x", _floats(6, 8)), {}, (1, 24, 6)),
        "MatMul (computed)": Case(("x", "y")),
        "Concat": Case(("x", "y"), {"axis": 1}),
        "Concat (another axis)": Case(("x", "y"), {"axis": 3}),
        "Split": Case(attributes={"axis": 1, "num_outputs": 2}),
        "Slice": Case(("x", _ints(1), _ints(5), _ints(3), _ints(2))),
        "Gather (constant)": Case(("x", _ints(0, 2)), {"axis": 1}),
        "Gather (uneven)": Case(("x", _ints(2, 0, 0)), {"axis": 2}),
        "Reshape": Case(("x", _ints(1, 6, 24))),
        "Squeeze": Case(("x", _ints(1)), {}, (1, 1, 144)),
        "Unsqueeze": Case(("x", _ints(1))),
        "DepthToSpace": Case(attributes={"blocksize": 2}),
        "SpaceToDepth": Case(attributes={"blocksize": 2}),
        "Resize (nearest)": Case(("x", "", np.array([1, 1, 2, 2], np.float32)), {"mode": "nearest"}),
        "Resize (linear)": Case(("x", "", np.array([1, 1, 2, 2], np.float32)), {"mode": "linear"}),
        "Resize (cubic)": Case(("x", "", np.array([1, 1, 2, 2], np.float32)), {"mode": "cubic"}),
        "Pad (constant)": Case(("x", _ints(0, 0, 1, 1, 0, 0, 1, 1))),
        "Pad (reflect)": Case(("x", _ints(0, 0, 1, 1, 0, 0, 1, 1)), {"mode": "reflect"}),
        "Expand": Case(("x", _ints(1, 4, 36, 3)), {}, (1, 4, 36, 1)),
        **{name: Case(("x", _ints(2, 3))) for name in ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceL2")},
        "ReduceMin": Case(("x", _ints(2, 3))),
        "GRU": Case(
            ("x", _floats(1, 12, 24), _floats(1, 12, 4), _floats(1, 24)),
            {"hidden_size": 4, "linear_before_reset": 1},
            _ROWS,
            _ROWS_ORDER,
        ),
        "LSTM": Case(
            ("x", _floats(1, 16, 24), _floats(1, 16, 4), _floats(1, 32)), {"hidden_size": 4}, _ROWS, _ROWS_ORDER
        ),
    }
)
"""By operator, with what tells two uses of it apart in parentheses."""
_OPSET = 20
_RESULTS = MappingProxyType({"Split": 2})


@dataclass(frozen=True)
class Taken:
    """What a target says to an operator. on: `yes`, `CPU` (a segment that its CPU runs), `float` (it stays in float
    between integers), or empty with the reason."""

    operator: str
    on: str
    reason: str = ""


def operators_taken(target: AnyTarget, options: TargetOptionsBase) -> tuple[Taken, ...]:
    """An entry for each of `CASES` by name: a 1x1 convolution and the operator behind it."""
    return tuple(taken(name, target, options) for name in sorted(CASES))


def taken(name: str, target: AnyTarget, options: TargetOptionsBase) -> Taken:
    """What the target says to the case of that name."""
    from nnkit import rewrite
    from nnkit.quantize.float_program import FloatOnnx
    from nnkit.quantize.lowered import LoweredLayers

    rules = list(target.default_rules)
    rules += [rule for rule in target.legalisation(options) if rule not in rules]
    try:
        restructured, log = rewrite.restructure(_model(name), rewrite.resolve_rules(rules))
        lowered = target.lower(restructured, log, options)
    except ModelError as error:
        return Taken(name, "", _first_reason(error))
    if isinstance(lowered, LoweredLayers) and any(isinstance(op, FloatOnnx) for op in lowered.layers.ops):
        return Taken(name, "float")
    sides = [segment.placement for segment in lowered.segments if segment.layers]
    return Taken(name, "CPU" if "cpu" in sides and set(sides) != {"cpu"} else "yes")


def _first_reason(error: ModelError) -> str:
    """The reason given for the first layer that is refused, or the error's own."""
    lines = error.reason.split("\n")
    return " ".join(lines[1].split()).partition("): ")[2] or lines[0] if len(lines) > 1 else lines[0]


def _model(name: str) -> Model:
    """The case's network as an imported one."""
    proto = onnx.shape_inference.infer_shapes(network(name), strict_mode=True, data_prop=True)
    canonicalise(proto.graph, _OPSET, [node.name for node in proto.graph.node])
    proto = onnx.shape_inference.infer_shapes(proto, strict_mode=True, data_prop=True)

    def shape(value: onnx.ValueInfoProto) -> tuple[int, ...]:
        return tuple(each.dim_value for each in value.type.tensor_type.shape.dim)

    return Model(
        proto.SerializeToString(deterministic=True),
        LayerTags(),
        tuple(InputSpec(value.name, shape(value)) for value in proto.graph.input),
        tuple(OutputSpec(value.name, shape(value)) for value in proto.graph.output),
        _OPSET,
    )


def network(name: str) -> onnx.ModelProto:
    """A convolution for each computed input, brought to the case's shape, and the operator behind."""
    case = CASES[name]
    constants = [numpy_helper.from_array(_floats(4, 2, 1, 1), "w")]
    nodes, inputs = [], []
    for index, given in enumerate(case.inputs):
        if isinstance(given, str) and given:
            nodes.append(helper.make_node("Conv", ["input", "w"], [f"{given}_conv"], name=f"{given}_conv"))
            if case.shape == (1, 4, 6, 6):
                inputs.append(f"{given}_conv")
                continue
            constants.append(numpy_helper.from_array(np.array(case.shape, np.int64), f"{given}_shape"))
            nodes.append(helper.make_node("Reshape", [f"{given}_conv", f"{given}_shape"], [given], name=given))
            inputs.append(given)
        elif isinstance(given, str):
            inputs.append("")
        else:
            constants.append(numpy_helper.from_array(given, f"c{index}"))
            inputs.append(f"c{index}")
    results = [f"out{index}" for index in range(_RESULTS.get(name, 1))]
    nodes.append(helper.make_node(name.split(" (")[0], inputs, results, name="op", **case.attributes))
    if case.order:
        nodes.append(helper.make_node("Transpose", results, ["ordered"], name="order", perm=case.order))
        results = ["ordered"]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, (1, 2, 6, 6))],
        [helper.make_tensor_value_info(result, TensorProto.FLOAT, None) for result in results],
        constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=9)
