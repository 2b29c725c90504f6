"""What the operators of a TFLite network are written into: an ONNX graph, values of four dimensions channels first.

A tensor of four dimensions is kept in the order in which it was made: channels first behind convolutions and pools,
channels last behind reshapes. Whoever needs the other order gets a Transpose. A quantised value is written as what
makes it in float, QuantizeLinear and DequantizeLinear, whose integers are those of the file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from nnkit.graph.refusal import Refused
from nnkit.importers.tflite.network import Quantised, TfliteNetwork, TfliteOperator, TfliteTensor
from nnkit.names import NamePool

Order = Literal["first", "last"]
TO_FIRST, TO_LAST = (0, 3, 1, 2), (0, 2, 3, 1)
_TANH = 4
_ACTIVATIONS = {1: (0.0, math.inf), 2: (-1.0, 1.0), 3: (0.0, 6.0)}  # NONE is 0; RELU, RELU_N1_TO_1, RELU6


@dataclass
class Builder:
    """The graph so far. values: by number of a tensor, what has it in float, by order."""

    network: TfliteNetwork
    names: NamePool
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)
    values: dict[int, dict[Order, str]] = field(default_factory=dict)

    @cached_property
    def _of_integers(self) -> bool:
        """Whether computed values are stored as integers, not only weights."""
        return any(tensor.values is None and tensor.stores_integers for tensor in self.network.tensors)

    def tensor(self, index: int) -> TfliteTensor:
        """The tensor as the file has it."""
        return self.network.tensors[index]

    def order_of(self, index: int) -> Order:
        """In which order it was made."""
        return next(iter(self.values[index])) if index in self.values else "last"

    def read(self, index: int, order: Order = "last") -> str:
        """The tensor in float, with its channels there where it has four dimensions. Raises Refused."""
        tensor = self.tensor(index)
        if tensor.values is not None:
            turns = order == "first" and len(tensor.shape) == 4
            return self.constant(index, lambda values: values.transpose(TO_FIRST) if turns else values)
        made = self.values.get(index)
        if made is None:
            raise Refused(f"it reads '{tensor.name}', which nothing computes")
        if len(tensor.shape) != 4:
            return next(iter(made.values()))
        if order not in made:
            source = next(iter(made.values()))
            turned = self.names.free(f"{tensor.name}.channels_{order}")
            perm = TO_FIRST if order == "first" else TO_LAST
            self.node("Transpose", [source], turned, perm=perm)
            made[order] = turned
        return made[order]

    def read_flat(self, index: int) -> str:
        """The tensor in any order in which its values follow one another as in the file."""
        return self.read(index, self.order_of(index) if same_either_way(self.tensor(index).shape) else "last")

    def constant(
        self,
        index: int,
        moved: Callable[[NDArray[Any]], NDArray[Any]] = lambda values: values,
        axis: int | None = None,
    ) -> str:
        """A constant in float. moved: brings its values to another form; axis: of its scales, in that form.

        Raises Refused where it is computed.
        """
        tensor = self.tensor(index)
        if tensor.values is None:
            raise no_constant(tensor)
        values, form = np.ascontiguousarray(moved(tensor.values)), tensor.quantised
        if form is None or tensor.dtype.kind == "f":
            kept = values.astype(np.float32) if tensor.dtype.kind == "f" else values
            return self.array(tensor.name, kept)
        if not self._of_integers or values.dtype == np.int64 or (form.per_channel and axis is None):
            return self.array(tensor.name, np.ascontiguousarray(moved(tensor.real())).astype(np.float32))
        return self._dequantised(self.array(tensor.name, values), tensor, form, axis)

    def array(self, near: str, values: NDArray[Any] | np.generic) -> str:
        """A new constant named after `near`."""
        name = self.names.free(near)
        self.constants.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def node(self, kind: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        """A node of one result, named after it."""
        self.nodes.append(helper.make_node(kind, list(inputs), [output], name=output, **attributes))
        return output

    def step(self, kind: str, inputs: Sequence[str], near: str, **attributes: Any) -> str:
        """A node whose result is a tensor of none in the file."""
        return self.node(kind, inputs, self.names.free(near), **attributes)

    def make(
        self,
        index: int,
        kind: str,
        inputs: Sequence[str],
        order: Order = "last",
        activation: int = 0,
        **attributes: Any,
    ) -> None:
        """The node that computes a tensor of the file, the activation behind it, and its quantisation.

        Raises Refused for an activation that there is not.
        """
        tensor = self.tensor(index)
        name = self._float_name(index)
        if activation:
            linear = self.step(kind, inputs, f"{tensor.name}.linear", **attributes)
            self.nodes[-1].name = tensor.name
            self._activate(linear, name, activation)
            self.nodes[-1].name = f"{tensor.name}.activation"
        else:
            self.node(kind, inputs, name, **attributes)
        self.made(index, name, order)

    def activated(self, kind: str, inputs: Sequence[str], near: str, activation: int, **attributes: Any) -> str:
        """A node named `near` and the activation behind it, whose result is a tensor of none in the file."""
        result = self.step(kind, inputs, f"{near}.linear", **attributes)
        self.nodes[-1].name = near
        if not activation:
            return result
        output = self.names.free(f"{near}.activated")
        self._activate(result, output, activation)
        return output

    def _activate(self, source: str, output: str, activation: int) -> None:
        """The schema's fused activation. Raises Refused for one that there is not."""
        if activation == _TANH:
            self.node("Tanh", [source], output)
        elif activation in _ACTIVATIONS:
            self.clip(source, output, *_ACTIVATIONS[activation])
        else:
            raise Refused(f"its fused activation {activation} has no counterpart")

    def clip(self, source: str, output: str, low: float, high: float) -> None:
        """Relu, or Clip."""
        if (low, high) == (0.0, math.inf):
            self.node("Relu", [source], output)
            return
        bounds = [self.array(f"{output}.{what}", np.float32(value)) for what, value in (("low", low), ("high", high))]
        self.node("Clip", [source, *bounds], output)

    def made(self, index: int, name: str, order: Order = "last") -> None:
        """`name` has the tensor in float; if the file quantises it, that is written here."""
        tensor = self.tensor(index)
        if len(tensor.shape) != 4:
            order = "last"
        if tensor.stores_integers and tensor.quantised is not None:
            stored = self.names.free(f"{tensor.name}_quantized")
            parameters = self._parameters(tensor, tensor.quantised)
            self.node("QuantizeLinear", [name, *parameters], stored)
            name = self._dequantised(stored, tensor, tensor.quantised, None)
        self.values[index] = {order: name}

    def _float_name(self, index: int) -> str:
        return self.tensor(index).name

    def _parameters(self, tensor: TfliteTensor, form: Quantised) -> list[str]:
        zero = form.zero_point.astype(np.int64)
        info = np.iinfo(tensor.dtype)
        if np.any(zero < info.min) or np.any(zero > info.max):
            raise Refused(f"the zero point of '{tensor.name}' is outside of its type", "convert the network again")
        shape = form.scale.shape if form.per_channel else ()
        return [
            self.array(f"{tensor.name}.scale", form.scale.reshape(shape)),
            self.array(f"{tensor.name}.zero_point", zero.astype(tensor.dtype).reshape(shape)),
        ]

    def _dequantised(self, stored: str, tensor: TfliteTensor, form: Quantised, axis: int | None) -> str:
        attributes = {"axis": axis} if form.per_channel and axis is not None else {}
        return self.step(
            "DequantizeLinear", [stored, *self._parameters(tensor, form)], f"{tensor.name}_dequantized", **attributes
        )


def no_constant(tensor: TfliteTensor) -> Refused:
    """Why the numbers of a tensor are not known here."""
    if tensor.dtype == object:
        return Refused(f"'{tensor.name}' has type {tensor.kind}, which is not imported")
    return Refused(f"'{tensor.name}' is computed, and not a constant")


def same_either_way(shape: Sequence[int]) -> bool:
    """Whether the values of a tensor follow one another alike with its channels first and last."""
    return len(shape) != 4 or shape[3] == 1 or shape[1] * shape[2] == 1


def axis_in(order: Order, axis: int, rank: int) -> int:
    """Where an axis of the file's tensor is in that order."""
    axis %= rank
    if rank != 4 or order == "last":
        return axis
    return (0, 2, 3, 1)[axis]


def in_order(order: Order, by_axis: Sequence[int]) -> list[int]:
    """Numbers by axis of the file's tensor, by axis of that order."""
    if len(by_axis) != 4 or order == "last":
        return list(by_axis)
    return [by_axis[axis] for axis in TO_FIRST]


def computed(build: Builder, operator: TfliteOperator, position: int) -> int:
    """The number of an input that the operator must have. Raises Refused where it has none."""
    if position >= len(operator.inputs) or operator.inputs[position] < 0:
        raise Refused(f"its input {position} is missing")
    return operator.inputs[position]


def known(build: Builder, operator: TfliteOperator, position: int) -> NDArray[Any]:
    """The numbers of an input that must be constant. Raises Refused."""
    tensor = build.tensor(computed(build, operator, position))
    if tensor.values is None:
        raise no_constant(tensor)
    return tensor.values
