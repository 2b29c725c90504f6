"""What the TPU takes. Each docstring is the message, the remedy and the line in `limits()`.

Layers are held to their constraints while the network is lowered; a constraint that depends on which layers run in
INT8, when their program is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nnkit.constraints import Constraint, Limits, OpConstraint, constraint_remedy, constraint_text
from nnkit.errors import RecipeError
from nnkit.graph.read.clip import Clip
from nnkit.graph.read.fully_connected import FullyConnected
from nnkit.graph.read.pad import Pad
from nnkit.graph.read.pool import Pool
from nnkit.graph.read.resize import EVEN_COORDINATES, Resize
from nnkit.graph.read.slice import Slice
from nnkit.graph.refusal import Refused
from nnkit.graph.view import Shape
from nnkit.program import OpBase, Program
from nnkit_tpu.chips import CV_CHIPS
from nnkit_tpu.enlarging import LONGEST_STRIDE
from nnkit_tpu.options import TpuOptions
from nnkit_tpu.program import (
    FloatArray,
    TpuActivation,
    TpuBinary,
    TpuDeconv,
    TpuEmbedding,
    TpuLayerNorm,
    TpuOp,
    TpuReduce,
)
from nnkit_tpu.reductions import fits_a_lane, rows_fit_a_lane

PADDING = ("constant", "reflect", "edge")


@dataclass(frozen=True)
class ChipLimits(Limits):
    """A chip's limits. has_integers: its network is compiled in INT8, with whatever layers in floating point."""

    chip: str = "cv18xx"
    has_integers: bool = True


_MOST_REPEATS = 64


def two_operands(count: int) -> str | None:
    """sums, differences, products, quotients, minima and maxima have two operands
    fix: write a chain of them with two each"""
    return None if count == 2 else f"{count}"


def one_operand_is_computed(constants: int) -> str | None:
    """not all operands are constants
    fix: compute the layer beforehand"""
    return "two constants" if constants == 2 else None


def operands_have_one_rank(left: Shape, right: Shape) -> str | None:
    """computed operands have the same number of dimensions
    fix: add a Reshape in front of one of them"""
    return None if len(left) == len(right) else f"{len(left)} and {len(right)}"


def constant_fits_its_operand(constant: Shape, data: Shape) -> str | None:
    """a constant operand is no larger than the other one
    fix: repeat the other one beforehand"""
    return None if np.broadcast_shapes(constant, data) == data else f"{list(constant)} beside {list(data)}"


def divisor_is_not_zero(divisor: FloatArray) -> str | None:
    """constant divisors are not 0
    fix: mend the constant"""
    return f"{np.count_nonzero(divisor == 0)} of {divisor.size} values" if np.any(divisor == 0) else None


def clip_is_bounded(layer: Clip) -> str | None:
    """Clip has a bound
    fix: remove it"""
    return None if np.isfinite(layer.low) or np.isfinite(layer.high) else "none"


def power_is_known(exponent: float | None) -> str | None:
    """the exponent of Pow is the number 0.5 or 2
    fix: write a chain of products"""
    if exponent in (0.5, 2.0):
        return None
    return "a computed one" if exponent is None else f"{exponent:g}"


def normalisation_is_plain(outputs: int, computed: int) -> str | None:
    """LayerNormalization has constant scale and bias, and nothing reads its mean and deviation
    fix: write it with ReduceMean, Sub, Mul and Div"""
    if computed:
        return "a computed scale or bias"
    return None if outputs == 1 else f"{outputs} outputs"


def numbers_are_given(are_input: bool) -> str | None:
    """the numbers by which rows of a table are picked are an input of the network
    fix: give the numbers as an input, or pick the rows on the host"""
    return None if are_input else "computed ones"


def gemm_is_not_transposed(layer: FullyConnected) -> str | None:
    """the left side of a Gemm is not transposed
    fix: write a Transpose in front of it"""
    return "transA" if layer.data_transposed else None


def product_is_of_matrices(left: Shape) -> str | None:
    """the left side of a matrix product has two dimensions or more
    fix: add a Reshape in front of it"""
    return None if len(left) > 1 else "a vector"


def images_are_not_broadcast(images: tuple[int, int]) -> str | None:
    """two computed sides of a matrix product are of the same images
    fix: repeat the smaller side beforehand"""
    return None if images[0] == images[1] else f"{images[0]} and {images[1]} in front"


def maximum_is_not_dilated(layer: Pool) -> str | None:
    """windows of maximum pools are not dilated
    fix: use a larger window"""
    dilations = layer.window.dilations
    return None if layer.kind != "max" or dilations == (1, 1) else f"dilations {dilations[0]}x{dilations[1]}"


def counted_padding_is_stated(layer: Pool) -> str | None:
    """average pools that count padding do not reach beyond it (ceil_mode)
    fix: state the padding that the last window reads"""
    if not (layer.counts_padding and layer.window.has_partial_windows):
        return None
    return f"padding {list(layer.window.pads)}, and {list(layer.window.pads_read)} is read"


def slice_runs_forwards(layer: Slice) -> str | None:
    """slices have positive steps
    fix: turn the weights of the next layer round instead"""
    return None if all(step > 0 for step in layer.steps) else f"steps {list(layer.steps)}"


def pad_does_not_crop(layer: Pad) -> str | None:
    """Pad only adds values
    fix: write a Slice"""
    pads = (*layer.before, *layer.after)
    return f"pads {list(pads)}" if any(amount < 0 for amount in pads) else None


def pad_mode_is_known(layer: Pad) -> str | None:
    """Pad adds a constant, reflects, or repeats the edge
    fix: use one of these modes"""
    return None if layer.mode in PADDING else layer.mode


def resize_keeps_channels(layer: Resize) -> str | None:
    """Resize changes height and width alone
    fix: write a Reshape or a Concat for the other dimensions"""
    same = layer.before[:2] == layer.after[:2]
    return None if same else f"{list(layer.before)} to {list(layer.after)}"


def resize_is_plain(layer: Resize) -> str | None:
    """Resize is neither antialiased nor keeps the aspect ratio
    fix: give sizes, and antialias 0"""
    return None if layer.plain else "antialias or keep_aspect_ratio_policy"


def scales_are_ratios(layer: Resize) -> str | None:
    """the scales of a Resize are the ratio of its sizes: others would shift the pixels
    fix: give sizes instead of scales"""
    ratios = [new / old for new, old in zip(layer.after, layer.before, strict=True)]
    return None if np.allclose(layer.scales, ratios, rtol=1e-6) else f"scales {list(layer.scales)}"


def nearest_repeats_pixels(layer: Resize) -> str | None:
    """nearest-neighbour resizing repeats every pixel equally often
    fix: resize by whole factors, with asymmetric coordinates and rounding down"""
    if layer.mode != "nearest":
        return None
    if layer.whole_factors is None:
        return f"a factor that is not whole, {_sizes(layer)}"
    return None if layer.repeats(2) and layer.repeats(3) else f"{layer.coordinates} coordinates, {layer.rounding}"


def mode_is_nearest_or_linear(layer: Resize) -> str | None:
    """Resize is nearest or linear
    fix: use one of these modes"""
    return None if layer.mode in ("nearest", "linear") else layer.mode


def linear_is_by_whole_factors(layer: Resize) -> str | None:
    """linear resizing is by whole factors: code for others needs a compiler that the toolchain does not have
    fix: resize by whole factors, and cut or pad the rest"""
    return _sizes(layer) if layer.mode == "linear" and layer.whole_factors is None else None


def linear_coordinates_are_kept(layer: Resize) -> str | None:
    """linear resizing has coordinates half_pixel, pytorch_half_pixel or align_corners: the compiler takes others for
    half_pixel
    fix: use one of these"""
    if layer.mode != "linear" or layer.coordinates in EVEN_COORDINATES:
        return None
    return f"{layer.coordinates} coordinates"


def batch_is_not_reduced(axes: tuple[int, ...], shape: Shape) -> str | None:
    """reductions take in one axis at least, and not the batch
    fix: reduce other axes, or remove the layer"""
    return None if axes and (0 not in axes or shape[0] > 1) else f"axes {list(axes)}"


def repeats_are_few(times: int) -> str | None:
    """an Expand repeats a value along an axis up to 64 times
    fix: repeat it beforehand, or leave it to arithmetic, which repeats by itself"""
    return None if times <= _MOST_REPEATS else f"{times} times"


def one_alone_is_divided_by_a_tensor(op: TpuOp) -> str | None:
    """the cv18xx divide no number but 1 by a tensor
    fix: write 1 by the tensor, and a product with the number, or choose a bm1684x or bm1688"""
    if not isinstance(op, TpuBinary) or op.function != "div" or not op.constant_first or op.constant is None:
        return None
    return None if np.all(op.constant == 1.0) else "another number divided by its input"


def transposed_convolution_is_not_dilated(op: TpuOp) -> str | None:
    """the cv18xx do not dilate transposed convolutions
    fix: write zeros between the weights, or choose a bm1684x or bm1688"""
    if not isinstance(op, TpuDeconv):
        return None
    dilations = (op.window.dilation_h, op.window.dilation_w)
    return None if dilations == (1, 1) else f"dilations {dilations[0]}x{dilations[1]}"


def transposed_convolution_strides_are_short(op: TpuOp) -> str | None:
    """strides of transposed convolutions are at most 15 on the cv18xx
    fix: write two, one after the other, or choose a bm1684x or bm1688"""
    if not isinstance(op, TpuDeconv):
        return None
    strides = (op.window.stride_h, op.window.stride_w)
    return f"strides {strides[0]}x{strides[1]}" if max(strides) > LONGEST_STRIDE else None


def no_error_function(op: TpuOp) -> str | None:
    """the cv18xx have no error function outside of Gelu
    fix: export the Gelu it is of as one layer, or choose a bm1684x or bm1688"""
    return "Erf" if isinstance(op, TpuActivation) and op.function == "erf" else None


def no_rows_by_number(op: TpuOp) -> str | None:
    """the cv18xx pick no rows of a table by numbers: the compiler leaves that to the host's runtime
    fix: pick the rows on the host, or choose a bm1684x or a bm1688"""
    return "rows by numbers" if isinstance(op, TpuEmbedding) else None


LAYER_CONSTRAINTS: tuple[Constraint, ...] = (
    two_operands,
    one_operand_is_computed,
    operands_have_one_rank,
    constant_fits_its_operand,
    divisor_is_not_zero,
    clip_is_bounded,
    power_is_known,
    normalisation_is_plain,
    numbers_are_given,
    gemm_is_not_transposed,
    product_is_of_matrices,
    images_are_not_broadcast,
    maximum_is_not_dilated,
    counted_padding_is_stated,
    slice_runs_forwards,
    pad_does_not_crop,
    pad_mode_is_known,
    resize_keeps_channels,
    resize_is_plain,
    scales_are_ratios,
    mode_is_nearest_or_linear,
    nearest_repeats_pixels,
    linear_is_by_whole_factors,
    linear_coordinates_are_kept,
    batch_is_not_reduced,
    repeats_are_few,
)


CV_CONSTRAINTS: tuple[Constraint, ...] = (
    no_rows_by_number,
    one_alone_is_divided_by_a_tensor,
    transposed_convolution_is_not_dilated,
    transposed_convolution_strides_are_short,
    no_error_function,
)


def no_constant_minimum_beside_integers(op: OpBase, program: Program, limits: ChipLimits) -> str | None:
    """the cv18xx take no minimum, maximum or Clip with one bound in INT8 networks
    fix: use a Relu or a Clip with both bounds, or choose bf16, a bm1684x or a bm1688"""
    if not isinstance(op, TpuBinary) or op.function not in ("min", "max") or op.constant is None:
        return None
    return op.function if limits.chip in CV_CHIPS and limits.has_integers else None


def reductions_fit_a_lane(op: OpBase, program: Program, limits: ChipLimits) -> str | None:
    """the cv18xx reduce axes of 4063 values or, where they are the last, of a product of two such numbers, and what
    fits half of a lane's memory (16368 values in INT8, 8184 in BF16)
    fix: write a Reshape that makes the axis two, and reduce one after the other, or choose a bm1684x or bm1688"""
    if not isinstance(op, TpuReduce) or limits.chip not in CV_CHIPS:
        return None
    shape = (1, *program.tensors[op.inputs[0]].shape)
    return None if fits_a_lane(op, shape, limits.chip) else f"{math.prod(shape[op.axes[0] : op.axes[-1] + 1])} values"


def normalised_rows_fit_a_lane(op: OpBase, program: Program, limits: ChipLimits) -> str | None:
    """LayerNormalization on the cv18xx is of 3960 values (5280 without a bias, 7920 without a scale, too), and above
    4063 of a product of two smaller numbers
    fix: normalise fewer axes, or choose a bm1684x or bm1688"""
    if not isinstance(op, TpuLayerNorm) or limits.chip not in CV_CHIPS:
        return None
    shape = (1, *program.tensors[op.inputs[0]].shape)
    return None if rows_fit_a_lane(op, shape, limits.chip) else f"{math.prod(shape[op.axis :])} values"


PROGRAM_CONSTRAINTS: tuple[OpConstraint[ChipLimits], ...] = (
    no_constant_minimum_beside_integers,
    reductions_fit_a_lane,
    normalised_rows_fit_a_lane,
)


def chip_limits(options: TpuOptions) -> ChipLimits:
    """The limits of a chip for a network of one precision."""
    return ChipLimits(options.chip, options.precision == "int8")


def check_stored_values(program: Program, options: TpuOptions) -> None:
    """`quant_input` and `quant_output` need INT8 layers at the network's ends: the compiler gives others floats.

    Raises RecipeError naming the layers.
    """
    ops = [op for op in program.ops if isinstance(op, TpuOp) and op.mode != "INT8"]
    readers = [op for op in ops if set(op.inputs) & set(program.inputs)]
    writers = [op for op in ops if op.output in program.outputs]
    for key, asked, floating in (
        ("quant_input", options.quant_input, readers),
        ("quant_output", options.quant_output, writers),
    ):
        if asked and floating:
            modes = ", ".join(f"{op.name} runs in {op.mode}" for op in floating)
            raise RecipeError(
                f"{key}: {modes}: there are no stored integers",
                where=f"targets.tpu.{key}",
                remedy=f"remove the `hp` tags of these layers, or {key}",
            )


def require(constraint: Callable[..., str | None], *layer: object) -> None:
    """Raises Refused where a layer is beyond a constraint."""
    actual = constraint(*layer)
    if actual is not None:
        limits = Limits()
        raise Refused(f"{constraint_text(constraint, limits)}; found {actual}", constraint_remedy(constraint, limits))


def _sizes(layer: Resize) -> str:
    (height, width), (out_height, out_width) = layer.before[2:], layer.after[2:]
    return f"from {height} x {width} to {out_height} x {out_width}"
