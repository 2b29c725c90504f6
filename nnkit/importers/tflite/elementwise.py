"""Operators on single elements, of one value or two, and what changes the form in which a value is stored."""

from __future__ import annotations

import numpy as np

from nnkit.graph.refusal import Refused
from nnkit.importers.tflite.builder import Builder, Order, computed
from nnkit.importers.tflite.network import TfliteOperator

OF_TWO = {
    "ADD": "Add",
    "SUB": "Sub",
    "MUL": "Mul",
    "DIV": "Div",
    "MAXIMUM": "Max",
    "MINIMUM": "Min",
    "POW": "Pow",
}
OF_ONE = {
    "RELU": "Relu",
    "LOGISTIC": "Sigmoid",
    "TANH": "Tanh",
    "HARD_SWISH": "HardSwish",
    "ELU": "Elu",
    "EXP": "Exp",
    "LOG": "Log",
    "SQRT": "Sqrt",
    "ABS": "Abs",
    "NEG": "Neg",
}
_LEAST_LENGTH = 1e-6  # of LiteRT's kernel
_CLIPS = {"RELU6": (0.0, 6.0), "RELU_N1_TO_1": (-1.0, 1.0), "RELU_0_TO_1": (0.0, 1.0)}


def of_two(build: Builder, operator: TfliteOperator) -> None:
    """Two values, broadcast as numpy does."""
    pair = [computed(build, operator, position) for position in (0, 1)]
    result = operator.outputs[0]
    order = _order(build, pair, len(build.tensor(result).shape))
    build.make(
        result,
        OF_TWO[operator.kind],
        [_operand(build, index, order) for index in pair],
        order,
        operator.option("FusedActivationFunction"),
    )


def squared_difference(build: Builder, operator: TfliteOperator) -> None:
    """SQUARED_DIFFERENCE, as a difference times itself."""
    pair = [computed(build, operator, position) for position in (0, 1)]
    result = operator.outputs[0]
    order = _order(build, pair, len(build.tensor(result).shape))
    inputs = [_operand(build, index, order) for index in pair]
    difference = build.step("Sub", inputs, f"{build.tensor(result).name}.difference")
    build.make(result, "Mul", [difference, difference], order)


def _order(build: Builder, pair: list[int], rank: int) -> Order:
    computed_ones = [index for index in pair if build.tensor(index).values is None]
    if rank != 4 or any(len(build.tensor(index).shape) not in (0, 4) for index in computed_ones):
        return "last"
    return "first" if any(build.order_of(index) == "first" for index in computed_ones) else "last"


def _operand(build: Builder, index: int, order: Order) -> str:
    """A constant of fewer dimensions is brought to four where the channels stand first."""
    tensor = build.tensor(index)
    if order == "first" and tensor.values is not None and 0 < len(tensor.shape) < 4:
        shape = (1,) * (4 - len(tensor.shape)) + tensor.shape
        return build.constant(index, lambda values: values.reshape(shape).transpose(0, 3, 1, 2))
    return build.read(index, order)


def of_one(build: Builder, operator: TfliteOperator) -> None:
    """A function of each element."""
    x = computed(build, operator, 0)
    order = build.order_of(x)
    build.make(operator.outputs[0], OF_ONE[operator.kind], [build.read(x, order)], order)


def clip(build: Builder, operator: TfliteOperator) -> None:
    """RELU6 and its like."""
    x, result = computed(build, operator, 0), operator.outputs[0]
    order, name = build.order_of(x), build.tensor(result).name
    build.clip(build.read(x, order), name, *_CLIPS[operator.kind])
    build.made(result, name, order)


def leaky_relu(build: Builder, operator: TfliteOperator) -> None:
    """LEAKY_RELU."""
    x = computed(build, operator, 0)
    order = build.order_of(x)
    build.make(operator.outputs[0], "LeakyRelu", [build.read(x, order)], order, alpha=float(operator.option("Alpha")))


def prelu(build: Builder, operator: TfliteOperator) -> None:
    """PRELU: a slope for each channel, or each element."""
    x, slope = computed(build, operator, 0), computed(build, operator, 1)
    order = build.order_of(x)
    if build.tensor(slope).values is None:
        raise Refused("its slopes are computed")
    build.make(operator.outputs[0], "PRelu", [build.read(x, order), _operand(build, slope, order)], order)


def gelu(build: Builder, operator: TfliteOperator) -> None:
    """GELU, exact or by tanh."""
    x = computed(build, operator, 0)
    order = build.order_of(x)
    how = "tanh" if operator.option("Approximate") else "none"
    build.make(operator.outputs[0], "Gelu", [build.read(x, order)], order, approximate=how)


def square(build: Builder, operator: TfliteOperator) -> None:
    """SQUARE."""
    x = computed(build, operator, 0)
    order = build.order_of(x)
    build.make(operator.outputs[0], "Mul", [build.read(x, order)] * 2, order)


def rsqrt(build: Builder, operator: TfliteOperator) -> None:
    """RSQRT: one divided by the root."""
    x, result = computed(build, operator, 0), operator.outputs[0]
    order = build.order_of(x)
    root = build.step("Sqrt", [build.read(x, order)], f"{build.tensor(result).name}.root")
    build.make(result, "Reciprocal", [root], order)


def quantize(build: Builder, operator: TfliteOperator) -> None:
    """QUANTIZE: of a float, or of integers into others.

    The latter is a Clip at the ends of what the new integers can hold: it changes no value that they can store.
    """
    x, result = computed(build, operator, 0), operator.outputs[0]
    source, target = build.tensor(x), build.tensor(result)
    order = build.order_of(x)
    if not target.stores_integers or target.quantised is None:
        raise Refused(f"it stores values as {target.dtype}")
    if not source.stores_integers:
        build.made(result, build.read(x, order), order)
        return
    if target.quantised.same(source.quantised) and target.dtype == source.dtype:
        build.values[result] = {order: build.read(x, order)}
        return
    info, form = np.iinfo(target.dtype), target.quantised
    low, high = (float((end - int(form.zero_point[0])) * float(form.scale[0])) for end in (info.min, info.max))
    build.clip(build.read(x, order), target.name, low, high)
    build.made(result, target.name, order)


def dequantize(build: Builder, operator: TfliteOperator) -> None:
    """DEQUANTIZE of a computed value: what is read is float already."""
    x, result = computed(build, operator, 0), operator.outputs[0]
    order = build.order_of(x)
    build.values[result] = {order: build.read(x, order)}


def cast(build: Builder, operator: TfliteOperator) -> None:
    """CAST between numbers that are float here."""
    x, result = computed(build, operator, 0), operator.outputs[0]
    if build.tensor(x).dtype.kind != "f" or build.tensor(result).dtype.kind != "f":
        raise Refused(f"it makes {build.tensor(result).dtype} of {build.tensor(x).dtype}")
    dequantize(build, operator)


def l2_normalization(build: Builder, operator: TfliteOperator) -> None:
    """L2_NORMALIZATION along the last axis."""
    x, result = computed(build, operator, 0), operator.outputs[0]
    order: Order = build.order_of(x)
    rank, name = len(build.tensor(x).shape), build.tensor(result).name
    axis = 1 if rank == 4 and order == "first" else rank - 1
    source = build.read(x, order)
    axes = build.array(f"{name}.axes", np.array([axis], np.int64))
    length = build.step("ReduceL2", [source, axes], f"{name}.length", keepdims=1)
    floor = build.array(f"{name}.floor", np.float32(_LEAST_LENGTH))
    divisor = build.step("Max", [length, floor], f"{name}.divisor")
    build.make(result, "Div", [source, divisor], order)
