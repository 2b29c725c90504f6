"""TFLite files made by hand, with the classes that LiteRT generates from the schema: nnkit reads by others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from numpy.typing import NDArray

TYPES = {"f4": 0, "f2": 1, "i4": 2, "i8": 4, "i2": 7, "i1": 9}
SCALE = {"i1": 0.05, "i2": 0.0005}
ZERO = {"i1": -3, "i2": 0}


@dataclass
class TfliteFile:
    """A network under construction. dtype: of activations, `f4`, `i1` or `i2`; weights are then i1 per channel."""

    dtype: str
    tensors: list[Any] = field(default_factory=list)
    buffers: list[Any] = field(default_factory=lambda: [schema.BufferT()])
    operators: list[Any] = field(default_factory=list)
    codes: list[int] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = np.random.default_rng(1)

    def tensor(
        self,
        shape: Sequence[int],
        dtype: str | None = None,
        values: NDArray[Any] | None = None,
        scale: Sequence[float] = (),
        zero: Sequence[int] = (),
        axis: int = 0,
    ) -> int:
        """A tensor; one of the network's type has its scale."""
        kind = dtype or self.dtype
        made = schema.TensorT()
        made.name, made.shape, made.type = f"t{len(self.tensors)}".encode(), list(shape), TYPES[kind]
        made.buffer = 0
        if values is not None:
            made.buffer = len(self.buffers)
            buffer = schema.BufferT()
            buffer.data = np.frombuffer(values.astype(f"<{kind}").tobytes(), np.uint8)
            self.buffers.append(buffer)
        if dtype is None and kind in SCALE and not scale:
            scale, zero = (SCALE[kind],), (ZERO[kind],)
        if len(scale):
            made.quantization = schema.QuantizationParametersT()
            made.quantization.scale = np.array(scale, np.float32)
            made.quantization.zeroPoint = np.array(zero, np.int64)
            made.quantization.quantizedDimension = axis
        self.tensors.append(made)
        return len(self.tensors) - 1

    def input(self, *shape: int) -> int:
        """An input of the network."""
        self.inputs.append(self.tensor(shape))
        return self.inputs[-1]

    def ints(self, *numbers: int) -> int:
        """Constants of a shape, of axes."""
        return self.tensor((len(numbers),), "i4", np.array(numbers))

    def pairs(self, *pairs: tuple[int, int]) -> int:
        """Constants of pads."""
        return self.tensor((len(pairs), 2), "i4", np.array(pairs))

    def weights(self, shape: Sequence[int], axis: int) -> tuple[int, int]:
        """Weights along `axis` of their channels, and the biases."""
        channels = shape[axis]
        if self.dtype == "f4":
            values = self._random.normal(0, 0.3, shape)
            return self.tensor(shape, "f4", values), self.tensor(
                (channels,), "f4", self._random.normal(0, 0.3, channels)
            )
        scales = self._random.uniform(0.001, 0.004, channels)
        integers = self._random.integers(-127, 128, shape)
        biases = self._random.integers(-2000, 2000, channels)
        weight = self.tensor(shape, "i1", integers, scales, [0] * channels, axis)
        kind = "i4" if self.dtype == "i1" else "i8"
        units = np.float32(SCALE[self.dtype]) * scales.astype(np.float32)
        return weight, self.tensor((channels,), kind, biases, units, [0] * channels)

    def op(
        self,
        kind: str,
        inputs: Sequence[int],
        shape: Sequence[int],
        options: str = "",
        scale: tuple[float, int] | None = None,
        **values: Any,
    ) -> int:
        """An operator of one result, of the network's scale or of `scale` with its zero point."""
        result = self.tensor(shape, None, None, *(([scale[0]], [scale[1]]) if scale and self.dtype != "f4" else ()))
        self.outputs_of(kind, inputs, [result], options, values)
        return result

    def outputs_of(
        self, kind: str, inputs: Sequence[int], results: Sequence[int], options: str, values: Mapping[str, Any]
    ) -> None:
        """An operator with any results."""
        number = getattr(schema.BuiltinOperator, kind)
        if number not in self.codes:
            self.codes.append(number)
        made = schema.OperatorT()
        made.opcodeIndex, made.inputs, made.outputs = self.codes.index(number), list(inputs), list(results)
        if options:
            made.builtinOptionsType = getattr(schema.BuiltinOptions, options)
            made.builtinOptions = getattr(schema, f"{options}T")()
            for name, value in values.items():
                setattr(made.builtinOptions, name, value)
        self.operators.append(made)

    def write(self, path: Path, *outputs: int) -> Path:
        """The file."""
        model, graph = schema.ModelT(), schema.SubGraphT()
        graph.tensors, graph.operators = self.tensors, self.operators
        graph.inputs, graph.outputs = self.inputs, list(outputs)
        model.version, model.subgraphs, model.buffers = 3, [graph], self.buffers
        model.operatorCodes = []
        for number in self.codes:
            code = schema.OperatorCodeT()
            code.builtinCode, code.deprecatedBuiltinCode, code.version = number, min(number, 127), 1
            model.operatorCodes.append(code)
        builder = flatbuffers.Builder(1024)
        builder.Finish(model.Pack(builder), b"TFL3")
        path.write_bytes(bytes(builder.Output()))
        return path
