"""The most that instructions and constants of a network take, before anything is compiled.

Constants are counted; of instructions these are bounds of what was measured of objects for rv32imc (gcc 12.2, the
flags of `compile_flags`): networks in 16 and 8 bits, with and without tiles, and drawn ones. The tests compare them
with what the compiler makes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

from nnkit.c.fixed.catalogue import operator_c
from nnkit.c.fixed.layer import Constant
from nnkit.c.fixed.operator import Function
from nnkit.c.fixed.rows import RowsFunction
from nnkit.memory.plan import MemoryPlan
from nnkit.program import Program
from nnkit_gap8.cluster.build import Cluster
from nnkit_gap8.network_code import network_code
from nnkit_gap8.options import Gap8Options
from nnkit_gap8.step_table import step_table
from nnkit_gap8.steps import StepView

StepsForm: TypeAlias = Literal["calls", "table"]
"""The steps written out as calls, or as a table that a loop walks."""

_ELEMENT_BYTES: Mapping[str, int] = {"nnkit_u8": 1, "nnkit_i8": 1, "nnkit_u16": 2, "nnkit_i16": 2}

# Of `<name>_run`, in bytes of instructions.
_RUN, _CALL, _WEIGHTED_CALL, _TILES, _TILES_KERNEL = 300, 62, 100, 115, 34
_RUN_OF_TABLE, _KERNEL_OF_TABLE = 560, 40
_SCHEDULE = 2600  # of tiles

# Of kernels, by how their functions' names begin, with the functions inside that they alone call.
_KERNELS: tuple[tuple[str, int], ...] = (
    ("conv_depthwise", 2000),
    ("conv_transposed_packed", 1700),
    ("conv_transposed", 2900),
    ("conv_direct", 1600),
    ("conv_rows", 3900),
    ("conv_packed", 1700),
    ("image", 750),
    ("max_row", 900),
    ("average_row", 620),
    ("lookup", 180),
)
_OTHER_KERNEL = 340
_ROWS: Mapping[str, int] = {
    "normalize_rows": 1600,
    "matmul": 500,
    "softmax": 420,
    "log_softmax": 1200,
    "embedding": 340,
}
_WIDER: Mapping[str, int] = {"_leaky": 1900, "_running": 1900, "_acc64": 2800}
"""A convolution with slopes, running or 64-bit sums: its inner loops again as long."""
_POOL_BEHIND = 600


def code_bytes(program: Program, plan: MemoryPlan, options: Gap8Options, form: StepsForm) -> int:
    """Instructions and constants of a network whose steps have this form."""
    machine = options.core_machine()
    cluster = None if options.cluster is None else Cluster(program, machine)
    code = network_code(program, plan, machine, cluster, as_table=form == "table")
    constants = [constant for layer in code.layers for constant in layer.constants]
    total = constant_bytes([*constants, *code.tilings])
    operator_of = operator_c if cluster is None else cluster.operators(plan)
    functions = {function for op in program.ops for function in operator_of(op).functions(op, program)}
    total += _kernels_bytes(functions) + (_SCHEDULE if cluster is not None else 0)
    if form == "table":
        weights = bool(plan.l3_weight_bytes)
        table = step_table(code.steps, len(program.ops), weights=weights)
        return total + _RUN_OF_TABLE + _KERNEL_OF_TABLE * len(table.kernels) + table.size_bytes(weights=weights)
    return total + _RUN + sum(map(_step_bytes, code.steps))


def _step_bytes(step: StepView) -> int:
    size = sum(_CALL if call.weights is None else _WEIGHTED_CALL for call in step.calls)
    if step.tiles is not None:
        size += _TILES + _TILES_KERNEL * (len(step.tiles.kernels) + bool(step.tiles.image))
    return size


def _kernels_bytes(functions: Iterable[Function]) -> int:
    """Functions of a convolution with and without a pool behind it share all but their outermost loop."""
    sizes: dict[str, int] = {}
    pools = 0
    for function in functions:
        name = function.name
        if name.startswith("conv_") and name.endswith("_pool"):
            pools += 1
            name = name.rsplit("_", 2)[0]
        size = next((size for start, size in _KERNELS if name.startswith(start)), _OTHER_KERNEL)
        if isinstance(function, RowsFunction):
            size = _ROWS[function.op]
        if name.startswith("conv_"):
            size += max((more for part, more in _WIDER.items() if part in name), default=0)
        sizes[name] = size
    return sum(sizes.values()) + _POOL_BEHIND * pools


def constant_bytes(constants: Iterable[Constant]) -> int:
    """Bytes of constants: fields of structures are words."""
    total = 0
    for constant in constants:
        values = sum(line.count(",") + 1 for line, _ in constant.lines)
        size = _ELEMENT_BYTES.get(constant.type, 4) if constant.name.endswith("[]") else 4
        total += -(-values * size // 4) * 4
    return total
