"""Top MLIR, the input language of the vendor's compiler: a float graph as text, and its weights as an npz archive.

The text is in MLIR's generic form. Locations are the names by which the compiler, the calibration table and the
qtable know a value; characters that these formats cannot carry are replaced, uniquely.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from nnkit.errors import InternalError
from nnkit_tpu.program import (
    FloatArray,
    TpuActivation,
    TpuBinary,
    TpuConcat,
    TpuConv,
    TpuDeconv,
    TpuEmbedding,
    TpuGraph,
    TpuGroupNorm,
    TpuInterp,
    TpuLayerNorm,
    TpuMatMul,
    TpuOp,
    TpuPad,
    TpuPermute,
    TpuPool,
    TpuRectified,
    TpuReduce,
    TpuReshape,
    TpuScale,
    TpuSlice,
    TpuSoftmax,
    TpuUpsample,
)
from nnkit_tpu.recurrent import TpuRecurrent

_REDUCTIONS = {"mean": "ReduceMean", "sum": "ReduceSum", "max": "ReduceMax", "min": "ReduceMin", "l2": "ReduceL2"}
_UNREAD = {"gru": 1, "lstm": 2}  # results of a recurrent layer beside the states of all steps
_ACTIVATIONS = {
    "sigmoid": "Sigmoid",
    "silu": "SiLU",
    "hard_swish": "HardSwish",
    "tanh": "Tanh",
    "exp": "Exp",
    "abs": "Abs",
    "sqrt": "Sqrt",
    "gelu": "GELU",
    "gelu_by_tanh": "GELU",
    "erf": "Erf",
    "softplus": "Softplus",
    "mish": "Mish",
    "log": "Log",
}


@dataclass(frozen=True, eq=False)
class TopMlir:
    """text: the module. weights: its archive's arrays. locations: the compiler's name of each tensor."""

    text: str
    weights: Mapping[str, FloatArray]
    locations: Mapping[str, str]


def locations(graph: TpuGraph) -> dict[str, str]:
    """The compiler's name of every tensor: letters, digits and `_./:-`, each name once."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for value in (*graph.inputs, *(op.output for op in graph.ops)):
        plain = re.sub(r"[^A-Za-z0-9_./:-]", "_", value)
        name, count = plain, 1
        while name in taken:
            count += 1
            name = f"{plain}_{count}"
        taken.add(name)
        names[value] = name
    return names


def module_name(graph: TpuGraph) -> str:
    """The module's name: the compiler's files are called by it."""
    return re.sub(r"[^A-Za-z0-9_]", "_", graph.name)


@dataclass(frozen=True)
class PixelInput:
    """An image input that the model takes as pixels, uint8: x = (pixel - mean) * scale is computed on the chip.

    color: channels and their order, of the network and, unless `swapped` (rgb against bgr), of the pixels given.
    mean, scale: one value a channel, in the network's order. packed: pixels are [N, H, W, C], not [N, C, H, W].
    """

    color: Literal["gray", "rgb", "bgr"]
    mean: tuple[float, ...]
    scale: tuple[float, ...]
    swapped: bool = False
    packed: bool = False

    @property
    def given_color(self) -> Literal["gray", "rgb", "bgr"]:
        """Channels of the pixels given, and their order."""
        if not self.swapped or self.color == "gray":
            return self.color
        return "bgr" if self.color == "rgb" else "rgb"

    @property
    def pixel_format(self) -> str:
        """The compiler's name of what the model takes."""
        if self.color == "gray":
            return "GRAYSCALE"
        return f"{self.given_color.upper()}_{'PACKED' if self.packed else 'PLANAR'}"


def top_mlir(graph: TpuGraph, weight_file: str, pixels: Mapping[str, PixelInput] | None = None) -> TopMlir:
    """The module of a float graph whose weights will stand in `weight_file` beside it; pixels: by input."""
    return _Writer(graph, pixels or {}).module(weight_file)


class _Writer:
    """Collects lines and weights; `%` numbers count up."""

    def __init__(self, graph: TpuGraph, pixels: Mapping[str, PixelInput]) -> None:
        self.graph = graph
        self.pixels = pixels
        self.names = locations(graph)
        self.lines: list[str] = []
        self.weights: dict[str, FloatArray] = {}
        self.values: dict[str, str] = {}
        self.count = 0
        self.none: str | None = None

    def module(self, weight_file: str) -> TopMlir:
        graph = self.graph
        arguments = []
        for index, name in enumerate(graph.inputs):
            shape = graph.tensors[name].shape
            kind = _type(shape)
            arguments.append(f"%arg{index}: {kind}")
            how = _preprocessing(self.pixels[name], shape) if name in self.pixels else ""
            self.values[name] = self.line("Input", [(f"%arg{index}", kind)], kind, how, self.names[name])
        for op in graph.ops:
            self.op(op)
        outputs = [self.values[name] for name in graph.outputs]
        kinds = ", ".join(_type(graph.tensors[name].shape) for name in graph.outputs)
        result = f"({kinds})" if len(outputs) > 1 else kinds
        attributes = (
            'module.chip = "ALL", module.platform = "ONNX", module.state = "TOP_F32", '
            f'module.top_run_mode = "STATIC", module.weight_file = "{weight_file}"'
        )
        body = "\n".join(f"    {line}" for line in self.lines)
        text = (
            f"module @{module_name(graph)} attributes {{{attributes}}} {{\n"
            f"  func.func @main({', '.join(arguments)}) -> {result} {{\n{body}\n"
            f"    return {', '.join(outputs)} : {kinds}\n  }}\n}}\n"
        )
        return TopMlir(text, self.weights, self.names)

    def line(
        self,
        kind: str,
        operands: Sequence[tuple[str, str]],
        result: str,
        attributes: str,
        name: str,
        unread: int = 0,
    ) -> str:
        """One op; the name of its first result. unread: how many others it has, which nothing reads."""
        value = f"%{self.count}"
        self.count += 1
        names, types = ", ".join(o for o, _ in operands), ", ".join(t for _, t in operands)
        place = f'loc("{name}")' if name else "loc(unknown)"
        results, kinds = (f"{value}:{unread + 1}", f"({result}{', none' * unread})") if unread else (value, result)
        self.lines.append(f'{results} = "top.{kind}"({names}) {{{attributes}}} : ({types}) -> {kinds} {place}')
        return f"{value}#0" if unread else value

    def tensor(self, name: str) -> tuple[str, str]:
        return self.values[name], _type(self.graph.tensors[name].shape)

    def absent(self) -> tuple[str, str]:
        if self.none is None:
            self.none = self.line("None", [], "none", "", "")
        return self.none, "none"

    def weight(self, op: TpuOp, role: str, array: FloatArray | None, scale: Sequence[float] = ()) -> tuple[str, str]:
        """scale: of the integers that the values are multiples of, by output channel; empty: the compiler's own."""
        if array is None:
            return self.absent()
        name = f"{self.names[op.output]}__{role}"
        self.weights[name] = np.ascontiguousarray(array, np.float32)
        kind = _type(array.shape)
        given = f"scale = [{', '.join(map(_f64, scale))}]" if scale else ""
        return self.line("Weight", [], kind, given, name), kind

    def op(self, op: TpuOp) -> None:
        for kind, write in _WRITERS.items():
            if isinstance(op, kind):
                top, more, attributes = write(self, op)
                break
        else:
            raise InternalError(f"no Top MLIR for an op of kind {op.kind}", where=op.name)
        operands = [*(self.tensor(name) for name in op.inputs), *more]
        constant_first = isinstance(op, TpuEmbedding) or (isinstance(op, TpuBinary) and op.constant_first)
        if constant_first and more:
            operands = [*more, *(self.tensor(name) for name in op.inputs)]
        result = _type(self.graph.tensors[op.output].shape)
        unread = _UNREAD[op.cell] if isinstance(op, TpuRecurrent) else 0
        self.values[op.output] = self.line(top, operands, result, attributes, self.names[op.output], unread)


_Written = tuple[str, list[tuple[str, str]], str]


def _type(shape: Sequence[int]) -> str:
    return f"tensor<{'x'.join(map(str, shape))}xf32>"


def _ints(values: Sequence[int]) -> str:
    return f"[{', '.join(str(int(v)) for v in values)}]"


def _f64(value: float) -> str:
    return f"{float(value):.17e} : f64"


def _preprocessing(pixels: PixelInput, shape: Sequence[int]) -> str:
    mean, scale = (", ".join(_f64(value) for value in values) for values in (pixels.mean, pixels.scale))
    return (
        f'do_preprocess = true, pixel_format = "{pixels.color}", channel_format = "nchw", '
        f"resize_dims = {_ints(shape[2:])}, keep_aspect_ratio = false, "
        f'keep_ratio_mode = "letterbox", pad_value = 0 : i64, pad_type = "center", mean = [{mean}], scale = [{scale}]'
    )


def _relu(op: TpuRectified) -> str:
    return f"do_relu = {str(op.relu).lower()}, relu_limit = {_f64(op.relu_limit)}"


def _window(op: Any) -> str:
    w = op.window
    return (
        f"kernel_shape = {_ints((w.kernel_h, w.kernel_w))}, strides = {_ints((w.stride_h, w.stride_w))}, "
        f"pads = {_ints((w.pad_top, w.pad_left, w.pad_bottom, w.pad_right))}"
    )


def _conv(writer: _Writer, op: Any) -> _Written:
    weight = op.weight
    if isinstance(op, TpuDeconv):  # [O/group, I, kh, kw]: the same values in the same order
        weight = weight.reshape(weight.shape[0] // op.group, -1, *weight.shape[2:])
    scale = op.weight_scale if isinstance(op, TpuConv) else ()
    more = [writer.weight(op, "weight", weight, scale), writer.weight(op, "bias", op.bias)]
    dilations = _ints((op.window.dilation_h, op.window.dilation_w))
    attributes = f"{_window(op)}, group = {op.group} : i64, dilations = {dilations}, {_relu(op)}"
    if isinstance(op, TpuDeconv):
        return "Deconv", more, f"{attributes}, output_padding = {_ints(op.output_padding)}"
    return "Conv", more, attributes


def _matmul(writer: _Writer, op: Any) -> _Written:
    more = [] if op.weight is None else [writer.weight(op, "weight", op.weight)]
    return "MatMul", [*more, writer.weight(op, "bias", op.bias)], _relu(op)


def _pool(writer: _Writer, op: Any) -> _Written:
    attributes = (
        f"{_window(op)}, {_relu(op)}, count_include_pad = {str(op.count_include_pad).lower()}, "
        "is_adaptive = false, keepdims = true"
    )
    return ("MaxPool" if op.function == "max" else "AvgPool"), [], attributes


def _binary(writer: _Writer, op: Any) -> _Written:
    name = op.function.capitalize()
    relu = f", {_relu(op)}" if op.function not in ("min", "max") else ""
    if op.constant is None:
        return name, [], f"is_scalar = false{relu}" if relu else ""
    if op.constant.size == 1:
        if op.function == "div":  # by a constant is a product; this is a constant by the input
            return "Reciprocal", [], f"const_val = {_f64(op.constant.reshape(-1)[0])}{relu}"
        reverse = f", is_reverse = {str(op.constant_first).lower()}" if op.function == "sub" else ""
        return f"{name}Const", [], f"const_val = {_f64(op.constant.reshape(-1)[0])}{reverse}{relu}"
    return name, [writer.weight(op, "constant", op.constant)], relu.removeprefix(", ")


def _scale(writer: _Writer, op: Any) -> _Written:
    shape = (1, -1, *(1,) * (len(writer.graph.tensors[op.output].shape) - 2))
    more = [writer.weight(op, "scale", op.scale.reshape(shape)), writer.weight(op, "bias", op.bias.reshape(shape))]
    return "Scale", more, _relu(op)


def _activation(writer: _Writer, op: Any) -> _Written:
    if op.function == "relu":
        return "Relu", [], f"relu_limit = {_f64(op.bounds[1] if np.isfinite(op.bounds[1]) else -1.0)}"
    if op.function == "leaky_relu":
        return "LeakyRelu", [], f"alpha = {_f64(op.slopes[0])}"
    if op.function == "prelu":
        shape = (1, -1, *(1,) * (len(writer.graph.tensors[op.output].shape) - 2))
        return "PRelu", [writer.weight(op, "slope", op.slopes.reshape(shape))], ""
    if op.function == "clip":
        return "Clip", [], f"min = {_f64(op.bounds[0])}, max = {_f64(op.bounds[1])}"
    if op.function == "hard_sigmoid":
        return "HardSigmoid", [], f"alpha = {_f64(op.alpha)}, beta = {_f64(op.beta)}"
    if op.function == "elu":
        return "Elu", [], f"alpha = {_f64(op.alpha)}"
    return _ACTIVATIONS[op.function], [], 'approx_mode = "tanh"' if op.function == "gelu_by_tanh" else ""


def _slice(writer: _Writer, op: Any) -> _Written:
    attributes = f"offset = {_ints(op.offsets)}, steps = {_ints(op.steps)}, ends = {_ints(op.ends)}, axes = []"
    return "Slice", [writer.absent()] * 3, attributes


def _interp(writer: _Writer, op: Any) -> _Written:
    before, after = writer.graph.tensors[op.inputs[0]].shape, writer.graph.tensors[op.output].shape
    scales = f"scale_h = {_f64(after[2] / before[2])}, scale_w = {_f64(after[3] / before[3])}"
    return "Interp", [writer.absent()], f'mode = "{op.method}", coord_mode = "{op.coordinates}", {scales}'


def _embedding(writer: _Writer, op: Any) -> _Written:
    return "Gather", [writer.weight(op, "table", op.table)], "axis = 0 : si32, keepdims = true"


def _layer_norm(writer: _Writer, op: Any) -> _Written:
    more = [writer.weight(op, "scale", op.scale), writer.weight(op, "bias", op.bias)]
    return "LayerNorm", more, f"normalized_shape = [], axis = {op.axis} : si32, eps = {_f64(op.epsilon)}"


def _group_norm(writer: _Writer, op: Any) -> _Written:
    shape = (1, -1, *(1,) * (len(writer.graph.tensors[op.output].shape) - 2))
    parts = {"scale": op.scale, "bias": op.bias}
    more = [writer.weight(op, role, None if array is None else array.reshape(shape)) for role, array in parts.items()]
    return "GroupNorm", more, f"num_groups = {op.groups} : i64, eps = {_f64(op.epsilon)}"


def _recurrent(writer: _Writer, op: Any) -> _Written:
    ways, hidden = len(op.weight), op.recurrent.shape[-1]
    images = writer.graph.tensors[op.inputs[0]].shape[1 if op.by_tables else 0]
    state = np.zeros((ways, images, hidden))
    parts = {"weight": op.weight, "recurrent": op.recurrent, "bias": op.bias, "state": state}
    resets = "" if op.cell == "lstm" else ", linear_before_reset = true"
    both, first = (str(each).lower() for each in (ways == 2, not op.by_tables))
    attributes = f"hidden_size = {hidden} : i64, bidirectional = {both}, batch_first = {first}{resets}"
    more = [writer.weight(op, role, array) for role, array in parts.items()]
    if op.cell == "lstm":
        more += [writer.weight(op, "cell", state), writer.absent()]
    return op.cell.upper(), more, attributes


def _reduce(writer: _Writer, op: Any) -> _Written:
    keep = str(op.keep_dims).lower()
    return "Reduce", [], f'axes = {_ints(op.axes)}, keepdims = {keep}, mode = "{_REDUCTIONS[op.function]}"'


_WRITERS: dict[type[TpuOp], Callable[[_Writer, Any], _Written]] = {
    TpuConv: _conv,
    TpuDeconv: _conv,
    TpuMatMul: _matmul,
    TpuPool: _pool,
    TpuBinary: _binary,
    TpuScale: _scale,
    TpuActivation: _activation,
    TpuSlice: _slice,
    TpuInterp: _interp,
    TpuReduce: _reduce,
    TpuLayerNorm: _layer_norm,
    TpuGroupNorm: _group_norm,
    TpuEmbedding: _embedding,
    TpuRecurrent: _recurrent,
    TpuConcat: lambda w, op: ("Concat", [], f"axis = {op.axis} : si32"),
    TpuReshape: lambda w, op: ("Reshape", [], f"shape = {_ints(w.graph.tensors[op.output].shape)}"),
    TpuPermute: lambda w, op: ("Permute", [], f"order = {_ints(op.order)}"),
    TpuPad: lambda w, op: (
        "Pad",
        [],
        f'paddings = {_ints(op.pads)}, val = {_f64(op.value)}, mode = "{op.method}"',
    ),
    TpuSoftmax: lambda w, op: ("Softmax", [], f"axis = {op.axis} : si32, log = {str(op.log).lower()}"),
    TpuUpsample: lambda w, op: (
        "Upsample",
        [],
        f"scale_h = {op.scale_h} : i64, scale_w = {op.scale_w} : i64, {_relu(op)}",
    ),
}
