"""The first layers of a network in stripes of rows, so that their large maps need never be whole in memory.

    x -> first layers -> y      becomes      for each stripe of y: rows of x -> first layers -> rows of y
                                             y = the stripes, one below the other

Each stripe reads the rows of x that its windows reach; rows that two stripes need are computed twice. Every value is
the same sum as before. Which rows, and where stripes may end, is `row_plan`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from nnkit.graph.read.window import read_window
from nnkit.graph.refusal import Refused
from nnkit.graph.view import GraphView, Node
from nnkit_ansi_c.row_plan import Head, RowLayer, Rows, RowWindow, StripedLayer, rest_bytes
from nnkit_ansi_c.stripe_values import MARK, StripeValues

if TYPE_CHECKING:
    import onnx

    from nnkit.graph import Model
    from nnkit_ansi_c.options import AnsiCOptions
    from nnkit_ansi_c.regions import Regions

_COUNTS = (2, 3, 4, 6, 8, 12, 16)
_MOST_TRIALS = 4
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
    regions: those of values, which `limit_bytes` is the sum of, where there are several.
    """

    count: int | None = None
    limit_bytes: int | None = None
    inputs_in_arena: bool = False
    regions: Regions | None = None

    @staticmethod
    def of(options: AnsiCOptions) -> Stripes:
        """As the recipe asks for them, or may need them."""
        from nnkit_ansi_c.regions import Regions

        values = Regions.of(options.regions).values
        if values and options.stripes is None:
            return Stripes(None, sum(each.size for each in values), regions=Regions(values))
        return Stripes(options.stripes, options.arena, options.inputs == "arena")

    def working_bytes(self, one_arena: Callable[[], int], several: Callable[[Regions], int]) -> int:
        """Bytes of working memory; where it finds no room in several regions, more than `limit_bytes`.

        one_arena: what it takes as one. several: of several regions together; it raises DoesNotFitError.
        """
        from nnkit.errors import DoesNotFitError

        if self.regions is None:
            return one_arena()
        try:
            return several(self.regions)
        except DoesNotFitError:
            return max(one_arena(), (self.limit_bytes or 0) + 1)

    def fitted(
        self,
        whole: T,
        head: Head | None,
        estimate: Callable[[str, int], int],
        make: Callable[[str, int], T],
        size: Callable[[T], int],
    ) -> T:
        """The network, its first layers in stripes where that is asked for or needed.

        Of the values that may end a given number of stripes, that one is taken with which the working memory is the
        least; where a limit asks for stripes, those of the least work within it.

        estimate, make: of stripes that end at a value, so many of them: bytes of working memory, and the network.
        size: bytes of working memory.
        """
        if head is None or self.count == 1 or (self.count is None and self.limit_bytes is None):
            return whole
        best, least = whole, size(whole)
        if self.count is None and self.limit_bytes is not None and least <= self.limit_bytes:
            return whole
        counts = _COUNTS if self.count is None else (self.count,)
        choices = [(end, count) for end in head.ends for count in counts if count <= head.row_counts[end]]
        estimates = {choice: estimate(*choice) for choice in choices}
        work = {choice: head.work(*choice) for choice in choices}
        by_bytes = sorted(choices, key=lambda choice: (estimates[choice], work[choice]))[:_MOST_TRIALS]
        if self.limit_bytes is not None:
            limit = self.limit_bytes
            cheap = sorted((each for each in choices if estimates[each] <= limit), key=lambda choice: work[choice])
            by_bytes = [*cheap[:_MOST_TRIALS], *by_bytes]
        for choice in dict.fromkeys(by_bytes):
            made = make(*choice)
            bytes_taken = size(made)
            if bytes_taken < least:
                best, least = made, bytes_taken
            if self.count is None and self.limit_bytes is not None and least <= self.limit_bytes:
                break
        return best


def head_of(graph: GraphView) -> Head | None:
    """The first layers that can be computed in stripes; None: the network has several inputs, or none of them."""
    if len(graph.inputs) != 1 or len(graph.shape(graph.inputs[0])) != 4:
        return None
    (source,) = graph.inputs
    values, layers, others = {source}, [], set(graph.outputs)
    for node in graph.nodes:
        inputs = graph.data_inputs(node)
        try:
            if not values.issuperset(inputs):
                raise Refused("it reads another value")
            layers.append(_layer(graph, node))
            values.add(node.output)
        except Refused:
            others.update(inputs)
    shapes = {name: graph.shape(name) for name in values}
    return Head(
        source,
        tuple(layers),
        {name: shape[2] for name, shape in shapes.items()},
        {name: 4 * prod(shape) // shape[2] for name, shape in shapes.items()},
        frozenset(others),
    )


def estimated_bytes(graph: GraphView, head: Head, end: str, count: int) -> int:
    """About how much working memory the network takes with its first layers in so many stripes that end there."""
    gone = {layer.output for layer in head.upto(end)}
    rest = [(graph.data_inputs(node), node.results) for node in graph.nodes if node.output not in gone]
    ports = {*graph.inputs, *graph.outputs}
    names = {name for each in rest for part in each for name in part} - ports
    size = {name: 4 * prod(graph.shape(name)) for name in names}
    return max(head.live_bytes(end, count), rest_bytes(rest, size))


def in_stripes(model: Model, end: str, count: int) -> Model:
    """The network with its first layers, up to the value `end`, in `count` stripes."""
    from onnx import helper, numpy_helper

    from nnkit.custom_ops import infer_shapes

    graph = GraphView.of(model)
    head = head_of(graph)
    if head is None or end not in head.ends:
        return model
    proto = model.proto()
    gone = {layer.output for layer in head.upto(end)}
    kept = [node for node in proto.graph.node if not gone & set(node.output)]
    striped = [_Stripe(graph, head, number) for number in range(count)]
    for stripe, steps in zip(striped, head.stripes(end, count), strict=True):
        stripe.add(steps)
    bounds = {name: value for stripe in striped for name, value in stripe.bounds.items()}
    proto.graph.initializer.extend(
        numpy_helper.from_array(np.array([value], np.int64), name) for name, value in bounds.items()
    )
    parts = [f"{end}{MARK}{number}" for number in range(count)]
    joined = helper.make_node("Concat", parts, [end], name=f"{end}{MARK}", axis=2)
    del proto.graph.node[:]
    proto.graph.node.extend([*(node for stripe in striped for node in stripe.nodes), joined, *kept])
    information = [info for info in proto.graph.value_info if info.name not in gone - {end}]
    del proto.graph.value_info[:]
    proto.graph.value_info.extend(information)
    return replace(model, onnx_bytes=infer_shapes(proto).SerializeToString(deterministic=True))


def _layer(graph: GraphView, node: Node) -> RowLayer:
    shape = graph.shape(node.output)
    if len(node.results) != 1 or len(shape) != 4:
        raise Refused("it has several results, or no map")
    inputs = graph.data_inputs(node)
    work = prod(shape) // shape[2]
    if node.is_op(*_WINDOWS):
        window = read_window(graph, node)
        if inputs != node.inputs[:1]:
            raise Refused("its weights are computed")
        if node.is_op("AveragePool") and window.reads_padding:
            raise Refused("its average depends on where the map ends")
        if any(pad >= window.kernel[axis % 2] for axis, pad in enumerate(window.pads_read) if pad):
            raise Refused("a window lies in the padding alone")
        span = (window.kernel[0] - 1) * window.dilations[0] + 1
        taps = prod(graph.shape(node.inputs[1])[1:]) if node.is_op("Conv") else prod(window.kernel)
        return RowLayer(inputs, node.output, RowWindow(span, window.strides[0], window.pads[0]), work * taps)
    joined = node.is_op("Concat") and node.integer("axis", 0) % 4 == 1
    if not (joined or node.is_op(*_ELEMENTWISE)):
        raise Refused("it reads more than the rows around a result's")
    for name in node.inputs:
        constant = graph.constant(name) if name else None
        if constant is not None and (joined or max(constant.shape[-2:], default=1) > 1):
            raise Refused("a constant operand is a whole map")
    if any(graph.shape(name)[2:] != shape[2:] or not (joined or graph.shape(name) == shape) for name in inputs):
        raise Refused("an operand has another size")
    return RowLayer(inputs, node.output, None, work)


class _Stripe:
    """One stripe's nodes. bounds: constants that its slices read."""

    def __init__(self, graph: GraphView, head: Head, number: int) -> None:
        self._graph, self._source = graph, head.source
        self._values = StripeValues(head.source, head.row_counts[head.source], number)
        self.nodes: list[onnx.NodeProto] = []
        self.bounds: dict[str, int] = {}

    def add(self, steps: Sequence[StripedLayer]) -> None:
        for step in steps:
            node = self._graph.producers[step.layer.output]
            proto = node.proto()
            proto.name = self._values.named(node.name)
            for index, name in enumerate(node.inputs):
                if name in step.layer.inputs:
                    proto.input[index] = self._rows_of(name, step.read)
            proto.output[0] = self._values.add(node.output, step.made)
            if step.layer.window is not None:
                pads = read_window(self._graph, node).pads_read
                _set_attributes(proto, {"pads": [step.pad_above, pads[1], step.pad_below, pads[3]]})
            self.nodes.append(proto)

    def _rows_of(self, name: str, rows: Rows) -> str:
        from onnx import helper

        part = self._values.part(name, rows)
        if part.whole is not None:
            first, last = part.rows
            bounds = {f"{part.name}.from": first, f"{part.name}.to": last, f"{self._source}{MARK}.axis": 2}
            self.bounds |= bounds
            self.nodes.append(helper.make_node("Slice", [part.whole, *bounds], [part.name], name=part.name))
        return part.name


def _set_attributes(proto: onnx.NodeProto, values: Mapping[str, list[int]]) -> None:
    from onnx import helper

    kept = [each for each in proto.attribute if each.name not in (*values, "auto_pad", "ceil_mode")]
    del proto.attribute[:]
    proto.attribute.extend([*kept, *(helper.make_attribute(name, value) for name, value in values.items())])
