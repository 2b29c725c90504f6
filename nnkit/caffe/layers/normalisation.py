"""BatchNorm, Scale, Bias, LRN, MVN and Normalize."""

from __future__ import annotations

import math

import numpy as np

from nnkit.caffe.layers.context import LayerContext
from nnkit.custom_ops import Normalize
from nnkit.graph.view import Shape


def batch_norm(context: LayerContext) -> None:
    """(x - mean) / sqrt(variance + eps), one mean and variance a channel.

    The stored sums are divided by the third array, the weight of the moving average; where it is 0, both are 0.
    """
    context.counts(1)
    parameter = context.parameter("batch_norm_param")
    if parameter.HasField("use_global_stats") and not parameter.use_global_stats:
        context.fail("it normalises by the statistics of the batch", "set use_global_stats: true")
    shape = context.shape()
    if len(shape) < 2:
        context.fail(f"its bottom has shape {list(shape)}, without channels")
    if parameter.eps < 0:
        context.fail(f"its eps is {parameter.eps:g}", "a positive eps is needed")
    channels = shape[1]
    mean, variance = context.array(0, (channels,), "mean"), context.array(1, (channels,), "variance")
    weight = float(context.array(2, (1,), "moving average's weight")[0])
    context.array_count(3)
    factor = np.float32(1 / weight if weight else 0)
    mean, variance = mean * factor, variance * factor
    if not np.isfinite(mean).all() or not np.isfinite(variance).all() or (variance + parameter.eps <= 0).any():
        context.fail("its variance is not positive, or its moving average's weight is senseless")
    inputs = [
        context.constant("scale", np.ones(channels, np.float32)),
        context.constant("bias", np.zeros(channels, np.float32)),
        context.weight("mean", mean),
        context.weight("variance", variance),
    ]
    context.weight_names.append(1.0)
    context.result("BatchNormalization", [context.bottoms[0], *inputs], shape, epsilon=float(parameter.eps))


def scale(context: LayerContext) -> None:
    """x * scale + bias along some axes.

    With one factor a channel it is a BatchNormalization of mean 0, variance 1 and eps 0, which is exactly that.
    """
    context.counts((1, 2))
    parameter = context.parameter("scale_param")
    shape, bias_term = context.shape(), parameter.bias_term
    if len(context.bottoms) == 2:
        _scale_by_bottom(context, parameter.axis, bias_term)
        return
    axis, covered = _covered(context, parameter.axis, parameter.num_axes)
    factors = context.array(0, covered, "scale")
    offsets = context.array(1, covered, "bias") if bias_term else np.zeros(covered, np.float32)
    context.array_count(1 + bias_term)
    if axis == 1 and len(covered) == 1 and len(shape) > 1:
        inputs = [
            context.weight("scale", factors),
            (context.weight if bias_term else context.constant)("bias", offsets),
            context.constant("mean", np.zeros(covered, np.float32)),
            context.constant("variance", np.ones(covered, np.float32)),
        ]
        context.result("BatchNormalization", [context.bottoms[0], *inputs], shape, epsilon=0.0)
        return
    broadcast = covered + (1,) * (len(shape) - axis - len(covered)) if covered else ()
    factor = context.weight("scale", factors.reshape(broadcast))
    if not bias_term:
        context.result("Mul", [context.bottoms[0], factor], shape)
        return
    product = context.part("Mul", [context.bottoms[0], factor], shape, "mul")
    context.result("Add", [product, context.weight("bias", offsets.reshape(broadcast))], shape)


def _scale_by_bottom(context: LayerContext, axis: int, bias_term: bool) -> None:
    shape = context.shape()
    factor = _aligned(context, axis)
    if not bias_term:
        context.array_count(0)
        context.result("Mul", [context.bottoms[0], factor], shape)
        return
    given = context.shape(1)
    offsets = context.array(0, given, "bias")
    context.array_count(1)
    product = context.part("Mul", [context.bottoms[0], factor], shape, "mul")
    trailing = (1,) * (len(shape) - context.axis(axis, len(shape)) - len(given))
    context.result("Add", [product, context.weight("bias", offsets.reshape(given + trailing))], shape)


def bias(context: LayerContext) -> None:
    """x + bias along some axes."""
    context.counts((1, 2))
    parameter = context.parameter("bias_param")
    shape = context.shape()
    if len(context.bottoms) == 2:
        context.array_count(0)
        context.result("Add", [context.bottoms[0], _aligned(context, parameter.axis)], shape)
        return
    axis, covered = _covered(context, parameter.axis, parameter.num_axes)
    offsets = context.array(0, covered, "bias")
    context.array_count(1)
    broadcast = covered + (1,) * (len(shape) - axis - len(covered)) if covered else ()
    context.result("Add", [context.bottoms[0], context.weight("bias", offsets.reshape(broadcast))], shape)


def _covered(context: LayerContext, axis: int, count: int) -> tuple[int, Shape]:
    """The first axis of a learned scale or bias, and its shape."""
    shape = context.shape()
    first = context.axis(axis, len(shape), end=True)
    last = len(shape) if count == -1 else first + count
    if count < -1 or last > len(shape):
        context.fail(f"axis {axis} and num_axes {count} go beyond a shape of {len(shape)} dimensions")
    return first, shape[first:last]


def _aligned(context: LayerContext, axis: int) -> str:
    """The second bottom, with ones behind its shape so that it meets the first one's axes."""
    shape, given = context.shape(), context.shape(1)
    first = context.axis(axis, len(shape)) if given else 0
    if shape[first : first + len(given)] != given:
        context.fail(f"its second bottom {list(given)} does not fit {list(shape)} from axis {axis} on")
    trailing = len(shape) - first - len(given)
    if not trailing or not given:
        return context.bottoms[1]
    target = (*given, *(1,) * trailing)
    return context.part("Reshape", [context.bottoms[1], context.integers("align", target)], target, "align")


def local_response(context: LayerContext) -> None:
    """x / (k + alpha / n * sum of squares)^beta over n neighbouring channels, or over an n x n window.

    Within a channel Caffe takes 1 for k, and counts the window's padding.
    """
    context.counts(1)
    parameter = context.parameter("lrn_param")
    size, shape = parameter.local_size, context.shape()
    if not size % 2 or size > 255:
        context.fail(f"its local_size is {size}", "an odd number up to 255 is needed")
    if parameter.norm_region == 0:
        context.image()
        attributes = {"alpha": parameter.alpha, "beta": parameter.beta, "bias": parameter.k}
        context.result("LRN", context.bottoms, shape, size=size, **{k: float(v) for k, v in attributes.items()})
        return
    context.image()
    half = size // 2
    square = context.part("Mul", [context.bottoms[0], context.bottoms[0]], shape, "square")
    mean = context.part(
        "AveragePool",
        [square],
        shape,
        "pool",
        kernel_shape=[size, size],
        strides=[1, 1],
        pads=[half] * 4,
        count_include_pad=1,
    )
    scaled = context.part("Mul", [mean, context.scalar("alpha", parameter.alpha)], shape, "alpha")
    shifted = context.part("Add", [scaled, context.scalar("one", 1.0)], shape, "add")
    factor = context.part("Pow", [shifted, context.scalar("beta", -parameter.beta)], shape, "power")
    context.result("Mul", [context.bottoms[0], factor], shape)


def mean_variance(context: LayerContext) -> None:
    """(x - mean) / (sqrt(variance) + eps) over a channel's positions, or over the whole map."""
    context.counts(1)
    parameter = context.parameter("mvn_param")
    context.image()
    shape = context.shape()
    axes = [1, 2, 3] if parameter.across_channels else [2, 3]
    reduced = tuple(1 if axis in axes else dim for axis, dim in enumerate(shape))
    mean = context.part("ReduceMean", [context.bottoms[0]], reduced, "mean", axes=axes, keepdims=1)
    if not parameter.normalize_variance:
        context.result("Sub", [context.bottoms[0], mean], shape)
        return
    centred = context.part("Sub", [context.bottoms[0], mean], shape, "centre")
    square = context.part("Mul", [centred, centred], shape, "square")
    variance = context.part("ReduceMean", [square], reduced, "variance", axes=axes, keepdims=1)
    deviation = context.part("Sqrt", [variance], reduced, "sqrt")
    divisor = context.part("Add", [deviation, context.scalar("eps", parameter.eps)], reduced, "eps")
    context.result("Div", [centred, divisor], shape)


def normalize(context: LayerContext) -> None:
    """SSD's L2 normalisation, with its learned scale."""
    context.counts(1)
    parameter = context.parameter("norm_param")
    channels, _, _ = context.image()
    count = 1 if parameter.channel_shared else channels
    inputs = [context.bottoms[0]]
    if context.layer.weights:
        inputs.append(context.weight("scale", context.array(0, (count,), "scale")))
    elif parameter.HasField("scale_filler"):
        context.fail("the caffemodel has no scale for it", "name the caffemodel that was trained with this prototxt")
    context.array_count(1)
    eps = math.copysign(float(np.float32(parameter.eps)), 1.0)
    op = Normalize(across_spatial=parameter.across_spatial, channel_shared=parameter.channel_shared, eps=eps)
    context.custom(op, inputs)
