"""Pools that round their size up (`ceil_mode`), where a window would begin in the padding at the end.

PyTorch and ONNX Runtime leave such a window out. ONNX's inference of shapes counts it, and some exporters write its
shape into the file. With just the padding at the end that the windows read, and without rounding, all agree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nnkit.errors import ModelError
from nnkit.graph.view import Node
from nnkit.importers.value_dims import value_dims

if TYPE_CHECKING:
    import onnx

_POOLS = ("MaxPool", "AveragePool", "LpPool")


def leave_windows_out(graph: onnx.GraphProto, where: str) -> bool:
    """Write the first such pool of `graph` without `ceil_mode`; whether there was one.

    The shapes behind it are to be inferred anew. graph: with all shapes that can be inferred.

    Raises:
        ModelError: along another axis it reads more padding than is stated, and that padding would be counted in an
            average, or be as wide as the window, which ONNX Runtime does not take.
    """
    dims = {value.name: value_dims(value) for value in (*graph.value_info, *graph.input)}
    for proto in graph.node:
        if proto.op_type not in _POOLS or proto.domain:
            continue
        node = Node.of(proto)
        shape = dims.get(node.input(0))
        if not node.integer("ceil_mode", 0) or shape is None or -1 in shape:
            continue
        pads = _pads(node, shape[2:])
        if pads is None:
            continue
        stated, kernel = _stated(node, len(pads)), node.ints("kernel_shape")
        beyond = [a > b for a, b in zip(pads, stated, strict=True)]
        too_wide = [a >= k for a, k in zip(pads, (*kernel, *kernel), strict=True)]
        if any(too_wide) or (node.integer("count_include_pad", 0) and any(beyond)):
            raise ModelError(
                f"layer '{node.name}' ({node.op_type}): with ceil_mode it leaves windows out along one axis and "
                "reaches beyond its padding along another, which no padding without ceil_mode says",
                where=where,
                remedy="export it without ceil_mode, with the padding that it needs",
            )
        kept = [each for each in proto.attribute if each.name not in ("ceil_mode", "pads", "auto_pad")]
        del proto.attribute[:]
        proto.attribute.extend(kept)
        proto.attribute.add(name="pads", type=7, ints=pads)  # 7: AttributeProto.INTS
        return True
    return False


def _stated(node: Node, count: int) -> tuple[int, ...]:
    """The padding as the node has it: of all axes at the beginning, then at the end."""
    return node.ints("pads", (0,) * count) if node.text("auto_pad", "NOTSET") == "NOTSET" else (0,) * count


def _pads(node: Node, sides: tuple[int, ...]) -> tuple[int, ...] | None:
    """The padding that its windows read; None where no window is left out."""
    if node.text("auto_pad", "NOTSET").startswith("SAME"):
        return None  # there are as many windows as steps
    kernel, rank = node.ints("kernel_shape"), len(sides)
    strides, dilations = node.ints("strides", (1,) * rank), node.ints("dilations", (1,) * rank)
    pads = _stated(node, 2 * rank)
    ends, left_out = [], False
    for side, k, stride, dilation, begin, end in zip(
        sides, kernel, strides, dilations, pads[:rank], pads[rank:], strict=True
    ):
        span = (k - 1) * dilation + 1
        count = -(-(side + begin + end - span) // stride) + 1
        if (count - 1) * stride >= side + begin:
            count, left_out = count - 1, True
        ends.append(max(0, (count - 1) * stride + span - side - begin))
    return (*pads[:rank], *ends) if left_out else None
