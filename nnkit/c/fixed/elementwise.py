"""What works element by element: `add`, `mul`, and an output stage alone (`activation`, or another format)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias, TypeVar

from nnkit.c.fixed.layer import Constant, stage_lines
from nnkit.c.fixed.operator import Declaration, Function, OneCallC, Source
from nnkit.c.fixed.types import CType, chw, ctype
from nnkit.program import Activation, Add, Fixed, Mul, OutputStage, Program

Kind: TypeAlias = Literal["add", "mul", "requantize"]
OpT = TypeVar("OpT", Add, Mul, Activation)


@dataclass(frozen=True)
class ElementwiseFunction(Function):
    """Add, mul, or requantize; `b`: the second input's type."""

    op: Kind
    x: CType
    b: CType | None
    y: CType
    acc: int
    leaky: bool

    @property
    def name(self) -> str:
        types = [self.x.tag, *([self.b.tag] if self.b else []), self.y.tag]
        extras = ("_leaky" if self.leaky else "") + ("_acc64" if self.acc == 64 else "")
        return f"{self.op}_{'_'.join(types)}{extras}"

    @property
    def two(self) -> bool:
        """Whether there is a second input."""
        return self.b is not None


class ElementwiseC(OneCallC[OpT]):
    """`struct nnkit_elementwise`."""

    kind: ClassVar[Kind]

    def function(self, op: OpT, program: Program) -> Function:
        types = [ctype(program.tensors[name].fixed) for name in (*op.inputs, op.output)]
        second = types[1] if len(types) > 2 else None
        acc = 64 if op.accumulator == "int64" else 32
        return ElementwiseFunction(self.kind, types[0], second, types[-1], acc, op.stage.leaky is not None)

    def constants(self, op: OpT, program: Program, name: str) -> tuple[Constant, ...]:
        """The layer's parameters, its slopes first."""
        output, shifts, per_channel = program.tensors[op.output], self.shifts(op), self.per_channel(op, program)
        constant = _constant(name, chw(output), op.stage, output.fixed, shifts=shifts, per_channel=per_channel)
        if op.stage.leaky is None:
            return (constant,)
        values = ", ".join(str(int(value)) for value in op.stage.leaky.slopes)
        return Constant("nnkit_i16", f"{name}_slopes[]", ((values, "negative slopes"),)), constant

    def shifts(self, op: OpT) -> tuple[int, int]:
        """How far each input is shifted left."""
        return 0, 0

    def per_channel(self, op: OpT, program: Program) -> bool:
        """Whether the second input has one element per channel."""
        return False


def requantize_function(source: Fixed, target: Fixed) -> ElementwiseFunction:
    """The kernel that brings values of one format into another."""
    return ElementwiseFunction("requantize", ctype(source), None, ctype(target), 32, False)


def requantize_constant(name: str, shape: tuple[int, int, int], shift: int, target: Fixed) -> Constant:
    """The parameters that bring [C, H, W] into another format: shifted right and saturated."""
    return _constant(name, shape, OutputStage(shift, 0, 0), target, clip_last=True)


def elementwise_source(functions: Collection[Function]) -> Source | None:
    """The file with all element-wise kernels."""
    mine = {function for function in functions if isinstance(function, ElementwiseFunction)}
    kernels = sorted(mine, key=lambda function: function.name)
    declarations = tuple(Declaration(kernel.name, f"struct nnkit_elementwise: {kernel.op}") for kernel in kernels)
    return Source("elementwise", "elementwise.c.j2", {"elementwise": kernels}, declarations) if kernels else None


def _constant(
    name: str,
    shape: tuple[int, int, int],
    stage: OutputStage,
    storage: Fixed,
    *,
    shifts: tuple[int, int] = (0, 0),
    per_channel: bool = False,
    clip_last: bool = False,
) -> Constant:
    """A `struct nnkit_elementwise` over [C, H, W]; a leaky one's slopes are the array `<name>_slopes`."""
    return Constant(
        "struct nnkit_elementwise",
        name,
        (
            (f"{shape[0]}, {shape[1] * shape[2]}", "channels, elements per channel"),
            (f"{shifts[0]}, {shifts[1]}", "left shifts of the inputs"),
            *stage_lines(stage, storage, clip_last),
            (
                f"{int(stage.leaky is not None and stage.leaky.slopes.size > 1)}",
                "slopes per channel (1) or one for all (0)",
            ),
            (f"{name}_slopes" if stage.leaky is not None else "0", "slopes"),
            (f"{int(per_channel)}", "second input has one element per channel"),
        ),
    )
