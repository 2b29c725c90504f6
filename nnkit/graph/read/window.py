"""The window of a convolution or a pool, with the padding that is really read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nnkit.graph.read.operands import image_hw
from nnkit.graph.read.padding import Pads, explicit_pads
from nnkit.graph.refusal import Refused
from nnkit.graph.view import Node, ReadableGraph

Pair = tuple[int, int]
"""(height, width)."""


@dataclass(frozen=True)
class SlidingWindow:
    """A window over height and width. pads: as stated, `auto_pad` worked out; see `pads_read`."""

    kernel: Pair
    strides: Pair
    dilations: Pair
    pads: Pads
    ceil_mode: bool
    input_hw: Pair
    output_hw: Pair

    @property
    def pads_read(self) -> Pads:
        """The padding that is really read.

        Rows and columns that the stride leaves unread do not count; where ceil_mode lets a window reach beyond the
        stated padding, they count as well.
        """
        ends = []
        for axis in (0, 1):
            span = (self.kernel[axis] - 1) * self.dilations[axis] + 1
            last = (self.output_hw[axis] - 1) * self.strides[axis] - self.pads[axis] + span
            ends.append(max(0, last - self.input_hw[axis]))
        return self.pads[0], self.pads[1], ends[0], ends[1]

    @property
    def reads_padding(self) -> bool:
        """Whether any padded element is read."""
        return any(self.pads_read)

    @property
    def has_partial_windows(self) -> bool:
        """Whether a window reaches beyond the stated padding (only with ceil_mode)."""
        return self.pads_read[2] > self.pads[2] or self.pads_read[3] > self.pads[3]


def read_window(graph: ReadableGraph, node: Node, *, one_row: bool = False) -> SlidingWindow:
    """The window of a Conv, MaxPool, AveragePool or LpPool.

    one_row: take a window over one dimension too, as one over a map of height 1.

    Raises Refused for other numbers of dimensions, and where the output has another size than the window gives.
    """
    shape, result = graph.shape(node.inputs[0]), graph.shape(node.output)
    kernel = node.ints("kernel_shape") or graph.shape(node.inputs[1])[2:]
    rank = len(kernel)
    if one_row and rank == 1 and len(shape) == 3:
        input_hw, output_hw = (1, shape[2]), (1, result[2])
    elif rank != 2:
        raise Refused(f"its window slides over {rank} dimensions; only height and width are supported")
    else:
        input_hw, output_hw = image_hw(shape), image_hw(result)
    sides = pair(kernel)
    strides, dilations = pair(node.ints("strides", (1,) * rank)), pair(node.ints("dilations", (1,) * rank))
    stated = node.ints("pads", (0,) * (2 * rank))
    window = SlidingWindow(
        kernel=sides,
        strides=strides,
        dilations=dilations,
        pads=explicit_pads(
            node.text("auto_pad", "NOTSET"),
            stated if rank == 2 else (0, stated[0], 0, stated[1]),
            kernel=sides,
            strides=strides,
            dilations=dilations,
            input_hw=input_hw,
            output_hw=output_hw,
        ),
        ceil_mode=bool(node.integer("ceil_mode", 0)),
        input_hw=input_hw,
        output_hw=output_hw,
    )
    check_size(window)
    return window


def check_size(window: SlidingWindow) -> None:
    """Raises Refused where the output has another size than the window and the padding that is read give."""
    top, left, bottom, right = window.pads_read
    given = []
    for axis, padded in enumerate((window.input_hw[0] + top + bottom, window.input_hw[1] + left + right)):
        span = (window.kernel[axis] - 1) * window.dilations[axis] + 1
        given.append((padded - span) // window.strides[axis] + 1)
    if tuple(given) != window.output_hw:
        raise Refused(f"its window gives {tuple(given)} rows and columns, the graph says {window.output_hw}")


def pair(values: Sequence[int], absent: int = 1) -> Pair:
    """(height, width) of numbers for two dimensions, or for one: a row, whose height is `absent`."""
    return (absent, int(values[0])) if len(values) == 1 else (int(values[0]), int(values[1]))
