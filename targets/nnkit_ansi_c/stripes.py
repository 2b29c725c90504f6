"""The first layers of a network in stripes of rows, so that their large maps need never be whole in memory.

    x -> layer 1 -> ... -> layer k -> y      becomes      for each stripe of y: rows of x -> layer 1 -> ... -> layer k
                                                          y = the stripes, one below the other

Each stripe reads the rows of x that its windows reach; rows that two stripes need are computed twice. Windows of rows
first .. last - 1 of a result read rows first * stride - pad to (last - 1) * stride - pad + (kernel - 1) * dilation of
its input, where those outside are the padding. Every value is the same sum as before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from nnkit.graph.read.window import SlidingWindow, read_window
from nnkit.graph.refusal import Refused
from nnkit.graph.view import GraphView, Node

if TYPE_CHECKING:
    import onnx

    from nnkit.graph import Model

MARK = ".rows"
"""Between the name of a value and the number of the stripe."""
_COUNTS = (2, 3, 4, 6, 8, 12, 16)
_MOST_ENDS = 4
_WINDOWS = ("Conv", "MaxPool", "AveragePool")
# fmt: off
_ELEMENTWISE = (
    "Relu", "Clip", "LeakyRelu", "Sigmoid", "HardSigmoid", "HardSwish", "Tanh", "Elu", "Sub", "Add", "Mul", "Div",
)
# fmt: on


T = TypeVar("T")


@dataclass(frozen=True)
class Stripes:
    """In how many stripes the first layers are computed. count: None: in one, unless `limit_bytes` needs more.

    limit_bytes: most bytes of working memory; None: as many as are needed. inputs_in_arena: see the option `inputs`.
    """

    count: int | None = None
    limit_bytes: int | None = None
    inputs_in_arena: bool = False

    def least(
        self, whole: T, ends: Sequence[tuple[int, int]], make: Callable[[int, int], T], size: Callable[[T], int]
    ) -> T:
        """The network, its first layers in stripes where that is asked for or needed.

        Of the layers that may end the stripes those are taken whose working memory is the least.

        ends: how many layers there are before such an end, and the rows of its map. make: the network with so many
        layers in so many stripes. size: bytes of working memory.
        """
        if self.count == 1 or not ends or (self.count is None and self.limit_bytes is None):
            return whole
        best, least = whole, size(whole)
        for count in _COUNTS if self.count is None else (self.count,):
            if self.limit_bytes is not None and least <= self.limit_bytes and self.count is None:
                break
            for depth, rows in ends[:_MOST_ENDS]:
                if count <= rows:
                    made = make(depth, count)
                    bytes_taken = size(made)
                    best, least = (made, bytes_taken) if bytes_taken < least else (best, least)
        return best


@dataclass(frozen=True)
class Link:
    """A layer of the chain, and its window; None: it computes each value of one value."""

    node: Node
    window: SlidingWindow | None

    def rows_read(self, first: int, last: int) -> tuple[int, int]:
        """Rows of its input behind rows first .. last - 1 of its result; outside of the input they are padding."""
        if self.window is None:
            return first, last
        span = (self.window.kernel[0] - 1) * self.window.dilations[0] + 1
        return rows_behind(first, last, span, self.window.strides[0], self.window.pads[0])


def rows_behind(first: int, last: int, span: int, stride: int, pad: int) -> tuple[int, int]:
    """Rows that windows read for rows first .. last - 1 of their result; span: rows of a window, gaps included."""
    return first * stride - pad, (last - 1) * stride - pad + span


def origin(value: str) -> str:
    """The value that a stripe's value is a part of; any other is its own."""
    name, mark, number = value.rpartition(MARK)
    return name if mark and number.isdigit() else value


def head_of(graph: GraphView) -> tuple[Link, ...]:
    """The chain of layers from the only input on that can be computed in stripes."""
    if len(graph.inputs) != 1:
        return ()
    links: list[Link] = []
    value = graph.inputs[0]
    while len(graph.shape(value)) == 4 and value not in graph.outputs:
        readers = graph.consumers.get(value, ())
        if len(readers) != 1 or readers[0].inputs[0] != value or len(readers[0].results) != 1:
            break
        try:
            links.append(_link(graph, readers[0]))
        except Refused:
            break
        value = readers[0].output
    return tuple(links)


def ends_of(graph: GraphView, links: tuple[Link, ...]) -> tuple[tuple[int, int], ...]:
    """Where the stripes may end, behind what makes maps smaller: how many layers are before it, and its rows."""
    return tuple(
        (i + 1, graph.shape(link.node.output)[2])
        for i, link in enumerate(links)
        if link.window is not None and max(link.window.strides) > 1
    )


def in_stripes(model: Model, depth: int, count: int) -> Model:
    """The network with the first `depth` layers of its head in `count` stripes."""
    from onnx import helper, numpy_helper

    from nnkit.custom_ops import infer_shapes

    graph = GraphView.of(model)
    links = head_of(graph)[:depth]
    result = links[-1].node.output
    rows = graph.shape(result)[2]
    proto = model.proto()
    gone = {link.node.output for link in links}
    kept = [node for node in proto.graph.node if not gone & set(node.output)]
    striped: list[onnx.NodeProto] = []
    for number in range(count):
        first, last = rows * number // count, rows * (number + 1) // count
        striped += _stripe(graph, links, number, (first, last))
        for index, bound in enumerate(_rows_of_input(graph, links, first, last)):
            name = f"{graph.inputs[0]}{MARK}{number}.{'to' if index else 'from'}"
            proto.graph.initializer.append(numpy_helper.from_array(np.array([bound], np.int64), name))
    proto.graph.initializer.append(numpy_helper.from_array(np.array([2], np.int64), f"{graph.inputs[0]}{MARK}.axis"))
    joined = helper.make_node(
        "Concat", [f"{result}{MARK}{number}" for number in range(count)], [result], name=f"{result}{MARK}", axis=2
    )
    del proto.graph.node[:]
    proto.graph.node.extend([*striped, joined, *kept])
    information = [info for info in proto.graph.value_info if info.name not in gone - {result}]
    del proto.graph.value_info[:]
    proto.graph.value_info.extend(information)
    return replace(model, onnx_bytes=infer_shapes(proto).SerializeToString(deterministic=True))


def _link(graph: GraphView, node: Node) -> Link:
    if node.is_op(*_WINDOWS):
        window = read_window(graph, node)
        if node.is_op("AveragePool") and window.reads_padding:
            raise Refused("its average depends on where the map ends")
        if any(pad >= window.kernel[axis % 2] for axis, pad in enumerate(window.pads_read) if pad):
            raise Refused("a window lies in the padding alone")
        return Link(node, window)
    if not node.is_op(*_ELEMENTWISE):
        raise Refused("it reads more than the rows around a result's")
    for name in node.inputs[1:] if node.is_op("Sub", "Add", "Mul", "Div") else ():
        constant = graph.constant(name)
        if constant is None or max(constant.shape[-2:], default=1) > 1:
            raise Refused("its operands are whole maps")
    return Link(node, None)


def _steps(
    graph: GraphView, links: tuple[Link, ...], first: int, last: int
) -> Iterator[tuple[Link, int, int, int, int]]:
    """From the last layer to the first: the rows that it reads, and the rows of padding above and below them."""
    for link in reversed(links):
        low, high = link.rows_read(first, last)
        height = graph.shape(link.node.inputs[0])[2]
        first, last = max(low, 0), min(high, height)
        yield link, first, last, first - low, high - last


def _rows_of_input(graph: GraphView, links: tuple[Link, ...], first: int, last: int) -> tuple[int, int]:
    *_, (_, low, high, _, _) = _steps(graph, links, first, last)
    return low, high


def _stripe(graph: GraphView, links: tuple[Link, ...], number: int, rows: tuple[int, int]) -> list[onnx.NodeProto]:
    from onnx import helper

    source = graph.inputs[0]
    value = f"{source}{MARK}{number}"
    bounds = [f"{value}.from", f"{value}.to", f"{source}{MARK}.axis"]
    nodes = [helper.make_node("Slice", [source, *bounds], [value], name=value)]
    for link, _, _, above, below in reversed([*_steps(graph, links, *rows)]):
        proto = link.node.proto()
        proto.name = f"{link.node.name}{MARK}{number}"
        proto.input[0] = value
        value = f"{link.node.output}{MARK}{number}"
        proto.output[0] = value
        if link.window is not None:
            pads = {"pads": [above, link.window.pads_read[1], below, link.window.pads_read[3]]}
            _set_attributes(proto, pads)
        nodes.append(proto)
    return nodes


def _set_attributes(proto: onnx.NodeProto, values: Mapping[str, list[int]]) -> None:
    from onnx import helper

    kept = [each for each in proto.attribute if each.name not in (*values, "auto_pad", "ceil_mode")]
    del proto.attribute[:]
    proto.attribute.extend([*kept, *(helper.make_attribute(name, value) for name, value in values.items())])
