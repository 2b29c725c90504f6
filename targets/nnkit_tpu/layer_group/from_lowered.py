"""The compiler's lowered program, before it forms groups, as graphs for the planner.

`lower` text is what the compiler prints after its own topological sort: every op of a function in the order in
which its group files number them, with weights packed as they lie in local memory. One graph a function: the
cv18xx put the quantisation of the input into a function of its own.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from nnkit.errors import ToolError
from nnkit.program import Window
from nnkit_tpu.chips import Chip
from nnkit_tpu.layer_group.buffers import (
    buffer_rule,
    cast_rule,
    function_rule,
    product_rule,
    reduction_rule,
    softmax_rule,
)
from nnkit_tpu.layer_group.model import (
    MOST_AXES,
    NOT_OF_ROWS,
    OF_TOO_MANY_AXES,
    ON_THE_HOST,
    ROWS_RANK,
    BufferRule,
    GroupGraph,
    GroupOp,
    GroupTensor,
    GroupWeight,
    Kind,
    Shape,
)

_FUNCTION = re.compile(r"func\.func @(\w+)\((.*?)\) ->")
_OP = re.compile(
    r'^\s*(%\w+)(?:, %\w+)* = "\w+\.(\w+)"\((.*?)\) (?:\{(.*)\} )?: \(.*\) -> \(?(.*?)(?:(?:, none)+\))? loc\((.*)\)$'
)
_ARGUMENT = re.compile(r"(%arg\d+): (tensor<.*?>)(?: loc\((.*?)\))?(?=, %arg|$)")
_LOCATION = re.compile(r'^(#loc\d*) = loc\("(.*)"\)$', re.M)
_TENSOR = re.compile(r"tensor<((?:\d+x)*)(.*)>$")
_ACTIVE = re.compile(r"active_mode (\w+)>")
_VALUE = re.compile(r"%\w+")
_RETURN = re.compile(r"^\s*return (%[^:]*) :", re.M)
_BITS = re.compile(r"[a-z]+(\d+)")
_KINDS: Mapping[str, Kind] = {
    "Conv2D": "conv",
    "Deconv": "deconv",
    "Add": "binary",
    "Sub": "binary",
    "Mul": "binary",
    "Div": "binary",
    "Max": "binary",
    "Min": "binary",
    "AddConst": "unary",
    "MulConst": "unary",
    "MulShift": "unary",
    "Cast": "unary",
    "Lut": "unary",
    "Active": "unary",
    "Relu": "unary",
    "LeakyRelu": "unary",
    "PReluOp": "unary",
    "Clip": "unary",
    "RequantInt": "unary",
    "RequantIntAxis": "unary",
    "Scale": "scale",
    "Concat": "concat",
    "Upsample": "upsample",
    "Interp": "interp",
    "Pad": "pad",
    "Slice": "slice",
    "Reshape": "reshape",
    "Permute": "permute",
    "MatMul": "matmul",
    "Softmax": "softmax",
    "Reduce": "reduce",
}
_MOVES_DATA = ("permute", "other")
_REDUCED_LOCALLY = ("ReduceMax", "ReduceSum", "ReduceMean")

_LOWERED = "the compiler's lowered program"
_VERSION = "use the compiler version that `nnkit doctor --install tpu` brings"


@dataclass(frozen=True, eq=False)
class LoweredFunction:
    """One function: its graph, and the line of the text each op stands on, for reordering."""

    name: str
    graph: GroupGraph
    lines: tuple[int, ...]


def read_lowered(text: str, chip: Chip) -> tuple[LoweredFunction, ...]:
    """The functions that hold ops, in order. Raises ToolError for a line that is not as this compiler writes it."""
    locations = dict(_LOCATION.findall(text))
    functions: list[LoweredFunction] = []
    lines = text.splitlines()
    starts = [index for index, line in enumerate(lines) if "func.func @" in line]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        heading = _FUNCTION.search(lines[start])
        if heading is None or heading.group(1) == "main":
            continue
        functions.append(_Reader(chip, locations).read(heading.group(1), heading.group(2), lines, start, end))
    if not functions:
        raise ToolError("the compiler's lowered program has no function with ops", where="layer groups")
    return tuple(functions)


class _Reader:
    """Values of one function by their names in the text."""

    def __init__(self, chip: Chip, locations: Mapping[str, str]) -> None:
        self.chip, self.locations = chip, locations
        self.tensors: dict[str, GroupTensor] = {}
        self.weights: dict[str, GroupWeight] = {}
        self.names: dict[str, str] = {}  # "%5" -> tensor or weight
        self.ops: list[GroupOp] = []
        self.readers: Counter[str] = Counter()
        self.ranks: dict[str, int] = {}  # of tensors and weights

    def read(self, name: str, arguments: str, lines: list[str], start: int, end: int) -> LoweredFunction:
        inputs, outputs, places = [], [], []
        for line in lines[start + 1 : end]:
            self.readers.update(_VALUE.findall(line.partition(" = ")[2].partition(") ")[0] or line))
        for value, type_text, location in _ARGUMENT.findall(arguments):
            tensor = self._tensor(self._location(location) or value, type_text)
            self.names[value] = tensor.name
            inputs.append(tensor.name)
        for index in range(start + 1, end):
            line = lines[index]
            returned = _RETURN.match(line)
            if returned:
                outputs += [self.names[value.strip()] for value in returned.group(1).split(",")]
                break
            if ' = "' not in line:
                continue
            match = _OP.match(line)
            if match is None:
                raise ToolError(f"a line that cannot be read: {line.strip()[:100]}", where=_LOWERED, remedy=_VERSION)
            if self._add(*match.groups()):
                places.append(index)
        graph = GroupGraph(name, self.tensors, self.weights, tuple(self.ops), tuple(inputs), tuple(outputs))
        return LoweredFunction(name, graph, tuple(places))

    def _add(self, value: str, kind: str, operands: str, attributes: str | None, result: str, location: str) -> bool:
        """Take in one line; whether it is an op."""
        if kind == "None":
            return False
        name = self._location(location)
        if kind == "Weight":
            shape, size = _shape(result)
            self.names[value] = f"{value}:{name}"
            self.weights[self.names[value]] = GroupWeight(self.names[value], shape, size)
            self.ranks[self.names[value]] = _rank(result)
            return False
        tensor = self._tensor(name, result)
        self.names[value] = name
        read = [self.names[operand.strip()] for operand in operands.split(",") if operand.strip() in self.names]
        inputs = tuple(item for item in read if item in self.tensors)
        weights = tuple(dict.fromkeys(item for item in read if item in self.weights))
        if kind == "MatMul":
            self.weights |= {item: replace(self.weights[item], aligned=True) for item in weights}
        readers = self.readers[operands.split(",")[0].strip()]
        self.ops.append(self._op(name, kind, inputs, weights, tensor, attributes or "", readers))
        return True

    def _op(
        self,
        name: str,
        kind_name: str,
        inputs: tuple[str, ...],
        weights: tuple[str, ...],
        result: GroupTensor,
        text: str,
        readers: int,
    ) -> GroupOp:
        kind: Kind = _KINDS.get(kind_name, "other")
        if kind_name == "Pool2D":
            kind = "max_pool" if "pool_mode Max" in text else "average_pool"
        source = self.tensors[inputs[0]].shape if inputs else result.shape
        window = _window(text) if kind in ("conv", "deconv", "max_pool", "average_pool") else None
        columns = result.shape[min(self.ranks[result.name], len(result.shape)) - 1]
        return GroupOp(
            name=name,
            kind=kind,
            inputs=inputs,
            output=result.name,
            weights=weights,
            window=window,
            group=_integer(text, "group", 1),
            function=_function(kind_name, text),
            axis=(_integers(text, "axes") or (1,))[0] if kind == "reduce" else _integer(text, "axis", 1),
            begins=_begins(kind, text),
            steps=_integers(text, "steps")[1:4] if kind == "slice" else (),
            scale=(result.shape[2] / source[2], result.shape[3] / source[3]),
            order=_integers(text, "order"),
            buffer=self._buffer(kind_name, kind, inputs, result, text, window, readers),
            not_local=self._not_local(kind_name, kind, (*inputs, *weights), result, text),
            macs=prod(source) * columns if kind == "matmul" else 0,
        )

    def _buffer(
        self,
        kind_name: str,
        kind: Kind,
        inputs: tuple[str, ...],
        result: GroupTensor,
        text: str,
        window: Window | None,
        readers: int,
    ) -> BufferRule:
        source = self.tensors[inputs[0]] if inputs else result
        active = _ACTIVE.search(text)
        if active:
            return function_rule(self.chip, active.group(1).lower(), source.dtype_bytes, source.shape[0])
        if kind == "matmul":
            rows, columns = result.shape[1:3]
            integer = source.dtype_bytes == 1 and result.dtype_bytes < 4
            return product_rule(self.chip, integer=integer, rows=rows, inner=source.shape[2], columns=columns)
        if kind == "softmax":
            return softmax_rule(self.chip, source.shape, _integer(text, "axis", 1), log="log = true" in text)
        if kind == "reduce" and _integers(text, "axes")[-1:] == (self.ranks[source.name] - 1,):
            rows = source.shape[2] if self.ranks[source.name] == len(source.shape) else 1
            return reduction_rule(self.chip, source.shape, rows=rows)
        if kind_name == "Cast":
            return cast_rule(self.chip, source.dtype_bytes, result.dtype_bytes, readers)
        return buffer_rule(
            self.chip,
            kind,
            integer=result.dtype_bytes == 1,
            source=source.shape,
            result=result.shape,
            group=_integer(text, "group", 1),
            window=window,
            spread=_integer(text, "use_3ic_optimize", 0),
        )

    def _not_local(self, kind_name: str, kind: Kind, read: Sequence[str], result: GroupTensor, text: str) -> str:
        """Why the op cannot work in local memory. read: tensors, then weights."""
        if kind == "matmul":
            return self._not_rows(read, result, text)
        sources = [self.tensors[name].shape for name in read if name in self.tensors]
        source = sources[0] if sources else result.shape
        if kind in ("softmax", "reduce"):
            return self._not_along(kind_name, self.tensors[read[0]], result, text)
        if kind_name == "GenericCpu":
            return ON_THE_HOST
        if kind == "reshape" and self.chip.is_cv:
            return "reshapes work on global memory"
        if kind == "reshape":
            kept = source[:2] == result.shape[:2]
            return "" if kept else "it moves values between lanes"
        if kind in _MOVES_DATA:
            return f"{kind_name} works on global memory"
        if self.chip.is_cv and kind_name == "Cast":
            return "conversions to float work on global memory"
        if self.chip.is_cv and kind == "concat" and _integer(text, "axis", 1) != 1:
            return "only channels are joined in local memory"
        if self.chip.is_cv and kind == "binary" and len(set(sources)) > 1:
            return "what is computed of values of different shapes works on global memory"
        if self.chip.is_cv and kind == "pad" and "constant" not in text:
            return "padding by other values than a constant works on global memory"
        if kind == "slice" and self.ranks[result.name] > MOST_AXES:
            return OF_TOO_MANY_AXES
        if self.chip.is_cv and kind == "slice":
            cut = [axis for axis in range(4) if source[axis] != result.shape[axis]]
            in_one_piece = len(cut) == 1 and prod(source[: cut[0]]) == 1
            steps, first = _integers(text, "steps"), _begins(kind, text)[0]
            if in_one_piece or any(step != 1 for step in steps) or first % self.chip.lanes:
                return "a slice of this kind works on global memory"
        return ""

    def _not_along(self, kind_name: str, source: GroupTensor, result: GroupTensor, text: str) -> str:
        """Why a softmax or a reduction cannot work in local memory."""
        rank, sizes = self.ranks[source.name], {source.dtype_bytes, result.dtype_bytes}
        axes = _integers(text, "axes") if kind_name == "Reduce" else (_integer(text, "axis", 1),)
        alone = kind_name == "Softmax" or any(f'mode = "{mode}"' in text for mode in _REDUCED_LOCALLY)
        if self.chip.is_cv or rank != len(source.shape) or sizes != {2} or not alone:
            return f"{kind_name} works on global memory"
        return (
            ""
            if axes in ((2,), (3,))
            else f"{kind_name} along other axes than one of the last two works on global memory"
        )

    def _not_rows(self, sides: Sequence[str], result: GroupTensor, text: str) -> str:
        """Why a matrix product cannot work in local memory. sides: left and right, then the bias."""
        if self.chip.is_cv or self.tensors[sides[0]].dtype_bytes == 4:
            return "MatMul works on global memory"
        if any(self.ranks[name] != ROWS_RANK for name in (*sides[:2], result.name)):
            return NOT_OF_ROWS
        turned = any(f"{name} = true" in text for name in ("left_transpose", "right_transpose", "hdim_is_batch"))
        return "it transposes a side" if turned else ""

    def _tensor(self, name: str, type_text: str) -> GroupTensor:
        shape, size = _shape(type_text)
        tensor = GroupTensor(name, shape, size)
        self.tensors[name] = tensor
        self.ranks[name] = _rank(type_text)
        return tensor

    def _location(self, text: str) -> str:
        text = text.strip()
        return self.locations.get(text, text.strip('"'))


def _shape(type_text: str) -> tuple[Shape, int]:
    """([n, c, h, w], bytes of a value) of a tensor type; missing dimensions are 1, surplus ones fall into w."""
    match = _TENSOR.search(type_text.strip())
    if match is None:
        raise ToolError(f"a type that cannot be read: {type_text[:100]}", where=_LOWERED, remedy=_VERSION)
    sizes = [int(part) for part in match.group(1).split("x") if part]
    padded = [*sizes, 1, 1, 1, 1][: max(4, len(sizes))]
    element = match.group(2)
    if element.startswith("!quant.calibrated<"):
        element = element.removeprefix("!quant.calibrated<")
    elif element.startswith("!quant.uniform<"):
        element = element.removeprefix("!quant.uniform<")
    bits = _BITS.match(element)
    return (padded[0], padded[1], padded[2], prod(padded[3:])), max(int(bits.group(1)) // 8, 1) if bits else 4


def _rank(type_text: str) -> int:
    match = _TENSOR.search(type_text.strip())
    return match.group(1).count("x") if match is not None else 0


def _integer(text: str, attribute: str, default: int) -> int:
    match = re.search(rf"\b{attribute} = (-?\d+)", text)
    return int(match.group(1)) if match else default


def _integers(text: str, attribute: str) -> tuple[int, ...]:
    match = re.search(rf"\b{attribute} = \[([-\d, ]*)\]", text)
    return tuple(int(part) for part in match.group(1).split(",") if part.strip()) if match else ()


def _window(text: str) -> Window:
    kernel, strides = _integers(text, "kernel_shape"), _integers(text, "strides") or (1, 1)
    pads, dilations = _integers(text, "pads") or (0, 0, 0, 0), _integers(text, "dilations") or (1, 1)
    return Window(*kernel, *strides, *dilations, *pads)


def _begins(kind: Kind, text: str) -> tuple[int, ...]:
    if kind == "slice":
        return _integers(text, "offset")[1:4]
    if kind == "pad":
        return _integers(text, "paddings")[2:4]
    return ()


def _function(kind_name: str, text: str) -> str:
    if kind_name == "Interp":
        mode = "linear" if "interp_mode linear" in text else "nearest"
        coordinates = re.search(r"interp_coord (\w+)", text)
        return f"{mode} {coordinates.group(1) if coordinates else 'half_pixel'}"
    if kind_name == "Pad":
        return "constant" if "constant" in text else "reflect"
    return kind_name.lower()
