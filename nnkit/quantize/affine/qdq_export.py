"""Affine program -> ONNX in QDQ form (QuantizeLinear / DequantizeLinear around float ops).

The file holds the program's stored weights, int32 biases, scales and zero points, nothing else: what runs it computes
the same network with its own rounding (ONNX: half to even, after a float product; the program: half up, after an
integer one), so a single op differs by at most one unit, and only where a value lies on the edge of rounding.

Programs of 8 bits are written for opset 13, which compilers of all ages read; integers of 16 bits exist in
QuantizeLinear and DequantizeLinear from opset 21 on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from nnkit.program import Window
from nnkit.program.affine import (
    AffineActivation,
    AffineAdd,
    AffineConcat,
    AffineConv,
    AffineEmbedding,
    AffineLogSoftmax,
    AffineLookup,
    AffineMatMul,
    AffineMove,
    AffineMul,
    AffineNormalizeRows,
    AffineOnnx,
    AffineOp,
    AffinePool,
    AffineProgram,
    AffineSoftmax,
    AffineTensor,
    Requantize,
)
from nnkit.program.formats import Affine

if TYPE_CHECKING:
    import onnx

_BEFORE_ALL = -(1 << 31)
OPSET, IR_VERSION = 13, 8
OPSET_16_BIT, IR_VERSION_16_BIT = 21, 10


def qdq_model(program: AffineProgram) -> onnx.ModelProto:
    """The program as a QDQ model: float inputs and outputs of the program's names, any batch.

    Where operators stay in float, which may hold the batch in a constant, it is for a batch of one.
    """
    import onnx
    from onnx import TensorProto, helper

    floats = [op for op in program.ops if isinstance(op, AffineOnnx)]
    wide = any(form.bits == 16 for form in _formats(program))
    sets = [onnx.load_model_from_string(op.model).opset_import[0].version for op in floats]
    opset = max([OPSET_16_BIT if wide else OPSET, *sets])
    graph = _Graph(program, opset)
    for name in program.inputs:
        graph.store(name, program.tensors[name])
    for op in program.ops:
        _add_op(graph, op)
    for name in program.outputs:
        graph.nodes.append(helper.make_node("Identity", [graph.real(name)], [name]))

    def info(name: str, tensor: AffineTensor) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, [1 if floats else "batch", *tensor.shape])

    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            program.name,
            [info(name, program.tensors[name]) for name in program.inputs],
            [info(name, program.tensors[name]) for name in program.outputs],
            graph.initializers,
        ),
        opset_imports=[helper.make_opsetid("", opset)],
        ir_version=IR_VERSION_16_BIT if wide else IR_VERSION,
        producer_name="nnkit",
    )
    onnx.checker.check_model(model)
    return model


def _formats(program: AffineProgram) -> Iterator[Affine]:
    yield from (tensor.format for tensor in program.tensors.values())
    yield from (op.weight_format for op in program.ops if isinstance(op, AffineConv))


class _Graph:
    """Nodes and initializers as they grow. A value `x` is stored as `x.q` and read as `x.real`."""

    def __init__(self, program: AffineProgram, opset: int) -> None:
        self.tensors, self.opset = program.tensors, opset
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []

    def constant(self, name: str, value: Any) -> str:
        from onnx import numpy_helper

        self.initializers.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def node(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        from onnx import helper

        self.nodes.append(helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output

    def real(self, name: str) -> str:
        return f"{name}.real"

    def store(self, source: str, tensor: AffineTensor) -> None:
        """Quantise a computed value, and dequantise it for those who read it."""
        name, form = tensor.name, tensor.format
        scale = self.constant(f"{name}.scale", np.float32(tensor.scale))
        zero = self.constant(f"{name}.zero_point", np.array(tensor.zero_point, form.dtype))
        self.node("QuantizeLinear", [source, scale, zero], f"{name}.q")
        self.node("DequantizeLinear", [f"{name}.q", scale, zero], self.real(name))

    def weights(self, op: AffineConv) -> list[str]:
        form, source = op.weight_format, self.tensors[op.inputs[0]]
        axis = {} if form.axis is None else {"axis": form.axis}
        stored = self.constant(f"{op.name}.weight.q", op.weight)
        scale = self.constant(f"{op.name}.weight.scale", _vector(form, np.asarray(form.scale, np.float32)))
        zero = self.constant(f"{op.name}.weight.zero_point", _vector(form, np.asarray(form.zero_point, form.dtype)))
        weight = self.node("DequantizeLinear", [stored, scale, zero], f"{op.name}.weight", **axis)
        bias_scale = np.float32(source.scale) * np.asarray(form.scale, np.float32)
        bias = self.constant(f"{op.name}.bias.q", op.bias)
        scale = self.constant(f"{op.name}.bias.scale", _vector(form, bias_scale))
        axis = {} if form.axis is None else {"axis": 0}
        return [weight, self.node("DequantizeLinear", [bias, scale], f"{op.name}.bias", **axis)]


def _vector(form: Affine, values: Any) -> Any:
    return values if form.axis is not None else values[0]


def _add_op(graph: _Graph, op: AffineOp) -> None:
    inputs = [graph.real(name) for name in op.inputs]
    out, value = graph.tensors[op.output], f"{op.output}.value"
    stage: Requantize | None = None
    match op:
        case AffineConv():
            value, stage = _conv(graph, op, inputs[0], value), op.requantize
        case AffinePool():
            window: dict[str, Any] = {"kernel_shape": [op.window.kernel_h, op.window.kernel_w], **_window(op.window)}
            if op.pool == "average":
                window.pop("dilations")
                window["count_include_pad"] = int(op.count_include_pad)
            graph.node("MaxPool" if op.pool == "max" else "AveragePool", inputs, value, **window)
            stage = op.requantize
        case AffineAdd():
            graph.node("Add", inputs, value)
            stage = op.requantize
        case AffineMul():
            graph.node("Mul", inputs, value)
            stage = op.requantize
        case AffineActivation():
            value, stage = inputs[0], op.requantize
        case AffineLookup():
            _function(graph, op, inputs[0], value)
        case AffineSoftmax():
            graph.node("Softmax", inputs, value, axis=op.axis + 1)
        case AffineLogSoftmax():
            graph.node("LogSoftmax", inputs, value, axis=op.axis + 1)
        case AffineNormalizeRows():
            _normalize(graph, op, inputs[0], value)
        case AffineOnnx():
            _in_float(graph, op, inputs, value)
        case AffineMatMul():
            graph.node("MatMul", inputs, value)
            stage = op.requantize
        case AffineEmbedding():
            table = graph.constant(f"{op.name}.table.q", op.table)
            scale, zero = np.float32(out.scale), np.array(out.zero_point, out.format.dtype)
            form = [
                graph.constant(f"{op.name}.table.{what}", each) for what, each in (("scale", scale), ("zero", zero))
            ]
            rows = graph.node("DequantizeLinear", [table, *form], f"{op.name}.table")
            ids = graph.node("Cast", inputs, f"{op.name}.ids", to=7)
            graph.node("Gather", [rows, ids], value)
        case AffineConcat():
            graph.node("Concat", inputs, value, axis=1)
        case AffineMove():
            _move(graph, op, inputs[0], value, out)
    if stage is not None:
        value = _activation(graph, stage, value, out)
    graph.store(value, out)


def _conv(graph: _Graph, op: AffineConv, source: str, value: str) -> str:
    form, window = graph.tensors[op.inputs[0]], _window(op.window)
    if op.transposed:
        size, out = form.shape[-2:], graph.tensors[op.output].shape[-2:]
        return graph.node(
            "ConvTranspose", [source, *graph.weights(op)], value, group=op.groups, **_transposed(op.window, size, out)
        )
    if op.pad_value != form.zero_point and op.window.has_padding:
        pads = window["pads"]
        amounts = graph.constant(f"{op.name}.pads", np.array([0, 0, *pads[:2], 0, 0, *pads[2:]], np.int64))
        filler = graph.constant(f"{op.name}.pad_value", np.float32((op.pad_value - form.zero_point) * form.scale))
        source = graph.node("Pad", [source, amounts, filler], f"{op.name}.padded")
        window["pads"] = [0, 0, 0, 0]
    return graph.node("Conv", [source, *graph.weights(op)], value, group=op.groups, **window)


def _window(window: Window) -> dict[str, Any]:
    return {
        "strides": [window.stride_h, window.stride_w],
        "dilations": [window.dilation_h, window.dilation_w],
        "pads": [window.pad_top, window.pad_left, window.pad_bottom, window.pad_right],
    }


def _transposed(window: Window, size: tuple[int, ...], out: tuple[int, ...]) -> dict[str, Any]:
    """Attributes of a ConvTranspose that gives `out`: what lies past the sums becomes output_padding."""
    strides, dilations = (window.stride_h, window.stride_w), (window.dilation_h, window.dilation_w)
    kernel, begin = (window.kernel_h, window.kernel_w), (window.pad_top, window.pad_left)
    natural = [(size[i] - 1) * strides[i] + (kernel[i] - 1) * dilations[i] + 1 - begin[i] for i in (0, 1)]
    ends, extra = [max(0, natural[i] - out[i]) for i in (0, 1)], [max(0, out[i] - natural[i]) for i in (0, 1)]
    return {"strides": strides, "dilations": dilations, "pads": [*begin, *ends], "output_padding": extra}


def _activation(graph: _Graph, stage: Requantize, value: str, out: AffineTensor) -> str:
    if stage.negative_multiplier is not None:
        slopes = (stage.negative_multiplier / stage.multiplier).astype(np.float32)
        shape = (-1,) + (1,) * (len(out.shape) - 1)
        name = graph.constant(f"{out.name}.slope", slopes.reshape(shape) if slopes.size > 1 else slopes.reshape(1))
        value = graph.node("PRelu", [value, name], f"{out.name}.sloped")
    if (stage.clip_min, stage.clip_max) != (out.format.qmin, out.format.qmax):
        bounds = [
            graph.constant(f"{out.name}.{end}", np.float32((bound - out.zero_point) * out.scale))
            for end, bound in (("low", stage.clip_min), ("high", stage.clip_max))
        ]
        value = graph.node("Clip", [value, *bounds], f"{out.name}.clipped")
    return value


def _function(graph: _Graph, op: AffineLookup, source: str, value: str) -> None:
    if op.function == "HardSwish":  # an operator of its own from opset 14 on: x * HardSigmoid(x)
        gate = graph.node("HardSigmoid", [source], f"{op.output}.gate", alpha=1.0 / 6.0, beta=0.5)
        graph.node("Mul", [source, gate], value)
        return
    if op.function in ("Gelu", "Mish"):  # operators of their own from opset 20 and 18 on
        _gated(graph, op, source, value)
        return
    if op.function == "Pow":
        graph.node("Pow", [source, graph.constant(f"{op.output}.exponent", np.float32(op.parameters[0]))], value)
        return
    graph.node(op.function, [source], value, **dict(zip(("alpha", "beta"), op.parameters, strict=False)))


def _gated(graph: _Graph, op: AffineLookup, source: str, value: str) -> None:
    """Gelu: x * (1 + erf(x / sqrt(2))) / 2, or with tanh(sqrt(2 / pi) (x + 0.044715 x^3)) for erf; Mish: x *
    tanh(softplus(x))."""

    def number(name: str, of: float) -> str:
        return graph.constant(f"{op.output}.{name}", np.float32(of))

    def node(kind: str, name: str, *inputs: str) -> str:
        return graph.node(kind, list(inputs), f"{op.output}.{name}")

    if op.function == "Mish":
        graph.node("Mul", [source, node("Tanh", "gate", node("Softplus", "softplus", source))], value)
        return
    if op.parameters[0] == 1:
        cube = node("Mul", "cube", node("Mul", "square", source, source), source)
        sum_ = node("Add", "sum", source, node("Mul", "part", cube, number("cubic", 0.044715)))
        gate = node("Tanh", "tanh", node("Mul", "scaled", sum_, number("root", (2 / np.pi) ** 0.5)))
    else:
        gate = node("Erf", "erf", node("Mul", "scaled", source, number("root", 0.5**0.5)))
    half = node("Mul", "half", source, number("one_half", 0.5))
    graph.node("Mul", [half, node("Add", "gate", gate, number("one", 1.0))], value)


def _normalize(graph: _Graph, op: AffineNormalizeRows, source: str, value: str) -> None:
    """Write a LayerNormalization with operators of opset 13, which has none of its own."""

    def node(kind: str, name: str, *inputs: str, **attributes: Any) -> str:
        return graph.node(kind, list(inputs), f"{op.output}.{name}", **attributes)

    def number(name: str, of: Any) -> str:
        return graph.constant(f"{op.output}.{name}", np.asarray(of, np.float32))

    centred = node("Sub", "centred", source, _row_mean(graph, source, op.gain.size, f"{op.output}.mean"))
    variance = _row_mean(graph, node("Mul", "squares", centred, centred), op.gain.size, f"{op.output}.variance")
    spread = node("Sqrt", "spread", node("Add", "positive", variance, number("epsilon", op.real_epsilon)))
    scaled = node("Mul", "scaled", node("Div", "normal", centred, spread), number("gain", op.real_gain))
    graph.node("Add", [scaled, number("offset", op.real_offset)], value)


def _in_float(graph: _Graph, op: AffineOnnx, inputs: list[str], value: str) -> None:
    """The operator as it is, on real values; its constants get names of its own."""
    model = _operator(op, graph.opset)
    names = dict(zip((each.name for each in model.graph.input), inputs, strict=True))
    for tensor in model.graph.initializer:
        names[tensor.name] = f"{op.output}.{tensor.name}"
        tensor.name = names[tensor.name]
        graph.initializers.append(tensor)
    names[model.graph.output[0].name] = value
    for node in model.graph.node:  # one, or what conversion between operator sets made of it
        for values in (node.input, node.output):
            for index, name in enumerate(values):
                values[index] = names.setdefault(name, f"{op.output}.{name}") if name else ""
        node.name = f"{op.output}.{node.output[0]}"
        graph.nodes.append(node)


def _operator(op: AffineOnnx, opset: int) -> onnx.ModelProto:
    import onnx

    model = onnx.load_model_from_string(op.model)
    if model.opset_import[0].version == opset:
        return model
    return onnx.version_converter.convert_version(model, opset)


def _row_mean(graph: _Graph, source: str, size: int, name: str) -> str:
    """The sum by n: ReduceMean has its axes as an attribute up to opset 17 and as an input from 18 on."""
    axes = graph.constant(f"{name}.axes", np.array([-1], np.int64))
    total = graph.node("ReduceSum", [source, axes], f"{name}.sum", keepdims=1)
    return graph.node("Mul", [total, graph.constant(f"{name}.share", np.float32(1.0 / size))], name)


def _move(graph: _Graph, op: AffineMove, source: str, value: str, out: AffineTensor) -> None:
    if op.move == "reshape":
        shape = graph.constant(f"{op.output}.shape", np.array([-1, *out.shape], np.int64))
        graph.node("Reshape", [source, shape], value)
    elif op.move == "upsample":
        scales = graph.constant(f"{op.output}.scales", np.array([1, 1, *op.scale_hw], np.float32))
        graph.node(
            "Resize",
            [source, "", scales],
            value,
            mode="nearest",
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        )
    elif op.move == "transpose":
        graph.node("Transpose", [source], value, perm=[0, *(axis + 1 for axis in op.order)])
    elif op.move == "slice":
        # An end before the first element, where a negative step takes it, is written as one far below.
        cuts = zip(op.starts, op.steps, out.shape, strict=True)
        ends = [end if (end := start + step * size) >= 0 else _BEFORE_ALL for start, step, size in cuts]
        bounds = {"starts": op.starts, "ends": ends, "axes": range(1, len(out.shape) + 1), "steps": op.steps}
        names = [graph.constant(f"{op.output}.{key}", np.array(given, np.int64)) for key, given in bounds.items()]
        graph.node("Slice", [source, *names], value)
    else:
        top, left, bottom, right = op.pads
        amounts = graph.constant(f"{op.output}.pads", np.array([0, 0, top, left, 0, 0, bottom, right], np.int64))
        filler = graph.constant(f"{op.output}.pad_value", np.float32((op.pad_value - out.zero_point) * out.scale))
        graph.node("Pad", [source, amounts, filler], value)
