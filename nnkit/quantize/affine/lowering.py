"""From a restructured model to the float program that affine integers are made of, for every target that has them."""

from __future__ import annotations

from nnkit.graph import Model
from nnkit.quantize.affine.quantized_network import is_quantized, lower_quantized
from nnkit.quantize.affine.scheme import BETTER_IN_FLOAT
from nnkit.quantize.lowered import LoweredLayers
from nnkit.rewrite import RewriteLog


def lower_affine(
    model: Model, log: RewriteLog, documentation: str = "", *, keep_float: bool = False
) -> LoweredLayers:
    """The layers of a model; a network that is quantised already keeps its formats and integers.

    Arguments and errors are those of `LoweredLayers.of`, and of a quantised network those of `lower_quantized`.
    """
    if is_quantized(model):
        return lower_quantized(model, documentation)
    without = BETTER_IN_FLOAT if keep_float else ()
    return LoweredLayers.of(model, log, documentation, keep_float=keep_float, without=without)
