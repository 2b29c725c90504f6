"""What the compiler makes of the thresholds of a calibration table before it lowers the network.

Its passes, in their order, as the source of its conversion tells them (`calibration_process`):

1. A concatenation whose parts all have one sign and are read by it alone (or by maximum pools besides): where the
   parts agree, their threshold becomes the result's; otherwise the result's becomes that of every part, and of what
   a part is merely selected from.
2. On the BM chips, a sum of two products that nothing else reads gives them its threshold.
3. Forwards: what only moves or selects values has its input's threshold, as has the minimum or maximum with a number,
   and on the cv18xx the one over axes; a product with a number has the input's times that number, or, where it
   becomes part of the matrix product before it, what the table states.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from nnkit.calibrate.stats import ValueRange
from nnkit_tpu.program import TpuActivation, TpuBinary, TpuConcat, TpuGraph, TpuMatMul, TpuOp, TpuPool

_DECIMALS = 7
_MOST_PASSES = 16


@dataclass(frozen=True)
class Threshold:
    """value: of the format's largest number. signed: whether it has negative ones."""

    value: float
    signed: bool

    @property
    def stated(self) -> Threshold:
        """As the calibration table states it, with seven decimals."""
        return replace(self, value=float(f"{self.value:.{_DECIMALS}f}"))

    def as_range(self) -> ValueRange:
        """For the calibration table."""
        low = -self.value if self.signed else 0.0
        return ValueRange(low, self.value, low, self.value)


def settled(
    graph: TpuGraph, chosen: Mapping[str, Threshold], moves: Mapping[str, str], *, cv: bool
) -> dict[str, Threshold]:
    """Thresholds that the compiler leaves as they are once the table states them, but for products' last digits.

    chosen: of every tensor. moves: by output, the inputs whose format ops keep. cv: the chip is a cv18xx.
    """
    current = _forwards(graph, chosen, moves)
    for _ in range(_MOST_PASSES):
        stated = {name: each.stated for name, each in current.items()}
        following = _forwards(graph, _backwards(graph, stated, cv), moves)
        if following == current:
            break
        current = following
    return current


def scaled_by(op: TpuOp | None) -> float | None:
    """The number that a product with a number multiplies by; None for any other op."""
    if isinstance(op, TpuBinary) and op.function == "mul" and op.constant is not None and op.constant.size == 1:
        return float(op.constant.reshape(-1)[0])
    return None


def _forwards(graph: TpuGraph, chosen: Mapping[str, Threshold], moves: Mapping[str, str]) -> dict[str, Threshold]:
    result = dict(chosen)
    for op in graph.ops:
        factor = scaled_by(op)
        source = result[op.inputs[0]]
        if factor is not None:
            value = source.value * (abs(factor) if factor else 1.0)
            made = Threshold(value, source.signed or factor < 0)
            result[op.output] = made.stated if _is_taken_in(graph, op) else made
        elif op.output in moves:
            result[op.output] = result[moves[op.output]]
        elif isinstance(op, TpuBinary) and op.function in ("min", "max") and _by_a_number(op):
            result[op.output] = source
    return result


def _is_taken_in(graph: TpuGraph, op: TpuOp) -> bool:
    """Whether the compiler takes a factor into the weights of the matrix product before it, which alone it reads."""
    product = graph.producer(op.inputs[0])
    return (
        isinstance(product, TpuMatMul)
        and product.weight is not None
        and not product.relu
        and _readers(graph, product.output) == 1
    )


def _backwards(graph: TpuGraph, stated: Mapping[str, Threshold], cv: bool) -> dict[str, Threshold]:
    result = dict(stated)
    for op in graph.ops:
        if isinstance(op, TpuConcat) and all(read_by_it_alone(graph, op, name) for name in op.inputs):
            parts = [result[name] for name in op.inputs]
            if len({each.signed for each in parts}) > 1:
                continue
            if len(set(parts)) == 1:
                result[op.output] = parts[0]
                continue
            for name in op.inputs:
                _give(graph, result, name, result[op.output])
    for op in graph.ops if not cv else ():
        if (
            isinstance(op, TpuBinary)
            and op.function == "add"
            and op.constant is None
            and all(_is_lone_product(graph, n) for n in op.inputs)
        ):
            for name in op.inputs:
                _give(graph, result, name, result[op.output])
    return result


def _give(graph: TpuGraph, result: dict[str, Threshold], name: str, threshold: Threshold) -> None:
    """The threshold for a tensor, and for those that it is selected from as long as nothing else reads them."""
    result[name] = threshold
    op = graph.producer(name)
    while op is not None and _selects(op) and _readers(graph, op.inputs[0]) == 1:
        result[op.inputs[0]] = threshold
        op = graph.producer(op.inputs[0])


def _selects(op: TpuOp) -> bool:
    if isinstance(op, TpuActivation):
        return op.function in ("relu", "leaky_relu", "abs")
    return isinstance(op, TpuPool) and op.function == "max"


def read_by_it_alone(graph: TpuGraph, op: TpuOp, name: str) -> bool:
    """Whether nothing but the op, and maximum pools where it has several readers, reads the tensor."""
    others = [each for each in graph.consumers(name) if each is not op]
    return name not in graph.outputs and all(isinstance(each, TpuPool) and each.function == "max" for each in others)


def _readers(graph: TpuGraph, name: str) -> int:
    return sum(op.inputs.count(name) for op in graph.ops) + (name in graph.outputs)


def _is_lone_product(graph: TpuGraph, name: str) -> bool:
    """Whether the tensor is the product of two tensors, or of one with a constant of several numbers, read once."""
    op = graph.producer(name)
    product = isinstance(op, TpuBinary) and op.function == "mul" and not _by_a_number(op)
    return product and _readers(graph, name) == 1


def _by_a_number(op: TpuBinary) -> bool:
    return op.constant is not None and op.constant.size == 1
