"""Types of layers by their Caffe names: what the mapper knows, and which type an ONNX op is written as."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

ACTIVATIONS = frozenset({"ReLU", "RReLU", "PReLU", "Sigmoid", "TanH", "AbsVal", "BNLL", "ELU"})
"""Types that may run in place, as part of the layer before."""

ROI_KINDS = frozenset({"ROIPooling", "PSROIPooling"})
MOVING_KINDS = frozenset(
    {"Concat", "Slice", "Split", "Flatten", "Reshape", "Permute", "Upsample", "PassThrough", "Reorg", "Dropout"}
)
"""Types that place values without computing any."""

KNOWN_KINDS = ACTIVATIONS | frozenset(
    {
        "Convolution",
        "DepthwiseConv",
        "Deconvolution",
        "InnerProduct",
        "Pooling",
        "LRN",
        "BatchNorm",
        "Scale",
        "Bias",
        "LSTM",
        "RNN",
        "Softmax",
        "Exp",
        "Log",
        "Power",
        "Eltwise",
        "MVN",
        "Reduction",
        "SPP",
        "MatMul",
        "Interp",
        "Crop",
        "Tile",
        "Normalize",
        "CReLU",
        "Proposal",
        *ROI_KINDS,
        *MOVING_KINDS,
    }
)
"""Types whose name the mapper reads. `Interp`, `Crop` and `Tile` are among them so that their limits are checked."""

FORKS_OF_DEPTHWISE = frozenset({"ConvolutionDepthwise", "DepthwiseConvolution"})
"""Types of depthwise convolutions in other versions of Caffe, which the mapper does not read: they are written as
Convolution, with as many groups as channels."""

WARP = "WarpPerspective"
"""The op at which a network with a spatial transformer is split."""

CPU_KINDS = frozenset({"Proposal"})
"""Types that the mapper knows and leaves to the CPU, without a tag."""

_OWN = "ai.nnkit"
_BY_OP: Mapping[str, str] = MappingProxyType(
    {
        "Conv": "Convolution",
        "ConvTranspose": "Deconvolution",
        "Gemm": "InnerProduct",
        "MaxPool": "Pooling",
        "AveragePool": "Pooling",
        "GlobalAveragePool": "Pooling",
        "GlobalMaxPool": "Pooling",
        "BatchNormalization": "BatchNorm",
        "LRN": "LRN",
        "Relu": "ReLU",
        "LeakyRelu": "ReLU",
        "PRelu": "PReLU",
        "Sigmoid": "Sigmoid",
        "Tanh": "TanH",
        "Abs": "AbsVal",
        "Softplus": "BNLL",
        "Elu": "ELU",
        "Softmax": "Softmax",
        "Exp": "Exp",
        "Log": "Log",
        "Sqrt": "Power",
        "Neg": "Power",
        "Reciprocal": "Power",
        "Max": "Eltwise",
        "Sum": "Eltwise",
        "Concat": "Concat",
        "Split": "Slice",
        "Slice": "Slice",
        "Flatten": "Flatten",
        "Reshape": "Reshape",
        "Squeeze": "Reshape",
        "Unsqueeze": "Reshape",
        "Transpose": "Permute",
        "Dropout": "Dropout",
        "Identity": "Split",
        "MeanVarianceNormalization": "MVN",
        "ReduceMean": "Reduction",
        "ReduceSum": "Reduction",
        "ReduceSumSquare": "Reduction",
        "ReduceL1": "Reduction",
        "LpNormalization": "Normalize",
        "LSTM": "LSTM",
        "RNN": "RNN",
        "Tile": "Tile",
        "Expand": "Tile",
    }
)


def kind_of_op(op_type: str, domain: str) -> str:
    """The Caffe type of an ONNX op whose operands do not matter; the op's own name where Caffe has none."""
    if domain == _OWN:
        return op_type
    return _BY_OP.get(op_type, op_type)
