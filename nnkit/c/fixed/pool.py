"""Pooling, row by row: alone and behind convolutions."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from nnkit.c.fixed.layer import Constant, window_line
from nnkit.c.fixed.operator import Declaration, Function, OneCallC, Source
from nnkit.c.fixed.types import CType, chw, ctype, same_storage
from nnkit.c.text import int32_literal
from nnkit.errors import InternalError
from nnkit.program import Fixed, FusedPool, Pool, Program, Tensor, Window

_MOST_UNROLLED_TAPS = 9


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
    def name(self) -> str:
        """Name of the C function, without the network's prefix."""
        return f"{self.pool}_row_{self.tag}"

    @property
    def suffix(self) -> str:
        """Behind the name of a convolution with this pool."""
        return f"{self.pool}_pool{'_sum64' if self.wide else ''}"


@dataclass(frozen=True)
class PoolRowFunction(Function):
    """A row function, and the kernel that it is used with."""

    row: PoolRow
    kernel_h: int
    kernel_w: int

    @property
    def name(self) -> str:
        return self.row.name


@dataclass(frozen=True, order=True)
class PoolFunction(Function):
    """A pooling layer's kernel. clamped: its clip is narrower than the storage type.

    packed: it works on the rows of a tile that a packed convolution has left: `struct nnkit_packed_pool`.
    """

    row: PoolRow
    clamped: bool
    packed: bool = False

    @property
    def name(self) -> str:
        return f"{self.row.pool}_pool_{self.row.tag}{'_clamped' if self.clamped else ''}{'_packed' * self.packed}"

    @property
    def struct(self) -> str:
        """The type of its parameters."""
        return "struct nnkit_packed_pool" if self.packed else "struct nnkit_pool"


@dataclass(frozen=True, order=True)
class _RowUse(PoolRow):
    """A row function as the template takes it: with the kernels (h, w) that are worth unrolling."""

    unrolled: tuple[tuple[int, int], ...]


class PoolC(OneCallC[Pool]):
    """`struct nnkit_pool`."""

    def functions(self, op: Pool, program: Program) -> tuple[Function, ...]:
        """The layer's kernel and the row function that it calls."""
        function = self.function(op, program)
        return function, PoolRowFunction(function.row, op.window.kernel_h, op.window.kernel_w)

    def function(self, op: Pool, program: Program) -> PoolFunction:
        """The layer's kernel. Raises InternalError for a max pool between two storage types, which none does."""
        x, y = program.tensors[op.inputs[0]].fixed, program.tensors[op.output].fixed
        if op.pool == "max" and not same_storage(x, y):
            raise InternalError("a max pool changes its storage type", where=op.name)
        # An average is clamped where it is computed; a maximum only where it could leave the clip.
        clamped = op.pool == "max" and (max(op.clip_min, y.qmin) > x.qmin or min(op.clip_max, y.qmax) < x.qmax)
        return PoolFunction(PoolRow(op.pool, ctype(x), ctype(y), _sum_is_wide(op.pool, x, op.window)), clamped)

    def constants(self, op: Pool, program: Program, name: str) -> tuple[Constant, ...]:
        """The layer's parameters; before them the multipliers by count, where it has any."""
        x, y = program.tensors[op.inputs[0]], program.tensors[op.output]
        table = None
        if op.multipliers_by_count:
            values = ", ".join(str(value) for value in op.multipliers_by_count)
            table = Constant("nnkit_i32", f"{name}_multipliers[]", ((values, "by number of present elements"),))
        limits = max(op.clip_min, y.fixed.qmin), min(op.clip_max, y.fixed.qmax)
        pool = FusedPool(op.pool, op.window, op.multiplier, op.shift)
        constant = _constant(name, chw(x), chw(y), pool, limits, table)
        return (constant,) if table is None else (table, constant)


def fused_row(pool: FusedPool, storage: Fixed) -> PoolRowFunction:
    """The row function of a pool behind a convolution, whose values are stored like this."""
    row = PoolRow(pool.kind, ctype(storage), ctype(storage), _sum_is_wide(pool.kind, storage, pool.window))
    return PoolRowFunction(row, pool.window.kernel_h, pool.window.kernel_w)


def packed_pool(pool: FusedPool, storage: Fixed) -> PoolFunction:
    """The kernel of a pool behind a convolution where it runs by itself, on rows that the convolution has left."""
    return PoolFunction(fused_row(pool, storage).row, clamped=False, packed=True)


def fused_pool_constant(name: str, pool: FusedPool, conv_hw: tuple[int, int], output: Tensor) -> Constant:
    """The parameters of a pool behind a convolution of (H, W)."""
    channels, out_h, out_w = chw(output)
    limits = (output.fixed.qmin, output.fixed.qmax)
    return _constant(name, (channels, *conv_hw), (channels, out_h, out_w), pool, limits)


def pool_source(functions: Collection[Function]) -> Source | None:
    """The file with all row functions and pooling layers."""
    kernels: dict[PoolRow, set[tuple[int, int]]] = {}
    for function in functions:
        if isinstance(function, PoolRowFunction):
            sizes = kernels.setdefault(function.row, set())
            taps = function.kernel_h * function.kernel_w
            if function.row.pool == "max" and function.kernel_h > 1 and taps <= _MOST_UNROLLED_TAPS:
                sizes.add((function.kernel_h, function.kernel_w))
    if not kernels:
        return None
    rows = [_RowUse(row.pool, row.x, row.y, row.wide, tuple(sorted(sizes))) for row, sizes in sorted(kernels.items())]
    pools = sorted({function for function in functions if isinstance(function, PoolFunction)})
    declarations = [
        *(_row_declaration(row) for row in rows),
        *(Declaration(pool.name, f"{pool.struct}: {pool.row.pool} pool, {pool.row.tag}") for pool in pools),
    ]
    packed = any(pool.packed for pool in pools)
    return Source("pool", "pool.c.j2", {"pool_rows": rows, "pools": pools, "packed": packed}, tuple(declarations))


def _sum_is_wide(pool: str, storage: Fixed, window: Window) -> bool:
    largest = max(-storage.qmin, storage.qmax) * window.kernel_h * window.kernel_w
    return pool == "average" and largest >= 1 << 31


def _constant(
    name: str,
    source: tuple[int, int, int],
    output: tuple[int, int, int],
    pool: FusedPool,
    limits: tuple[int, int],
    table: Constant | None = None,
) -> Constant:
    """A `struct nnkit_pool` from [C, H, W] to [C, H, W]; `table` has the multipliers by count."""
    return Constant(
        "struct nnkit_pool",
        name,
        (
            (f"{source[0]}", "channels"),
            (f"{source[1]}, {source[2]}", "input height, width"),
            (f"{output[1]}, {output[2]}", "output height, width"),
            window_line(pool.window),
            (f"{pool.multiplier}, {pool.shift}", "multiplier, shift"),
            (f"{int32_literal(limits[0])}, {int32_literal(limits[1])}", "low, high"),
            (table.name.removesuffix("[]") if table is not None else "0", "multipliers by count"),
        ),
    )


def _row_declaration(row: PoolRow) -> Declaration:
    return Declaration(
        row.name,
        f"One row of a {row.pool} pool: output row y from a plane's rows, of which `rows` points to row `first_row`.",
        f"const struct nnkit_pool *pool, const {row.x.c} *rows,\n"
        f"    nnkit_i32 first_row, nnkit_i32 y, {row.y.c} *out",
        inner=True,
    )
