"""The table of layer types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from nnkit.caffe.layers import activations, arithmetic, convolution, detection, normalisation, pooling, resampling
from nnkit.caffe.layers import shapes as moving
from nnkit.caffe.layers.context import LayerContext
from nnkit.did_you_mean import did_you_mean

LAYERS: Mapping[str, Callable[[LayerContext], None]] = MappingProxyType(
    {
        "AbsVal": activations.simple("Abs"),
        "ArgMax": arithmetic.argmax,
        "BNLL": activations.simple("Softplus"),
        "BatchNorm": normalisation.batch_norm,
        "Bias": normalisation.bias,
        "CReLU": activations.concatenated_relu,
        "Clip": activations.clip,
        "Concat": moving.concat,
        "Convolution": convolution.convolution,
        "ConvolutionDepthwise": convolution.convolution,
        "Crop": moving.crop,
        "Custom": detection.custom,
        "Deconvolution": convolution.deconvolution,
        "DepthwiseConv": convolution.convolution,
        "DepthwiseConvolution": convolution.convolution,
        "DetectionOutput": detection.detection_output,
        "Dropout": moving.dropout,
        "ELU": activations.elu,
        "Eltwise": arithmetic.eltwise,
        "Exp": activations.exponential,
        "Flatten": moving.flatten,
        "InnerProduct": convolution.inner_product,
        "Interp": resampling.interpolate,
        "LRN": normalisation.local_response,
        "Log": activations.logarithm,
        "MVN": normalisation.mean_variance,
        "Normalize": normalisation.normalize,
        "PReLU": activations.parametric_relu,
        "PSROIPooling": detection.psroi_pooling,
        "PassThrough": resampling.pass_through,
        "Permute": moving.permute,
        "Pooling": pooling.pooling,
        "Power": activations.power,
        "PriorBox": detection.prior_box,
        "Proposal": detection.proposal,
        "RReLU": activations.randomised_relu,
        "ROIPooling": detection.roi_pooling,
        "ReLU": activations.relu,
        "ReLU6": activations.relu6,
        "Reduction": arithmetic.reduction,
        "Reorg": resampling.reorg,
        "Reshape": moving.reshape,
        "SPP": pooling.spatial_pyramid,
        "Scale": normalisation.scale,
        "Sigmoid": activations.simple("Sigmoid"),
        "Slice": moving.slice_layer,
        "Softmax": activations.softmax,
        "Split": moving.split,
        "TanH": activations.simple("Tanh"),
        "Threshold": activations.threshold,
        "Tile": moving.tile,
        "Upsample": resampling.upsample,
        "WarpPerspective": detection.warp_perspective,
    }
)

_REASONS = {
    "Python": (
        "it is a layer in Python",
        "write it as a Custom layer with its shapes, or with layers that Caffe has",
    ),
    "LSTM": ("recurrent layers cannot be taken", "cut the network before it, and name it a Custom layer"),
    "RNN": ("recurrent layers cannot be taken", "cut the network before it, and name it a Custom layer"),
    "Embed": ("look-ups by index cannot be taken", "compute the embedding before the network"),
    "Recurrent": ("recurrent layers cannot be taken", "cut the network before it, and name it a Custom layer"),
}


def unknown_type(name: str) -> tuple[str, str]:
    """Reason and remedy for a layer type that is not in the table."""
    if name in _REASONS:
        return _REASONS[name]
    custom = (
        'write it in layers of docs/caffe.md, or, with code of your own, as `type: "Custom"` with its shapes in '
        "custom_param"
    )
    return "the layer type is not known", f"{did_you_mean(name, LAYERS)} {custom}".lstrip()
