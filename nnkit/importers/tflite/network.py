"""A TFLite file that may be anything -> its tensors and operators, or a clear refusal.

The flatbuffer is read by the package `tflite`, which is generated from TensorFlow's schema. It checks nothing itself:
lengths are held against the size of the file before anything is made of them.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.errors import ModelError, ToolError
from nnkit.importers.tflite.sparse import written_out
from nnkit.installation import install_command
from nnkit.names import NamePool
from nnkit.reading import read_regular_file
from nnkit.trust import check_layers, check_names

_IDENTIFIER = b"TFL3"
_DAMAGED = (struct.error, IndexError, ValueError, TypeError, AttributeError, OverflowError, KeyError, MemoryError)
_STATE = frozenset({"VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE", "CALL_ONCE"})
_FLOW = frozenset({"IF", "WHILE", "STABLEHLO_WHILE", "STABLEHLO_CASE"})
_TYPES: Mapping[str, str] = {
    "FLOAT32": "f4",
    "FLOAT16": "f2",
    "FLOAT64": "f8",
    "INT8": "i1",
    "UINT8": "u1",
    "INT16": "i2",
    "UINT16": "u2",
    "INT32": "i4",
    "UINT32": "u4",
    "INT64": "i8",
    "BOOL": "?",
}


@dataclass(frozen=True, eq=False)
class Quantised:
    """How stored integers stand for real values: (q - zero_point) * scale, along `axis` where there are several."""

    scale: NDArray[np.float32]
    zero_point: NDArray[np.int64]
    axis: int

    @property
    def per_channel(self) -> bool:
        """Whether it has more than one scale."""
        return self.scale.size > 1

    def same(self, other: Quantised | None) -> bool:
        """Whether stored integers mean the same there."""
        return (
            other is not None
            and np.array_equal(self.scale, other.scale)
            and np.array_equal(self.zero_point, other.zero_point)
        )


@dataclass(frozen=True, eq=False)
class TfliteTensor:
    """A tensor as the file has it: channels last. kind: the file's type. values: of a constant, where it is read."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    quantised: Quantised | None
    values: NDArray[Any] | None
    kind: str

    @property
    def stores_integers(self) -> bool:
        """Whether it is quantised to 8 or 16 bits."""
        return self.quantised is not None and self.dtype.kind in "iu" and self.dtype.itemsize <= 2

    def real(self) -> NDArray[Any]:
        """What the values of a constant stand for."""
        if self.values is None:
            raise ValueError("computed, and not a constant")
        form = self.quantised
        if form is None or self.dtype.kind == "f":
            return self.values
        shape = [1] * self.values.ndim
        if form.per_channel:
            shape[form.axis] = -1
        scale, zero = form.scale.astype(np.float64).reshape(shape), form.zero_point.reshape(shape)
        return np.asarray((self.values - zero) * scale)


@dataclass(frozen=True, eq=False)
class TfliteOperator:
    """kind: the builtin's name (CONV_2D). inputs, outputs: numbers of tensors, -1 for none. options: by name."""

    kind: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Mapping[str, Any]

    def option(self, name: str, default: Any = 0) -> Any:
        """An option, or the schema's default where the file does not write it."""
        return self.options.get(name, default)


@dataclass(frozen=True, eq=False)
class TfliteNetwork:
    """The first subgraph of a file; the only one that is run."""

    tensors: tuple[TfliteTensor, ...]
    operators: tuple[TfliteOperator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def read_tflite(path: Path) -> TfliteNetwork:
    """The network in `path`.

    Raises:
        UserFileError: there is no such file, or it cannot be read.
        ModelError: it is no TFLite file, is damaged, or has more than one subgraph.
        ToolError: the extra `tflite` is not installed.
    """
    data = read_regular_file(path, what="the model file")
    where = str(path)
    if data[4:8] != _IDENTIFIER:
        raise ModelError("the file is not a TFLite model", where=where, remedy="name a .tflite file")
    try:
        import tflite
    except ImportError as error:
        raise ToolError(
            "TFLite files are read by the package `tflite`, which is not installed",
            where=where,
            remedy=install_command("tflite"),
        ) from error
    try:
        return _network(tflite, data, where)
    except _DAMAGED as error:
        raise ModelError(
            "the TFLite file is truncated or damaged", where=where, remedy="convert the network again"
        ) from error


def _network(tflite: Any, data: bytes, where: str) -> TfliteNetwork:
    model = tflite.Model.GetRootAsModel(data, 0)
    codes = [model.OperatorCodes(index) for index in range(_count(model.OperatorCodesLength(), data))]
    kinds = [_kind(tflite, code) for code in codes]
    graphs = [model.Subgraphs(index) for index in range(_count(model.SubgraphsLength(), data))]
    check_layers(sum(_count(each.OperatorsLength(), data) for each in graphs), where)
    written = [[each.Operators(index) for index in range(each.OperatorsLength())] for each in graphs]
    _check_single({kinds[each.OpcodeIndex()] for part in written for each in part}, len(graphs), where)
    graph = graphs[0]
    check_layers(sum(max(each.OutputsLength(), 1) for each in written[0]), where)  # a SPLIT is one for each output
    check_names((_written_name(graph.Tensors(index)) for index in range(_count(graph.TensorsLength(), data))), where)
    names = NamePool()
    tensors = tuple(
        _tensor(tflite, model, graph.Tensors(index), names) for index in range(_count(graph.TensorsLength(), data))
    )
    operators = tuple(_operator(tflite, kinds[each.OpcodeIndex()], each, len(tensors)) for each in written[0])
    inputs, outputs = (
        tuple(_indices(numbers, len(tensors))) for numbers in (graph.InputsAsNumpy(), graph.OutputsAsNumpy())
    )
    return _with_float_constants(TfliteNetwork(tensors, operators, inputs, outputs))


def _with_float_constants(network: TfliteNetwork) -> TfliteNetwork:
    """DEQUANTIZE or DENSIFY of a constant is a constant: weights stored as float16, as integers, or without zeros."""
    tensors, left = list(network.tensors), []
    for operator in network.operators:
        moves = operator.kind in ("DEQUANTIZE", "DENSIFY") and operator.inputs
        stored = tensors[operator.inputs[0]] if moves and operator.inputs[0] >= 0 else None
        if stored is None or stored.values is None:
            left.append(operator)
            continue
        (result,) = operator.outputs
        values = stored.real().astype(np.float32) if operator.kind == "DEQUANTIZE" else stored.values
        tensors[result] = replace(tensors[result], values=values)
    return replace(network, tensors=tuple(tensors), operators=tuple(left))


def _check_single(kinds: Set[str], subgraphs: int, where: str) -> None:
    """Raises ModelError, saying what was found, for state in variables and for more than one subgraph."""
    state, flow = sorted(kinds & _STATE), sorted(kinds & _FLOW)
    if state:
        raise ModelError(
            f"the network keeps state in variables of the file ({', '.join(state)}), as streaming networks do",
            where=where,
            remedy="convert it with its state as inputs and outputs, or as the network of a whole sequence",
        )
    if flow:
        raise ModelError(
            f"the network has control flow ({', '.join(flow)}), and {subgraphs} subgraphs",
            where=where,
            remedy="convert it without: recurrent layers unrolled (`unroll=True` in Keras)"
            if "WHILE" in flow
            else "convert the branch that is used",
        )
    if subgraphs != 1:
        raise ModelError(
            f"the TFLite file has {subgraphs} subgraphs, one for each of its signatures; one can be imported",
            where=where,
            remedy="convert the signature that is used alone",
        )


def _count(number: int, data: bytes) -> int:
    if number > len(data):
        raise ValueError("more entries than bytes")
    return number


def _indices(numbers: Any, count: int) -> list[int]:
    """Numbers of tensors. Raises ValueError for one that there is not."""
    indices = [int(number) for number in np.atleast_1d(numbers)]
    if any(not -1 <= index < count for index in indices):
        raise ValueError("a tensor that there is not")
    return indices


def _tensor(tflite: Any, model: Any, tensor: Any, names: NamePool) -> TfliteTensor:
    types = {number: name for name, number in vars(tflite.TensorType).items() if name.isupper()}
    kind = types.get(tensor.Type(), f"type {tensor.Type()}")
    # Of layers that were fused, the converter joins the names.
    name = names.free(_written_name(tensor).split(";")[0] or "tensor")
    shape = tuple(int(size) for size in np.atleast_1d(tensor.ShapeAsNumpy())) if tensor.ShapeLength() else ()
    if any(size < 0 for size in shape) or len(shape) > 8:
        raise ValueError("a shape that cannot be")
    if kind not in _TYPES:
        return TfliteTensor(name, shape, np.dtype(object), None, None, kind)
    dtype = np.dtype(_TYPES[kind])
    buffer = model.Buffers(tensor.Buffer())
    values = None
    if buffer is not None and buffer.DataLength():
        content = np.asarray(buffer.DataAsNumpy(), np.uint8).tobytes()
        sparsity = tensor.Sparsity()
        if sparsity is None and len(content) != math.prod(shape) * dtype.itemsize:
            raise ValueError("other bytes than its shape has")
        values = np.frombuffer(content, dtype.newbyteorder("<")).astype(dtype)
        values = values.reshape(shape) if sparsity is None else written_out(sparsity, values, shape)
    return TfliteTensor(name, shape, dtype, _quantised(tensor.Quantization(), shape, name), values, kind)


def _written_name(tensor: Any) -> str:
    return str((tensor.Name() or b"").decode("utf-8").replace("\0", ""))


def _quantised(parameters: Any, shape: tuple[int, ...], name: str) -> Quantised | None:
    if parameters is None or not parameters.ScaleLength():
        return None
    scale = np.asarray(parameters.ScaleAsNumpy(), np.float32)
    zero = np.asarray(
        parameters.ZeroPointAsNumpy() if parameters.ZeroPointLength() else np.zeros(scale.size), np.int64
    )
    axis = int(parameters.QuantizedDimension()) if len(shape) > 1 else 0  # of biases, older converters write 3
    if zero.size == 1:
        zero = np.repeat(zero, scale.size)
    if zero.size != scale.size:
        raise ValueError("another number of scales than zero points")
    wrong = scale[~(np.isfinite(scale) & (scale > 0))]
    if wrong.size:
        raise ModelError(
            f"the scale of tensor '{name}' is {wrong[0]:g}; a scale is above 0",
            where=name,
            remedy="calibrate with inputs that reach this tensor, and convert the network again",
        )
    if scale.size > 1 and (axis >= len(shape) or shape[axis] != scale.size):
        raise ValueError("another number of scales than channels")
    return Quantised(scale, zero, axis)


def _kind(tflite: Any, code: Any) -> str:
    """The builtin's name, or the custom operator's own."""
    number = max(int(code.BuiltinCode()), int(code.DeprecatedBuiltinCode()))
    kind = next(
        (name for name, value in vars(tflite.BuiltinOperator).items() if value == number), f"BUILTIN_{number}"
    )
    return (code.CustomCode() or b"CUSTOM").decode("utf-8") if kind == "CUSTOM" else kind


def _operator(tflite: Any, kind: str, operator: Any, tensors: int) -> TfliteOperator:
    inputs, outputs = (
        tuple(_indices(numbers, tensors)) if count else ()
        for numbers, count in (
            (operator.InputsAsNumpy(), operator.InputsLength()),
            (operator.OutputsAsNumpy(), operator.OutputsLength()),
        )
    )
    if any(index < 0 for index in outputs):
        raise ValueError("a result that there is not")
    return TfliteOperator(kind, inputs, outputs, _options(tflite, operator))


def _options(tflite: Any, operator: Any) -> dict[str, Any]:
    """The scalars and vectors of the operator's table of options, by the schema's names."""
    number = operator.BuiltinOptionsType()
    name = next((key for key, value in vars(tflite.BuiltinOptions).items() if value == number), "NONE")
    table, kind = operator.BuiltinOptions(), getattr(tflite, name, None)
    if table is None or kind is None:
        return {}
    options = kind()
    options.Init(table.Bytes, table.Pos)
    names = [key for key in vars(kind) if key[0].isupper() and "GetRootAs" not in key and key != "Init"]
    vectors = {key.removesuffix("AsNumpy") for key in names if key.endswith("AsNumpy")}
    values: dict[str, Any] = {}
    for key in names:
        base = key.removesuffix("Length").removesuffix("IsNone").removesuffix("AsNumpy")
        if base in vectors or key.endswith("BufferHasIdentifier"):
            continue
        values[key] = getattr(options, key)()
    for key in vectors:
        if getattr(options, f"{key}Length")():
            values[key] = tuple(int(each) for each in getattr(options, f"{key}AsNumpy")())
    return values
