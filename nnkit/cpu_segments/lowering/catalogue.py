"""Which function lowers which operator."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType

from nnkit.cpu_segments.calls import Lowered, RefusedError
from nnkit.cpu_segments.graph import Layer
from nnkit.cpu_segments.lowering import elementwise, linear, movement, reductions, resize, windows
from nnkit.cpu_segments.lowering.custom import custom
from nnkit.custom_ops import is_custom

LOWERINGS: MappingProxyType[str, Callable[[Layer], Lowered]] = MappingProxyType(
    dict.fromkeys(elementwise.UNARY_OPS, elementwise.unary)
    | dict.fromkeys(elementwise.BINARY_OPS, elementwise.binary)
    | dict.fromkeys(elementwise.VARIADIC_OPS, elementwise.variadic)
    | dict.fromkeys(movement.VIEW_OPS, movement.view)
    | dict.fromkeys(reductions.REDUCTIONS, reductions.reduction)
    | {
        "Clip": elementwise.clip,
        "Transpose": movement.transpose,
        "Expand": movement.expand,
        "Slice": movement.slice_,
        "Split": movement.split,
        "Concat": movement.concat,
        "Pad": movement.pad,
        "Conv": windows.conv,
        "ConvTranspose": windows.conv_transpose,
        "MaxPool": windows.max_pool,
        "AveragePool": windows.average_pool,
        "GlobalAveragePool": reductions.global_average_pool,
        "GlobalMaxPool": reductions.global_max_pool,
        "Gemm": linear.gemm,
        "MatMul": linear.matmul,
        "Softmax": reductions.softmax,
        "LpNormalization": reductions.lp_normalization,
        "BatchNormalization": reductions.batch_normalization,
        "LRN": reductions.lrn,
        "Resize": resize.resize,
    }
)


def lower(layer: Layer) -> Lowered:
    """The calls for one node. Raises RefusedError where there are none."""
    if is_custom(layer.node):
        return custom(layer)
    known = LOWERINGS.get(layer.node.op_type) if not layer.node.domain else None
    if known is None:
        raise RefusedError(f"operator {layer.node.domain or 'ONNX'} {layer.node.op_type} has no C code")
    return known(layer)
