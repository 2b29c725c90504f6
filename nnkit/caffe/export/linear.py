"""Conv, ConvTranspose, Gemm, MatMul and BatchNormalization as Caffe layers."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnkit.caffe.export.context import NodeContext
from nnkit.graph.padding import explicit_pads


def geometry(context: NodeContext, kernel: tuple[int, int], sizes: tuple[int, int]) -> tuple[Any, Any, Any, Any]:
    """Pads (begin h, begin w, end h, end w), strides, dilations; `auto_pad` worked out for an output of `sizes`."""
    strides = tuple(context.attribute("strides", [1, 1]))
    dilations = tuple(context.attribute("dilations", [1, 1]))
    given = tuple(context.attribute("pads", [0, 0, 0, 0]))
    if len(strides) != 2 or len(dilations) != 2 or len(given) != 4 or min(given) < 0:
        context.fail("its windows are not over height and width")
    pads = explicit_pads(
        context.attribute("auto_pad", "NOTSET"),
        given,
        kernel=kernel,
        strides=strides,
        dilations=dilations,
        input_hw=context.image()[1:],
        output_hw=sizes,
    )
    return pads, strides, dilations, (pads[0], pads[1])


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
    weights = context.weights(1, "weight")
    if weights.ndim != 4:
        context.fail(f"its weights have {weights.ndim} dimensions", "Caffe convolves over height and width")
    _, height, width = context.image()
    out = context.result_shape
    kernel = (weights.shape[2], weights.shape[3])
    pads, strides, dilations, pad = geometry(context, kernel, (out[2], out[3]))
    for side, k, s, d, p, size in zip((height, width), kernel, strides, dilations, pad, out[2:], strict=True):
        if (side + 2 * p - d * (k - 1) - 1) // s + 1 != size:
            context.fail(f"its padding {list(pads)} is not the same on both sides", "pad evenly, or pad the input")
    _convolution(context, "Convolution", weights, weights.shape[0], kernel, strides, pad, dilations)


def transposed_convolution(context: NodeContext) -> None:
    """Deconvolution."""
    weights = context.weights(1, "weight")
    if weights.ndim != 4:
        context.fail(f"its weights have {weights.ndim} dimensions", "Caffe convolves over height and width")
    _, height, width = context.image()
    out = context.result_shape
    kernel = (weights.shape[2], weights.shape[3])
    if context.attribute("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        context.fail("its padding is automatic", "export it with explicit pads")
    pads, strides, dilations, pad = geometry(context, kernel, (out[2], out[3]))
    for side, k, s, d, p, size in zip((height, width), kernel, strides, dilations, pad, out[2:], strict=True):
        if s * (side - 1) + d * (k - 1) + 1 - 2 * p != size:
            context.fail(
                f"its padding {list(pads)} and output_padding are not the same on both sides",
                "choose kernel, stride and pad so that no output_padding is needed",
            )
    outputs = weights.shape[1] * int(context.attribute("group", 1))
    _convolution(context, "Deconvolution", weights, outputs, kernel, strides, pad, dilations)


def _convolution(
    context: NodeContext,
    kind: str,
    weights: Any,
    outputs: int,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    pad: tuple[int, int],
    dilation: tuple[int, int],
) -> None:
    arrays, group = [weights], int(context.attribute("group", 1))
    fields: dict[str, Any] = {"num_output": outputs}
    if context.input(2):
        arrays.append(context.weights(2, "bias").reshape(-1))
    else:
        fields["bias_term"] = False
    if group != 1:
        fields["group"] = group
    fields |= spatial(kernel, stride, pad, dilation)
    context.result(kind, [context.input(0)], arrays, convolution_param=fields)


def gemm(context: NodeContext) -> None:
    """InnerProduct; alpha and beta go into the weights."""
    if context.attribute("transA", 0):
        context.fail("its input is transposed", "transpose it by a Permute layer before")
    weights = context.weights(1, "weight")
    if not context.attribute("transB", 0):
        weights = weights.T
    weights = weights * np.float32(context.attribute("alpha", 1.0))
    arrays = [weights]
    if context.input(2):
        bias = context.weights(2, "bias")
        if bias.size not in (1, weights.shape[0]):
            context.fail(f"its bias has shape {list(bias.shape)}", "one number for each output is needed")
        beta = np.float32(context.attribute("beta", 1.0))
        arrays.append(np.broadcast_to(bias.reshape(-1), (weights.shape[0],)) * beta)
    _inner_product(context, arrays, 1)


def matmul(context: NodeContext) -> None:
    """InnerProduct without bias, over the last axis."""
    weights = context.weights(1, "second factor")
    if weights.ndim != 2:
        context.fail(f"its second factor has shape {list(weights.shape)}", "a matrix is needed")
    _inner_product(context, [weights.T], len(context.shape()) - 1)


def _inner_product(context: NodeContext, arrays: list[Any], axis: int) -> None:
    fields: dict[str, Any] = {"num_output": arrays[0].shape[0]}
    if len(arrays) == 1:
        fields["bias_term"] = False
    if axis != 1:
        fields["axis"] = axis
    context.result("InnerProduct", [context.input(0)], arrays, inner_product_param=fields)


def batch_norm(context: NodeContext) -> None:
    """BatchNorm and Scale; one of them alone where the other does nothing."""
    factor, offset = context.weights(1, "scale"), context.weights(2, "bias")
    mean, variance = context.weights(3, "mean"), context.weights(4, "variance")
    eps = float(np.float32(context.attribute("epsilon", 1e-5)))
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
