"""Reading of ONNX nodes: attributes, operands that may be inputs or attributes, windows with their real padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nnkit.graph.padding import Pads, explicit_pads

if TYPE_CHECKING:
    import onnx_ir as ir

    from nnkit.rewrite.editor import Editor


def is_op(node: ir.Node, *op_types: str) -> bool:
    """Whether `node` is one of these ops of the default domain."""
    return node.op_type in op_types and not node.domain


def int_of(node: ir.Node, name: str, default: int) -> int:
    """An integer attribute, or `default`."""
    return int(node.attributes[name].as_int()) if name in node.attributes else default


def ints_of(node: ir.Node, name: str, default: Sequence[int]) -> tuple[int, ...]:
    """A list-of-integers attribute, or `default`."""
    return tuple(int(i) for i in (node.attributes[name].as_ints() if name in node.attributes else default))


def float_of(node: ir.Node, name: str, default: float) -> float:
    """A float attribute, or `default`."""
    return float(node.attributes[name].as_float()) if name in node.attributes else default


def string_of(node: ir.Node, name: str, default: str) -> str:
    """A string attribute, or `default`."""
    return str(node.attributes[name].as_string()) if name in node.attributes else default


def operand(node: ir.Node, index: int) -> ir.Value | None:
    """Input `index`, None where it is left out."""
    return node.inputs[index] if index < len(node.inputs) else None


def data_input(node: ir.Node) -> ir.Value:
    """The first input of an op that must have one."""
    value = node.inputs[0]
    if value is None:
        raise ValueError(f"{node.op_type} without its first input")
    return value


def scalar_of(editor: Editor, value: ir.Value | None) -> float | None:
    """The number in a constant whose elements are all equal; None for anything else."""
    array = editor.array(value)
    if array is None or array.size == 0 or not np.all(array == array.flat[0]):
        return None
    return float(array.flat[0])


def per_channel(array: NDArray[Any], shape: Sequence[int]) -> NDArray[np.float64] | None:
    """[C] values of a constant that is broadcast to `shape` ([N, C, ...]) when it is equal within each channel."""
    if len(shape) < 2 or array.ndim > len(shape):
        return None
    try:
        full = np.broadcast_to(np.asarray(array, np.float64), tuple(shape))
    except ValueError:
        return None
    spatial = len(shape) - 2
    channels = np.array(full[(0, slice(None)) + (0,) * spatial])
    return channels if np.array_equal(full, np.broadcast_to(channels.reshape(-1, *[1] * spatial), shape)) else None


def axes_of(editor: Editor, node: ir.Node) -> tuple[int, ...] | None:
    """Axes of a reduction, from its second input or its attribute; None when they are absent or computed."""
    array: NDArray[Any] | None = editor.array(operand(node, 1))
    if array is not None:
        return tuple(int(axis) for axis in array.reshape(-1))
    return ints_of(node, "axes", ()) or None


def clip_bounds(editor: Editor, node: ir.Node) -> tuple[float, float] | None:
    """(low, high) of a Relu or a Clip with constant bounds, infinite where absent; None where they are computed."""
    if is_op(node, "Relu"):
        return 0.0, float("inf")
    bounds = []
    for index, absent in ((1, -np.inf), (2, np.inf)):
        value = operand(node, index)
        bound = absent if value is None else scalar_of(editor, value)
        if bound is None:
            return None
        limit = float(np.finfo(np.float32).max)
        bounds.append(float(np.inf * np.sign(bound)) if abs(bound) >= limit else float(bound))
    return bounds[0], bounds[1]


@dataclass(frozen=True)
class WindowGeometry:
    """The window of a 2-D Conv or pool: (height, width) pairs; `pads` explicit, as written or from `auto_pad`."""

    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]
    pads: Pads
    ceil_mode: bool
    input_hw: tuple[int, int]
    output_hw: tuple[int, int]

    @property
    def effective_pads(self) -> Pads:
        """The padding that is really read; rows and columns that a stride leaves unread do not count."""
        ends = []
        for axis in (0, 1):
            span = (self.kernel[axis] - 1) * self.dilations[axis] + 1
            last = (self.output_hw[axis] - 1) * self.strides[axis] - self.pads[axis] + span
            ends.append(max(0, last - self.input_hw[axis]))
        return self.pads[0], self.pads[1], ends[0], ends[1]

    @property
    def reads_padding(self) -> bool:
        """Whether any padded element is read."""
        return any(self.effective_pads)

    @property
    def has_partial_windows(self) -> bool:
        """Whether a window reaches beyond the nominal padding (only with ceil_mode)."""
        effective = self.effective_pads
        return effective[2] > self.pads[2] or effective[3] > self.pads[3]


def window_of(editor: Editor, node: ir.Node) -> WindowGeometry | None:
    """The window of a Conv, MaxPool or AveragePool; None when it is not two-dimensional."""
    input_shape = editor.shape(data_input(node))
    output_shape = editor.shape(node.outputs[0])
    if len(input_shape) != 4:
        return None
    default: Sequence[int] = ()
    if is_op(node, "Conv"):
        weight = node.inputs[1]
        default = editor.shape(weight)[2:] if weight is not None else ()
    kernel = ints_of(node, "kernel_shape", default)
    strides = ints_of(node, "strides", (1, 1))
    dilations = ints_of(node, "dilations", (1, 1))
    pads = explicit_pads(
        string_of(node, "auto_pad", "NOTSET"),
        ints_of(node, "pads", (0, 0, 0, 0)),
        kernel=kernel,
        strides=strides,
        dilations=dilations,
        input_hw=input_shape[2:],
        output_hw=output_shape[2:],
    )
    return WindowGeometry(
        kernel=(kernel[0], kernel[1]),
        strides=(strides[0], strides[1]),
        dilations=(dilations[0], dilations[1]),
        pads=pads,
        ceil_mode=bool(int_of(node, "ceil_mode", 0)),
        input_hw=(input_shape[2], input_shape[3]),
        output_hw=(output_shape[2], output_shape[3]),
    )


def set_pads(node: ir.Node, pads: Pads) -> None:
    """Write explicit padding into a Conv or pool."""
    import onnx_ir as ir

    node.attributes.pop("auto_pad", None)
    node.attributes["pads"] = ir.AttrInt64s("pads", list(pads))
