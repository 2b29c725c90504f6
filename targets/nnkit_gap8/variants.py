"""Kernel variants: which functions a network needs, by types and arithmetic. Only these are generated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

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
    Pad,
    Pool,
    Program,
    Reshape,
    Upsample,
)
from nnkit_gap8.kernels import ConvKernel, Path

_MOST_UNROLLED = 5  # kernels wider than this are looped over
_MOST_UNROLLED_TAPS = 9  # weights that stay in registers

ElementwiseOp: TypeAlias = Literal["add", "mul", "requantize"]
MoveOp: TypeAlias = Literal["copy", "upsample", "pad"]


@dataclass(frozen=True, order=True)
class CType:
    """An integer storage type: `c` in C, `tag` in function names."""

    c: str
    tag: str
    bytes: int


def ctype(fixed: Fixed) -> CType:
    """The C type that stores a fixed-point tensor."""
    letter = "i" if fixed.signed else "u"
    return CType(f"nnkit_{letter}{fixed.bits}", f"{'s' if fixed.signed else 'u'}{fixed.bits}", fixed.bytes)


def raw_type(size_bytes: int) -> CType:
    """The type that moves elements of this size without looking at them."""
    return CType(f"nnkit_u{8 * size_bytes}", f"x{8 * size_bytes}", size_bytes)


@dataclass(frozen=True, order=True)
class ConvVariant:
    """A convolution kernel. acc: accumulator bits. running: rounds after each input channel."""

    path: Path
    x: CType
    w: CType
    y: CType
    acc: int
    running: bool
    leaky: bool

    @property
    def head(self) -> int:
        """32-bit words of a block's accumulator starts."""
        return 8 if self.acc == 64 else 4

    @property
    def name(self) -> str:
        """Name of the C function, without the network's prefix."""
        extras = ("_running" if self.running else "") + ("_leaky" if self.leaky else "")
        wide = "_acc64" if self.acc == 64 else ""
        return f"conv_{self.path}_{self.x.tag}_{self.w.tag}_{self.y.tag}{extras}{wide}"


@dataclass(frozen=True, order=True)
class PoolRow:
    """The function that computes one pooled row. wide: its sum needs 64 bits."""

    pool: str
    x: CType
    y: CType
    wide: bool

    @property
    def tag(self) -> str:
        """Types, for the function's name."""
        types = self.x.tag if self.x == self.y else f"{self.x.tag}_{self.y.tag}"
        return types + ("_sum64" if self.wide else "")

    @property
    def suffix(self) -> str:
        """Behind the name of a convolution with this pool."""
        return f"{self.pool}_pool{'_sum64' if self.wide else ''}"


@dataclass(frozen=True, order=True)
class PoolVariant:
    """A pooling layer's kernel. clamped: its clip is narrower than the storage type."""

    row: PoolRow
    clamped: bool

    @property
    def name(self) -> str:
        """Name of the C function, without the network's prefix."""
        return f"{self.row.pool}_pool_{self.row.tag}{'_clamped' if self.clamped else ''}"


@dataclass(frozen=True, order=True)
class ElementwiseVariant:
    """Add, mul, or requantize (an activation, or a concatenated part in another format); `b`: second input."""

    op: ElementwiseOp
    x: CType
    b: CType | None
    y: CType
    acc: int
    leaky: bool

    @property
    def name(self) -> str:
        """Name of the C function, without the network's prefix."""
        types = [self.x.tag, *([self.b.tag] if self.b else []), self.y.tag]
        extras = ("_leaky" if self.leaky else "") + ("_acc64" if self.acc == 64 else "")
        return f"{self.op}_{'_'.join(types)}{extras}"

    @property
    def two(self) -> bool:
        """Whether there is a second input."""
        return self.b is not None


@dataclass(frozen=True, order=True)
class MoveVariant:
    """A kernel that only moves elements."""

    op: MoveOp
    x: CType

    @property
    def name(self) -> str:
        """Name of the C function, without the network's prefix."""
        return f"{self.op}_{self.x.tag}"


@dataclass
class ConvUse:
    """How a network uses one variant: plain, behind which pools, and the windows to unroll.

    shapes: (kernel_w, stride_w); windows, for depthwise kernels: (kernel_h, kernel_w, stride_w).
    """

    plain: bool = False
    pools: set[PoolRow] = field(default_factory=set)
    shapes: set[tuple[int, int]] = field(default_factory=set)
    windows: set[tuple[int, int, int]] = field(default_factory=set)


@dataclass
class Variants:
    """All kernels of one network. max_windows: (kernel_h, kernel_w) of max pools worth unrolling, by row function."""

    convs: dict[ConvVariant, ConvUse] = field(default_factory=dict)
    rows: dict[PoolRow, set[tuple[int, int]]] = field(default_factory=dict)
    pools: set[PoolVariant] = field(default_factory=set)
    elementwise: set[ElementwiseVariant] = field(default_factory=set)
    moves: set[MoveVariant] = field(default_factory=set)


def conv_variant(op: Convolution, program: Program, kernel: ConvKernel) -> ConvVariant:
    """The variant that runs a convolution."""
    x, y = program.tensors[op.inputs[0]].fixed, program.tensors[op.output].fixed
    running = isinstance(op, Conv2d) and op.accumulate == "running" and kernel.path != "depthwise"
    return ConvVariant(
        kernel.path,
        ctype(x),
        ctype(Fixed(op.weight_bits, 0)),
        ctype(y),
        64 if op.accumulator == "int64" else 32,
        running,
        op.stage.leaky is not None,
    )


def fused_row(op: Conv2d, pool: FusedPool, program: Program) -> PoolRow:
    """The row function of a pool behind a convolution."""
    storage = program.tensors[op.output].fixed
    wide = pool.kind == "average" and _sum_is_wide(storage, pool.window.kernel_h, pool.window.kernel_w)
    return PoolRow(pool.kind, ctype(storage), ctype(storage), wide)


def pool_variant(op: Pool, program: Program) -> PoolVariant:
    """The variant of a pooling layer."""
    x, y = program.tensors[op.inputs[0]].fixed, program.tensors[op.output].fixed
    wide = op.pool == "average" and _sum_is_wide(x, op.window.kernel_h, op.window.kernel_w)
    # An average is clamped where it is computed; a maximum only where it could leave the clip.
    clamped = op.pool == "max" and (max(op.clip_min, y.qmin) > x.qmin or min(op.clip_max, y.qmax) < x.qmax)
    return PoolVariant(PoolRow(op.pool, ctype(x), ctype(y), wide), clamped)


def elementwise_variant(op: Add | Mul | Activation, program: Program) -> ElementwiseVariant:
    """The variant of an add, mul or activation."""
    kind: ElementwiseOp = "add" if isinstance(op, Add) else "mul" if isinstance(op, Mul) else "requantize"
    second = None if isinstance(op, Activation) else ctype(program.tensors[op.inputs[1]].fixed)
    return ElementwiseVariant(
        kind,
        ctype(program.tensors[op.inputs[0]].fixed),
        second,
        ctype(program.tensors[op.output].fixed),
        64 if op.accumulator == "int64" else 32,
        op.stage.leaky is not None,
    )


def part_variant(op: Concat, index: int, program: Program) -> ElementwiseVariant | MoveVariant:
    """The kernel that writes part `index` of a concatenation which is not already in place."""
    x, y = program.tensors[op.inputs[index]].fixed, program.tensors[op.output].fixed
    if op.shifts[index] == 0 and (x.bits, x.signed) == (y.bits, y.signed):
        return MoveVariant("copy", raw_type(x.bytes))
    return ElementwiseVariant("requantize", ctype(x), None, ctype(y), 32, False)


def collect(program: Program, kernels: Mapping[str, ConvKernel]) -> Variants:
    """All variants of a program; `kernels` by op name. Parts that turn out to be in place are included."""
    found = Variants()
    for op in program.ops:
        _collect_op(found, op, program, kernels)
    return found


def _collect_op(found: Variants, op: OpBase, program: Program, kernels: Mapping[str, ConvKernel]) -> None:
    match op:
        case Convolution():
            use = found.convs.setdefault(conv_variant(op, program, kernels[op.name]), ConvUse())
            window = op.window
            if window.dilation_w == 1 and 1 < window.kernel_w <= _MOST_UNROLLED and window.stride_w <= 2:
                use.shapes.add((window.kernel_w, window.stride_w))
                if window.dilation_h == 1 and window.kernel_h * window.kernel_w <= _MOST_UNROLLED_TAPS:
                    use.windows.add((window.kernel_h, window.kernel_w, window.stride_w))
            if isinstance(op, Conv2d) and op.pool is not None:
                row = fused_row(op, op.pool, program)
                use.pools.add(row)
                _add_row(found, row, op.pool.window.kernel_h, op.pool.window.kernel_w)
            else:
                use.plain = True
        case Pool():
            variant = pool_variant(op, program)
            found.pools.add(variant)
            _add_row(found, variant.row, op.window.kernel_h, op.window.kernel_w)
        case Add() | Mul() | Activation():
            found.elementwise.add(elementwise_variant(op, program))
        case Concat():
            for index in range(len(op.inputs)):
                part = part_variant(op, index, program)
                if isinstance(part, MoveVariant):
                    found.moves.add(part)
                else:
                    found.elementwise.add(part)
        case Upsample():
            found.moves.add(MoveVariant("upsample", raw_type(program.tensors[op.output].format.bytes)))
        case Pad():
            found.moves.add(MoveVariant("pad", raw_type(program.tensors[op.output].format.bytes)))
        case Reshape():
            found.moves.add(MoveVariant("copy", raw_type(program.tensors[op.output].format.bytes)))


def _add_row(found: Variants, row: PoolRow, kernel_h: int, kernel_w: int) -> None:
    windows = found.rows.setdefault(row, set())
    if row.pool == "max" and kernel_h > 1 and kernel_h * kernel_w <= 9:
        windows.add((kernel_h, kernel_w))


def _sum_is_wide(storage: Fixed, kernel_h: int, kernel_w: int) -> bool:
    return max(-storage.qmin, storage.qmax) * kernel_h * kernel_w >= 1 << 31
