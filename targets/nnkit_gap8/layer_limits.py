"""The kernels' limits on a lowered network: what they cannot compute is refused before anything is calibrated."""

from __future__ import annotations

from collections.abc import Iterator

from nnkit.c.fixed.limits import LIMITS, shape_beyond, tensor_is_addressable, window_beyond, window_is_small
from nnkit.constraints import Violation, raise_violations, violation
from nnkit.quantize.float_program import FloatAveragePool, FloatConvolution, FloatMaxPool, FloatOp, FloatProgram


def check_layers(layers: FloatProgram, documentation: str) -> None:
    """Raises ModelError with every window and every shape beyond the kernels' limits."""
    raise_violations([each for op in layers.ops for each in _violations(op, layers)], "GAP8", documentation)


def _violations(op: FloatOp, layers: FloatProgram) -> Iterator[Violation]:
    kind = type(op).__name__.removeprefix("Float")
    if isinstance(op, FloatConvolution | FloatMaxPool | FloatAveragePool):
        actual = window_beyond(op.window, layers.shapes[op.inputs[0]], LIMITS)
        if actual is not None:
            yield violation(window_is_small, actual, op.name, kind, LIMITS)
    actual = shape_beyond(layers.shapes[op.output], LIMITS)
    if actual is not None:
        yield violation(tensor_is_addressable, actual, op.name, kind, LIMITS)
