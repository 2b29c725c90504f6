"""Scratch memory of the ops, by chip family, as the compiler's own programs show it.

On the BM chips a sum in INT8 keeps 32-bit values of its output; a convolution does so on bm1684x, while bm1688
requantises as it accumulates. A depthwise convolution in F16 keeps 32-bit values, too. Convolutions of channels in
groups copy a group's input; one of few input channels spreads its taps over the channels first. The cv18xx copy
the output for sums only.

Functions in F16 and F32 keep intermediate values and the coefficients of their polynomials; an INT8 value that is
cast to F16 or BF16 passes through as much memory as the result takes. A matrix product in INT8 keeps 32-bit values,
as do a softmax and reductions in F16.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from nnkit.memory.packing import align_up
from nnkit.program import Window
from nnkit_tpu.chips import Chip
from nnkit_tpu.layer_group.model import BufferRule, Kind, Shape

ROWS, COLUMNS, BOTH = 1, 2, 3
"""Which taps of a convolution are spread over its input channels."""
_SPREAD, _COPIES_INPUT = 3, 0x20  # of the compiler's attribute `use_3ic_optimize`
_COLUMNS_AT_ONCE, _LONG_ENOUGH = 4, 200  # of a matrix product: what the compiler counts its vectors by
_NONE = BufferRule()
_FUNCTIONS: Mapping[str, tuple[int, tuple[int, ...]]] = MappingProxyType(
    {
        **dict.fromkeys(("tanh", "mish", "exp", "elu", "swish", "silu", "sigmoid", "tgelu"), (2, (32,))),
        "soft_plus": (2, (32, 0)),
        "erf": (3, (32, 10)),
        "gelu": (4, (32, 10)),
        "ln": (2, (32, 32)),
        **dict.fromkeys(("hswish", "hsigmoid"), (1, ())),
    }
)
"""By the compiler's name: how often the bytes of the input, and how many coefficients; 0: those of a logarithm."""


def buffer_rule(
    chip: Chip,
    kind: Kind,
    *,
    integer: bool,
    source: Shape,
    result: Shape,
    group: int = 1,
    window: Window | None = None,
    spread: int = 0,
) -> BufferRule:
    """Scratch of an op. integer: INT8 arithmetic, otherwise F16 or BF16.

    spread: the compiler's `use_3ic_optimize`, or what `spread_taps` says.
    """
    if chip.is_cv:
        return BufferRule(per_output=1.0) if kind == "binary" and integer else _NONE
    if kind == "binary" and integer:
        return BufferRule(per_output=4.0)
    if kind != "conv" or window is None:
        return _NONE
    size, taps = 1 if integer else 2, window.kernel_h * window.kernel_w
    requantises = integer and chip.name == "bm1688"
    keeps_sums = integer and (chip.name == "bm1684x" or bool(spread))
    per_output, per_input, fixed = 4.0 * keeps_sums, 0.0, 0
    if group > 1:
        of_group = -(-source[1] // group // chip.lanes)
        per_input, fixed = of_group / -(-source[1] // chip.lanes), 2 * of_group * size
        if group == source[1] == result[1] and not requantises:
            per_output, fixed = per_output + 4.0 / size, fixed + -(-result[1] // chip.lanes) * taps
    rule = BufferRule(per_output, per_input, fixed)
    return _with_spread_taps(rule, chip, source, result, window, size, spread) if spread & _SPREAD else rule


def product_rule(chip: Chip, *, integer: bool, rows: int, inner: int, columns: int) -> BufferRule:
    """Scratch of a product [1, rows, inner] x [1, inner, columns] on the BM chips: 32-bit values of its result.

    Where multiplying one block of rows takes long enough, that block's alone.
    """
    if not integer:
        return _NONE
    vectors = -(-inner // chip.eu_bytes) * -(-columns // _COLUMNS_AT_ONCE)
    blocks = 1 if vectors > _LONG_ENOUGH else -(-rows // chip.lanes)
    return BufferRule(fixed=blocks * align_up(4 * columns, chip.eu_bytes))


def softmax_rule(chip: Chip, shape: Shape, axis: int, *, log: bool) -> BufferRule:
    """Scratch of a softmax in F16 or BF16 along h or w (`axis` 2, 3) on the BM chips: two copies of 32 bits, tables.

    Along w the values are filled up to whole vectors where they are longer than one.
    """
    channels, eu_values = -(-shape[1] // chip.lanes), chip.eu_bytes // 2
    height, width = shape[2:]
    fills = axis == 3 and not log and width > eu_values and width % eu_values > 0
    values = align_up(height * (align_up(width, eu_values) if fills else width), eu_values)
    tables = 4 * (align_up(32, eu_values) + align_up(192, eu_values))
    greatest = align_up(2 * (height if axis == 3 else width), chip.eu_bytes)
    copies = 2 * 4 + 2 * (log or fills)
    return BufferRule(fixed=tables + channels * (greatest + copies * values))


def reduction_rule(chip: Chip, shape: Shape, *, rows: int) -> BufferRule:
    """Scratch of a reduction in F16 or BF16 along the last axis on the BM chips: a vector of 32 bits for each result.

    rows: of every channel.
    """
    return BufferRule(fixed=-(-shape[1] // chip.lanes) * rows * 2 * chip.eu_bytes)


def function_rule(chip: Chip, function: str, size: int, images: int) -> BufferRule:
    """Scratch of a function that is computed, not looked up. size: bytes of a value. images: at a time."""
    if chip.is_cv or function not in _FUNCTIONS:
        return _NONE
    times, coefficients = _FUNCTIONS[function]
    of_a_logarithm = 16 if size == 4 else 8
    fixed = sum(align_up((each or of_a_logarithm) * size, chip.eu_bytes) for each in coefficients)
    return BufferRule(per_input=times, fixed=fixed + (images > 1) * times * chip.eu_bytes)


def cast_rule(chip: Chip, source_bytes: int, result_bytes: int, readers: int) -> BufferRule:
    """Scratch of a cast between values of so many bytes. readers: of what is cast."""
    if chip.is_cv:
        return _NONE
    if source_bytes == 1 and result_bytes == 2:
        return BufferRule(per_output=1.0)
    return BufferRule(per_input=1.0) if source_bytes > 1 == result_bytes and readers > 1 else _NONE


def spread_taps(chip: Chip, *, integer: bool, channels: int, window: Window, readers: int) -> int:
    """What the compiler will set `use_3ic_optimize` to for a convolution that is not depthwise.

    channels: of its input. readers: of its input.
    """
    most = chip.lanes if integer else chip.lanes // 2  # input channels that are multiplied at once
    rows, columns = window.kernel_h, window.kernel_w
    if channels * rows * columns <= most and rows > 1 and columns > 1:
        spread = BOTH
    elif channels * columns <= most and columns > 1 and (rows < columns or channels * rows > most):
        spread = COLUMNS
    elif channels * rows <= chip.lanes and rows > 1:
        spread = ROWS
    else:
        return 0
    return spread | (_COPIES_INPUT if readers > 1 else 0)


def _with_spread_taps(
    rule: BufferRule, chip: Chip, source: Shape, result: Shape, window: Window, size: int, spread: int
) -> BufferRule:
    """With room for the pixels of every tap that is spread, a kernel that picks them, and its parameters.

    Pixels are those of the output along what is spread, those of the input along the rest; what aligning them takes
    is added whole.
    """
    per_output, per_input, fixed = rule.per_output, rule.per_input, rule.fixed
    along = spread & _SPREAD
    taps = {ROWS: window.kernel_h, COLUMNS: window.kernel_w, BOTH: window.kernel_h * window.kernel_w}[along]
    of_lane, of_input = -(-source[1] * taps // chip.lanes), -(-source[1] // chip.lanes)
    of_output = -(-result[1] // chip.lanes)
    if along == ROWS:
        per_output += of_lane / of_output * source[3] / result[3]
    elif along == COLUMNS:
        per_input += of_lane / of_input * result[3] / source[3]
    else:
        per_output += of_lane / of_output
    if along != BOTH:
        fixed += source[0] * of_lane * chip.eu_bytes
    if spread & _COPIES_INPUT:
        per_input += of_lane / of_input
    blocks = -(-taps // chip.lanes)
    fixed += 2 * blocks * chip.eu_bytes + align_up(taps, chip.eu_bytes // size) * of_lane * size
    return BufferRule(per_output, per_input, fixed)
