"""Products of two computed sides, one of which serves several matrices of the other, as products of larger matrices.

The heads of an attention may share one key and one value: [1, heads, N, K] x [1, 1, K, M]. What the right side is
repeated for are more rows of the left one, and what the left side is repeated for more columns of the right one:

    [shared, left alone, N, K] x [shared, 1, K, M]  =  [shared, left alone * N, K] x [shared, K, M]

with axes brought into that order before and back behind. Nothing is repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from nnkit.graph.read.matmul import MatMul
from nnkit.graph.view import GraphView, Node, Shape
from nnkit_tpu.constraints import images_are_not_broadcast, require
from nnkit_tpu.lowering.reading import Built, fields
from nnkit_tpu.program import TpuMatMul, TpuOp, TpuPermute, TpuReshape


def broadcast_product(graph: GraphView, node: Node, product: MatMul) -> Built:
    """The ops of such a MatMul. Raises Refused where images are repeated."""
    count = max(len(product.left_outer), len(product.right_outer))
    left, right = ((1,) * (count - len(outer)) + outer for outer in (product.left_outer, product.right_outer))
    require(images_are_not_broadcast, (left[0], right[0]))
    common = fields(graph, node, product.left, product.right)
    outer = [max(pair) for pair in zip(left, right, strict=True)]
    axes = [axis for axis in range(count) if axis == 0 or outer[axis] > 1]
    shared = [axis for axis in axes if left[axis] == right[axis]]
    of_left = [axis for axis in axes if left[axis] > right[axis]]
    of_right = [axis for axis in axes if right[axis] > left[axis]]
    images, *batches = (outer[axis] for axis in shared)
    rows, columns = prod(outer[axis] for axis in of_left), prod(outer[axis] for axis in of_right)
    made = _Made(node)
    inner, last = count, count + 1  # the axes of the matrices
    batch, height, width = (images, prod(batches)), rows * product.rows, columns * product.columns
    tall, wide = (*left, product.rows, product.inner), (*right, product.inner, product.columns)
    sides = (
        made.moved(product.left, "left", tall, [*shared, *of_left, inner, last], (*batch, height, product.inner)),
        made.moved(product.right, "right", wide, [*shared, inner, *of_right, last], (*batch, product.inner, width)),
    )
    result = made.value("product", (*batch, height, width))
    made.ops.append(TpuMatMul(**{**common, "inputs": sides, "output": result}, weight=None, range_of=node.output))
    order = [*shared, *of_left, inner, *of_right, last]
    sizes = [*outer, product.rows, product.columns]
    apart = made.reshaped(result, "apart", tuple(sizes[axis] for axis in order), node.output)
    back = tuple(order.index(axis) for axis in sorted(order))
    turned = made.permuted(apart, "back", back, node.output)
    made.ops.append(TpuReshape(name=f"{node.name}_shape", inputs=(turned,), output=node.output))
    return Built(tuple(made.ops), made.shapes)


class _Made:
    """What a node becomes: ops, and the shapes of the values between."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.ops: list[TpuOp] = []
        self.shapes: dict[str, Shape] = {}

    def value(self, what: str, shape: Shape) -> str:
        """The name of a new value."""
        name = f"{self._node.output}_{what}"
        self.shapes[name] = shape
        return name

    def moved(self, source: str, side: str, shape: Shape, order: Sequence[int], result: Shape) -> str:
        """A side [*outer, rows, columns] with its axes in this order, and in the shape of the larger matrix."""
        kept = sorted(order)
        plain = self.reshaped(source, f"{side}_axes", tuple(shape[axis] for axis in kept), source)
        turned = self.permuted(plain, f"{side}_turned", tuple(kept.index(axis) for axis in order), source)
        return self.reshaped(turned, side, result, source)

    def reshaped(self, source: str, what: str, shape: Shape, known: str) -> str:
        """known: the value of the network whose numbers these are."""
        name = self.value(what, shape)
        self.ops.append(TpuReshape(name=name, inputs=(source,), output=name, range_of=known))
        return name

    def permuted(self, source: str, what: str, order: tuple[int, ...], known: str) -> str:
        """The value with its axes in another order; itself where they are in it."""
        if order == tuple(range(len(order))):
            return source
        name = self.value(what, tuple(self.shapes[source][axis] for axis in order))
        self.ops.append(TpuPermute(name=name, inputs=(source,), output=name, order=order, range_of=known))
        return name
