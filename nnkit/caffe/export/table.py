"""The table of operators that can be written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from nnkit.caffe.export import custom, elementwise, linear, moving, pooling, resampling
from nnkit.caffe.export.context import NodeContext

RULES: Mapping[str, Callable[[NodeContext], None]] = MappingProxyType(
    {
        "Abs": elementwise.single("AbsVal"),
        "Add": elementwise.add,
        "AveragePool": pooling.pool,
        "BatchNormalization": linear.batch_norm,
        "Clip": elementwise.clip,
        "Concat": moving.concat,
        "Conv": linear.convolution,
        "ConvTranspose": linear.transposed_convolution,
        "Custom": custom.custom,
        "DetectionOutput": custom.detection_output,
        "Div": elementwise.divide,
        "Dropout": moving.dropout,
        "Elu": elementwise.elu,
        "Exp": elementwise.single("Exp"),
        "Flatten": moving.reshape,
        "Gemm": linear.fully_connected,
        "GlobalAveragePool": pooling.pool,
        "GlobalMaxPool": pooling.pool,
        "Identity": moving.identity,
        "LRN": elementwise.local_response,
        "LeakyRelu": elementwise.leaky_relu,
        "Log": elementwise.single("Log"),
        "LpNormalization": moving.lp_normalization,
        "MatMul": linear.fully_connected,
        "Max": elementwise.maximum,
        "MaxPool": pooling.pool,
        "Mul": elementwise.multiply,
        "Neg": elementwise.single("Power", power_param={"scale": -1.0}),
        "Normalize": custom.normalize,
        "PRelu": elementwise.parametric_relu,
        "PSROIPooling": custom.same_fields,
        "PassThrough": custom.same_fields,
        "Pow": elementwise.power,
        "PriorBox": custom.same_fields,
        "Proposal": custom.same_fields,
        "ROIPooling": custom.same_fields,
        "Reciprocal": elementwise.single("Power", power_param={"power": -1.0}),
        "ReduceL1": moving.reduce,
        "ReduceL2": moving.reduce,
        "ReduceMean": moving.reduce,
        "ReduceSum": moving.reduce,
        "ReduceSumSquare": moving.reduce,
        "Relu": elementwise.single("ReLU"),
        "Reorg": custom.same_fields,
        "Reshape": moving.reshape,
        "Resize": resampling.resize,
        "Sigmoid": elementwise.single("Sigmoid"),
        "Slice": moving.slice_node,
        "Softmax": elementwise.softmax,
        "Softplus": elementwise.single("BNLL"),
        "Split": moving.split,
        "Sqrt": elementwise.single("Power", power_param={"power": 0.5}),
        "Squeeze": moving.reshape,
        "Sub": elementwise.subtract,
        "Sum": elementwise.total,
        "Tanh": elementwise.single("TanH"),
        "Tile": moving.tile,
        "Transpose": moving.transpose,
        "Unsqueeze": moving.reshape,
        "WarpPerspective": custom.same_fields,
    }
)
