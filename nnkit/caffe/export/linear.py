"""Conv, ConvTranspose, Gemm, MatMul and BatchNormalization as Caffe layers."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnkit.caffe.export.context import NodeContext
from nnkit.graph.read.batch_norm import read_batch_norm
from nnkit.graph.read.conv import Conv, read_conv
from nnkit.graph.read.conv_transpose import ConvTranspose, read_conv_transpose
from nnkit.graph.read.fully_connected import read_fully_connected

_STORED = "Caffe stores weights and bias with the layer, and works over height and width"


def spatial(
    kernel: tuple[int, int], stride: tuple[int, int], pad: tuple[int, int], dilation: tuple[int, int] = (1, 1)
) -> dict[str, Any]:
    """Geometry as a ConvolutionParameter has it: one number where both sides agree."""
    fields: dict[str, Any] = {}
    if kernel[0] == kernel[1]:
        fields["kernel_size"] = [kernel[0]]
    else:
        fields |= {"kernel_h": kernel[0], "kernel_w": kernel[1]}
    if pad[0] != pad[1]:
        fields |= {"pad_h": pad[0], "pad_w": pad[1]}
    elif pad[0]:
        fields["pad"] = [pad[0]]
    if stride[0] != stride[1]:
        fields |= {"stride_h": stride[0], "stride_w": stride[1]}
    elif stride[0] != 1:
        fields["stride"] = [stride[0]]
    if dilation[0] != dilation[1]:
        fields["dilation"] = list(dilation)
    elif dilation[0] != 1:
        fields["dilation"] = [dilation[0]]
    return fields


def convolution(context: NodeContext) -> None:
    """Convolution. Padding that differs at the end is no matter where no window reaches it."""
    conv = context.read(read_conv, _STORED)
    window = conv.window
    pad = window.pads[:2]
    for side, k, s, d, p, size in zip(
        window.input_hw, window.kernel, window.strides, window.dilations, pad, window.output_hw, strict=True
    ):
        if p < 0 or (side + 2 * p - d * (k - 1) - 1) // s + 1 != size:
            context.fail(
                f"its padding {list(window.pads)} is not the same on both sides", "pad evenly, or pad the input"
            )
    fields = spatial(window.kernel, window.strides, pad, window.dilations)
    _convolution(context, "Convolution", conv, conv.weight.shape[0], fields)


def transposed_convolution(context: NodeContext) -> None:
    """Deconvolution."""
    conv = context.read(read_conv_transpose, _STORED)
    pad = conv.pads[:2]
    for side, k, s, d, p, size in zip(
        conv.input_hw, conv.kernel, conv.strides, conv.dilations, pad, conv.output_hw, strict=True
    ):
        if s * (side - 1) + d * (k - 1) + 1 - 2 * p != size:
            context.fail(
                f"its padding {list(conv.pads)} and output_padding are not the same on both sides",
                "choose kernel, stride and pad so that no output_padding is needed",
            )
    fields = spatial(conv.kernel, conv.strides, pad, conv.dilations)
    _convolution(context, "Deconvolution", conv, conv.output_channels, fields)


def _convolution(
    context: NodeContext, kind: str, conv: Conv | ConvTranspose, outputs: int, window: dict[str, Any]
) -> None:
    fields: dict[str, Any] = {"num_output": outputs}
    arrays = [np.asarray(conv.weight, np.float32)]
    if conv.bias is not None:
        arrays.append(np.asarray(conv.bias, np.float32).reshape(-1))
    else:
        fields["bias_term"] = False
    if conv.groups != 1:
        fields["group"] = conv.groups
    context.result(kind, [conv.data], arrays, convolution_param=fields | window)


def fully_connected(context: NodeContext) -> None:
    """InnerProduct over the last axis; a Gemm's alpha and beta go into the weights."""
    layer = context.read(read_fully_connected, _STORED)
    if layer.data_transposed:
        context.fail("its input is transposed", "transpose it by a Permute layer before")
    fields: dict[str, Any] = {"num_output": layer.outputs}
    arrays, bias = [layer.weight(np.float32)], layer.bias(np.float32)
    if bias is None:
        fields["bias_term"] = False
    else:
        arrays.append(bias)
    axis = len(context.shape()) - 1
    if axis != 1:
        fields["axis"] = axis
    context.result("InnerProduct", [layer.data], arrays, inner_product_param=fields)


def batch_norm(context: NodeContext) -> None:
    """BatchNorm and Scale; one of them alone where the other does nothing."""
    norm = context.read(read_batch_norm, "Caffe stores the parameters with the layer")
    factor, offset = np.asarray(norm.factor, np.float32), np.asarray(norm.offset, np.float32)
    mean, variance = np.asarray(norm.mean, np.float32), np.asarray(norm.variance, np.float32)
    eps = float(np.float32(norm.epsilon))
    scale_only = not mean.any() and (variance == 1).all() and eps == 0
    scales = scale_only or (factor != 1).any() or offset.any()
    fields = {"bias_term": True} if offset.any() else {}
    arrays = [factor, offset] if offset.any() else [factor]
    bottom = context.input(0)
    if not scale_only:
        statistics = [mean, variance, np.ones(1, np.float32)]
        parameters: dict[str, Any] = {"use_global_stats": True, "eps": eps}
        if not scales:
            context.result("BatchNorm", [bottom], statistics, batch_norm_param=parameters)
            return
        bottom = context.part("BatchNorm", [bottom], "bn", statistics, batch_norm_param=parameters)
    context.result("Scale", [bottom], arrays, scale_param=fields)
