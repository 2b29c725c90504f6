"""ConvTranspose with constant weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from nnkit.graph.read.conv import conv_constants
from nnkit.graph.read.operands import image_hw
from nnkit.graph.read.padding import Pads
from nnkit.graph.read.window import Pair, pair
from nnkit.graph.refusal import Refused
from nnkit.graph.view import Node, ReadableGraph


@dataclass(frozen=True)
class TransposedWindow:
    """The window of a transposed convolution.

    pads: rows and columns that are cut off the full result (`output_padding` added), worked out where the node leaves
    them to `auto_pad` or `output_shape`.
    """

    kernel: Pair
    strides: Pair
    dilations: Pair
    pads: Pads
    output_padding: Pair
    input_hw: Pair
    output_hw: Pair


@dataclass(frozen=True, eq=False)
class ConvTranspose(TransposedWindow):
    """A 2-D transposed convolution. weight: [I, O / groups, kh, kw]; bias: [O], None without."""

    data: str
    weight: NDArray[Any]
    bias: NDArray[Any] | None
    groups: int

    @property
    def output_channels(self) -> int:
        """O."""
        return int(self.weight.shape[1]) * self.groups


def read_conv_transpose(graph: ReadableGraph, node: Node) -> ConvTranspose:
    """Read a ConvTranspose.

    Raises Refused for computed weights or bias, and as `read_transposed_window`.
    """
    weight, bias = conv_constants(graph, node)
    window = read_transposed_window(graph, node)
    return ConvTranspose(
        **vars(window), data=node.inputs[0], weight=weight, bias=bias, groups=node.integer("group", 1)
    )


def read_transposed_window(graph: ReadableGraph, node: Node, *, one_row: bool = False) -> TransposedWindow:
    """The window of a ConvTranspose. one_row: take one over one dimension too, as one over a map of height 1.

    Raises Refused for other numbers of dimensions, for negative padding, and where the output has another size than
    the parameters give.
    """
    shape, result = graph.shape(node.inputs[0]), graph.shape(node.output)
    kernel = graph.shape(node.inputs[1])[2:]
    rank = len(kernel)
    is_row = one_row and rank == 1 and len(shape) == 3
    input_hw, output_hw = ((1, shape[2]), (1, result[2])) if is_row else (image_hw(shape), image_hw(result))
    sides, strides = pair(kernel), pair(node.ints("strides", (1,) * rank))
    dilations = pair(node.ints("dilations", (1,) * rank))
    extra = pair(node.ints("output_padding", (0,) * rank), absent=0)
    auto = node.text("auto_pad", "NOTSET")
    states_pads = auto == "NOTSET" and "output_shape" not in node.attributes
    pads = node.ints("pads", (0,) * (2 * rank))
    begins, ends = list(pair(pads[:rank], absent=0)), list(pair(pads[rank:], absent=0))
    for axis in (0, 1):
        full = (input_hw[axis] - 1) * strides[axis] + (sides[axis] - 1) * dilations[axis] + 1 + extra[axis]
        total = full - output_hw[axis]
        if not states_pads:
            # ONNX: SAME_UPPER puts the odd one at the end; every other mode with output_shape at the start.
            begins[axis] = 0 if auto == "VALID" else (total // 2 if auto == "SAME_UPPER" else total - total // 2)
            ends[axis] = total - begins[axis]
        if min(begins[axis], ends[axis]) < 0:
            raise Refused("it has negative padding")
        if begins[axis] + ends[axis] != total:
            raise Refused(f"its output has {output_hw[axis]} rows or columns, its parameters give another number")
    return TransposedWindow(
        kernel=sides,
        strides=strides,
        dilations=dilations,
        pads=(begins[0], begins[1], ends[0], ends[1]),
        output_padding=extra,
        input_hw=input_hw,
        output_hw=output_hw,
    )
