"""TFLite's builtin operators, and what writes each into the graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from nnkit.importers.tflite import elementwise, shapes, windows
from nnkit.importers.tflite.builder import Builder
from nnkit.importers.tflite.network import TfliteOperator

Writer = Callable[[Builder, TfliteOperator], None]

OPERATORS: Mapping[str, Writer] = MappingProxyType(
    {
        "CONV_2D": windows.conv2d,
        "DEPTHWISE_CONV_2D": windows.depthwise_conv2d,
        "TRANSPOSE_CONV": windows.transpose_conv,
        "FULLY_CONNECTED": windows.fully_connected,
        "MAX_POOL_2D": windows.max_pool,
        "AVERAGE_POOL_2D": windows.average_pool,
        "RESIZE_NEAREST_NEIGHBOR": windows.resize_nearest,
        "RESIZE_BILINEAR": windows.resize_bilinear,
        **dict.fromkeys(elementwise.OF_TWO, elementwise.of_two),
        **dict.fromkeys(elementwise.OF_ONE, elementwise.of_one),
        **dict.fromkeys(("RELU6", "RELU_N1_TO_1", "RELU_0_TO_1"), elementwise.clip),
        "LEAKY_RELU": elementwise.leaky_relu,
        "PRELU": elementwise.prelu,
        "GELU": elementwise.gelu,
        "SQUARE": elementwise.square,
        "SQUARED_DIFFERENCE": elementwise.squared_difference,
        "RSQRT": elementwise.rsqrt,
        "QUANTIZE": elementwise.quantize,
        "DEQUANTIZE": elementwise.dequantize,
        "CAST": elementwise.cast,
        "L2_NORMALIZATION": elementwise.l2_normalization,
        **dict.fromkeys(("RESHAPE", "SQUEEZE", "EXPAND_DIMS"), shapes.reshape),
        "TRANSPOSE": shapes.transpose,
        "CONCATENATION": shapes.concatenation,
        "PACK": shapes.pack,
        **dict.fromkeys(("SPLIT", "SPLIT_V"), shapes.split),
        "UNPACK": shapes.unpack,
        "SLICE": shapes.slice_,
        "STRIDED_SLICE": shapes.strided_slice,
        **dict.fromkeys(("PAD", "PADV2", "MIRROR_PAD"), shapes.pad),
        **dict.fromkeys(shapes.REDUCTIONS, shapes.reduction),
        **dict.fromkeys(("SOFTMAX", "LOG_SOFTMAX"), shapes.softmax),
        **dict.fromkeys(("DEPTH_TO_SPACE", "SPACE_TO_DEPTH"), shapes.depth_to_space),
        "BATCH_MATMUL": shapes.batch_matmul,
        **dict.fromkeys(("GATHER", "EMBEDDING_LOOKUP"), shapes.gather),
        **dict.fromkeys(("BROADCAST_TO", "TILE"), shapes.broadcast_to),
    }
)
"""By the schema's name. All else is refused, all of it at once."""

_SHAPES = ("RESHAPE", "SQUEEZE", "EXPAND_DIMS", "BROADCAST_TO", "TILE", "RESIZE_NEAREST_NEIGHBOR", "RESIZE_BILINEAR")
"""Their first input is a value; the others say what the shape of the result says."""


def values_read(operator: TfliteOperator) -> range:
    """The positions of the inputs whose values its writer asks for."""
    if operator.kind in _SHAPES:
        return range(min(1, len(operator.inputs)))
    return range(1 if operator.kind == "TRANSPOSE_CONV" else 0, len(operator.inputs))
