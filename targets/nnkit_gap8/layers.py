"""A layer's parameters as C constants: the structs of `nnkit_task.h`, one field per line with its meaning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nnkit.errors import InternalError
from nnkit.program import (
    Activation,
    Add,
    Concat,
    Conv2d,
    Convolution,
    Fixed,
    FusedPool,
    Mul,
    OpBase,
    OutputStage,
    Pad,
    Pool,
    Program,
    Reshape,
    Tensor,
    Upsample,
    Window,
)
from nnkit_gap8.kernels import ConvKernel, block_bytes, chw
from nnkit_gap8.variants import (
    conv_variant,
    elementwise_variant,
    fused_row,
    part_variant,
    pool_variant,
    raw_type,
)


@dataclass(frozen=True)
class Constant:
    """A C constant: `static const <type> <name> = { lines };`. A line is (values, comment)."""

    type: str
    name: str
    lines: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Call:
    """One kernel call: the function, its parameters, and which inputs of the op it reads.

    out_channel: the output's first channel that it writes (a concatenation has one call per part).
    """

    kernel: str
    layer: str
    inputs: tuple[int, ...]
    constants: tuple[Constant, ...]
    out_channel: int = 0


def conv_calls(op: Convolution, program: Program, kernel: ConvKernel, name: str) -> tuple[Call, ...]:
    """The call of a convolution, with a fused pool where it has one."""
    y = program.tensors[op.output].fixed
    function = conv_variant(op, program, kernel).name
    constants: list[Constant] = []
    pool_pointer = phases_pointer = "0"
    g = kernel.geometry
    if isinstance(op, Conv2d) and op.pool is not None:
        function += f"_{fused_row(op, op.pool, program).suffix}"
        pool_pointer = f"&{name}_pool"
        constants.append(_fused_pool(op.pool, kernel, program.tensors[op.output], f"{name}_pool"))
    if kernel.phases:
        phases_pointer = f"{name}_phases"
        constants.append(_phases(kernel, phases_pointer))
    running = isinstance(op, Conv2d) and op.accumulate == "running" and kernel.path != "depthwise"
    stage = op.stage
    low, high = _clamp(stage, y) if not running and stage.leaky is None else (y.qmin, y.qmax)
    # A direct full-window convolution is seen as a pointwise one: each of its taps is an input channel of its own.
    full_window = kernel.path == "direct" and op.window.kernel_h * op.window.kernel_w > 1
    window = Window(1, 1) if full_window else op.window
    channel_taps = op.window.kernel_h * op.window.kernel_w
    constants.append(
        Constant(
            "struct nnkit_conv",
            name,
            (
                (f"{g.groups}", "groups; channels are per group"),
                (f"{g.in_channels}, {g.in_h}, {g.in_w}", "input channels, height, width"),
                (f"{g.out_channels}, {g.out_h}, {g.out_w}", "output channels, height, width"),
                _window(window),
                (f"{getattr(op, 'pad_value', 0)}", "pad value"),
                (f"{channel_taps if running else kernel.taps}", "taps" + (" per input channel" if running else "")),
                (f"{g.blocks_per_group}", "weight blocks per group"),
                (f"{block_bytes(op, kernel.taps)}", "bytes of a block"),
                (f"{stage.shift}, {_rounding(stage.shift)}", "shift, rounding"),
                (f"{low}, {high}", "low, high"),
                *_leaky_and_clip(stage),
                (f"{kernel.max_parts}", "parts at most"),
                (f"{int(kernel.split_blocks)}", "parts divide blocks (1) or pixels (0)"),
                (f"{kernel.tile_pixels}, {kernel.row_bytes}", "pixels gathered at once; bytes for them"),
                (f"{kernel.band_rows}, {kernel.band_width}", "depthwise band: output rows, elements per row"),
                (f"{kernel.pool_blocks}, {kernel.pool_rows}", "pool: blocks in L1, rows kept"),
                (pool_pointer, "pool"),
                (phases_pointer, "phases"),
            ),
        )
    )
    return (Call(function, name, (0,), tuple(constants)),)


def other_calls(op: OpBase, program: Program, name: str) -> tuple[Call, ...]:
    """The calls of an op without weights; one per part for a concatenation."""
    match op:
        case Pool():
            return (_pool(op, program, name),)
        case Add() | Mul() | Activation():
            return (_elementwise(op, program, name),)
        case Concat():
            return _concat(op, program, name)
        case Upsample() | Pad() | Reshape():
            return (_move(op, program, name),)
    raise InternalError(f"no kernel for {op.kind}", where=op.name)


def _pool(op: Pool, program: Program, name: str) -> Call:
    x, y = program.tensors[op.inputs[0]], program.tensors[op.output]
    if op.pool == "max" and (x.fixed.bits, x.fixed.signed) != (y.fixed.bits, y.fixed.signed):
        raise InternalError("a max pool changes its storage type", where=op.name)
    constants: list[Constant] = []
    table = "0"
    if op.multipliers_by_count:
        table = f"{name}_multipliers"
        values = ", ".join(str(value) for value in op.multipliers_by_count)
        constants.append(Constant("nnkit_i32", f"{table}[]", ((values, "by number of present elements"),)))
    low, high = max(op.clip_min, y.fixed.qmin), min(op.clip_max, y.fixed.qmax)
    size, out = chw(x), chw(y)
    constants.append(
        _pool_constant(name, size[0], size[1:], out[1:], op.window, (op.multiplier, op.shift), (low, high), table)
    )
    return Call(pool_variant(op, program).name, name, (0,), tuple(constants))


def _fused_pool(pool: FusedPool, kernel: ConvKernel, output: Tensor, name: str) -> Constant:
    channels, out_h, out_w = chw(output)
    g = kernel.geometry
    limits = (output.fixed.qmin, output.fixed.qmax)
    scale = (pool.multiplier, pool.shift)
    return _pool_constant(name, channels, (g.out_h, g.out_w), (out_h, out_w), pool.window, scale, limits, "0")


def _pool_constant(
    name: str,
    channels: int,
    in_hw: tuple[int, ...],
    out_hw: tuple[int, ...],
    window: Window,
    scale: tuple[int, int],
    limits: tuple[int, int],
    table: str,
) -> Constant:
    return Constant(
        "struct nnkit_pool",
        name,
        (
            (f"{channels}", "channels"),
            (f"{in_hw[0]}, {in_hw[1]}", "input height, width"),
            (f"{out_hw[0]}, {out_hw[1]}", "output height, width"),
            _window(window),
            (f"{scale[0]}, {scale[1]}", "multiplier, shift"),
            (_int(limits[0]) + ", " + _int(limits[1]), "low, high"),
            (table, "multipliers by count"),
        ),
    )


def _elementwise(op: Add | Mul | Activation, program: Program, name: str) -> Call:
    y = program.tensors[op.output]
    channels, height, width = chw(y)
    per_channel = isinstance(op, Mul) and program.tensors[op.inputs[1]].elements != y.elements
    shifts = op.shifts if isinstance(op, Add) else (0, 0)
    low, high = _clamp(op.stage, y.fixed) if op.stage.leaky is None else (y.fixed.qmin, y.fixed.qmax)
    constants: list[Constant] = []
    slopes, step = "0", 0
    if op.stage.leaky is not None:
        slopes, step = f"{name}_slopes", int(op.stage.leaky.slopes.size > 1)
        values = ", ".join(str(int(value)) for value in op.stage.leaky.slopes)
        constants.append(Constant("nnkit_i16", f"{slopes}[]", ((values, "negative slopes"),)))
    constants.append(
        _elementwise_constant(
            name, channels, height * width, shifts, op.stage.shift, (low, high), _leaky_and_clip(op.stage),
            (slopes, step), per_channel,
        )
    )  # fmt: skip
    inputs = (0,) if isinstance(op, Activation) else (0, 1)
    return Call(elementwise_variant(op, program).name, name, inputs, tuple(constants))


def _elementwise_constant(
    name: str,
    channels: int,
    plane: int,
    shifts: tuple[int, int],
    shift: int,
    limits: tuple[int, int],
    leaky: Sequence[tuple[str, str]],
    slopes: tuple[str, int],
    per_channel: bool,
) -> Constant:
    return Constant(
        "struct nnkit_elementwise",
        name,
        (
            (f"{channels}, {plane}", "channels, elements per channel"),
            (f"{shifts[0]}, {shifts[1]}", "left shifts of the inputs"),
            (f"{shift}, {_rounding(shift)}", "shift, rounding"),
            (f"{limits[0]}, {limits[1]}", "low, high"),
            *leaky,
            (f"{slopes[1]}", "slopes per channel (1) or one for all (0)"),
            (slopes[0], "slopes"),
            (f"{int(per_channel)}", "second input has one element per channel"),
        ),
    )


def _concat(op: Concat, program: Program, name: str) -> tuple[Call, ...]:
    y = program.tensors[op.output].fixed
    calls = []
    out_channel = 0
    for index, part in enumerate(op.inputs):
        channels, height, width = chw(program.tensors[part])
        layer = f"{name}_part{index}"
        variant = part_variant(op, index, program)
        if variant.op == "copy":
            constant = _move_constant(layer, channels, (height, width), (height, width))
        else:
            none = (("0, 0", "slope shift, rounding"), ("0, 0", "clip"))
            constant = _elementwise_constant(
                layer, channels, height * width, (0, 0), op.shifts[index], (y.qmin, y.qmax), none, ("0", 0), False
            )
        calls.append(Call(variant.name, layer, (index,), (constant,), out_channel))
        out_channel += channels
    return tuple(calls)


def _move(op: Upsample | Pad | Reshape, program: Program, name: str) -> Call:
    x, y = program.tensors[op.inputs[0]], program.tensors[op.output]
    channels, in_h, in_w = chw(x)
    tag = raw_type(y.format.bytes).tag
    if isinstance(op, Reshape):
        return Call(f"copy_{tag}", name, (0,), (_move_constant(name, 1, (1, x.elements), (1, x.elements)),))
    out = chw(y)[1:]
    if isinstance(op, Upsample):
        scale = (op.scale_h, op.scale_w)
        return Call(f"upsample_{tag}", name, (0,), (_move_constant(name, channels, (in_h, in_w), out, scale=scale),))
    raw_value = op.value & ((1 << (8 * y.format.bytes)) - 1)
    constant = _move_constant(name, channels, (in_h, in_w), out, offset=(op.top, op.left), value=raw_value)
    return Call(f"pad_{tag}", name, (0,), (constant,))


def _move_constant(
    name: str,
    channels: int,
    in_hw: tuple[int, ...],
    out_hw: tuple[int, ...],
    scale: tuple[int, int] = (1, 1),
    offset: tuple[int, int] = (0, 0),
    value: int = 0,
) -> Constant:
    return Constant(
        "struct nnkit_move",
        name,
        (
            (f"{channels}", "channels"),
            (f"{in_hw[0]}, {in_hw[1]}", "input height, width"),
            (f"{out_hw[0]}, {out_hw[1]}", "output height, width"),
            (f"{scale[0]}, {scale[1]}", "scale"),
            (f"{offset[0]}, {offset[1]}", "rows above, columns left"),
            (f"{value}", "value, as unsigned bits"),
        ),
    )


def _phases(kernel: ConvKernel, name: str) -> Constant:
    """Per output phase: counts of kernel rows and columns, then their offsets into the input."""
    lines = []
    for phase in kernel.phases:
        rows = [str(tap.delta) for tap in phase.taps_y]
        columns = [str(tap.delta) for tap in phase.taps_x]
        values = [str(len(rows)), str(len(columns)), *rows, *columns]
        lines.append((", ".join(values), f"phase ({phase.y}, {phase.x})"))
    return Constant("nnkit_i32", f"{name}[]", tuple(lines))


def _window(window: Window) -> tuple[str, str]:
    values = (
        f"{window.kernel_h}, {window.kernel_w}, {window.stride_h}, {window.stride_w}, "
        f"{window.dilation_h}, {window.dilation_w}, {window.pad_top}, {window.pad_left}"
    )
    return f"{{{values}}}", "window: kernel, stride, dilation, padding above and left"


def _clamp(stage: OutputStage, storage: Fixed) -> tuple[int, int]:
    """Saturation to the storage and the stage's clip in one: the clip lies inside the storage's range."""
    return max(stage.clip_min, storage.qmin), min(stage.clip_max, storage.qmax)


def _leaky_and_clip(stage: OutputStage) -> tuple[tuple[str, str], ...]:
    slope_shift = stage.leaky.shift if stage.leaky is not None else 0
    return (
        (f"{slope_shift}, {_rounding(slope_shift)}", "slope shift, rounding"),
        (f"{stage.clip_min}, {stage.clip_max}", "clip"),
    )


def _rounding(shift: int) -> str:
    return _int(1 << (shift - 1)) if shift else "0"


def _int(value: int) -> str:
    """A C literal of type nnkit_i32: -2147483648 has none of its own."""
    return "(-2147483647 - 1)" if value == -(1 << 31) else str(value)
