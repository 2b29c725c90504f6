"""What moves elements without looking at them: `upsample`, `pad`, copies (`reshape`, parts of `concat`), stripes of
rows (`join_rows`), and `gather` (`transpose`, `slice`)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias, TypeVar

from nnkit.c.fixed.layer import Call, Constant
from nnkit.c.fixed.operator import Declaration, Function, OneCallC, Source
from nnkit.c.fixed.types import CType, raw_type
from nnkit.program import Pad, Program, Tensor, Upsample

Kind: TypeAlias = Literal["copy", "upsample", "pad", "gather", "rows"]
OpT = TypeVar("OpT", Upsample, Pad)


@dataclass(frozen=True, order=True)
class MoveFunction(Function):
    """A kernel that only moves elements."""

    op: Kind
    x: CType

    @property
    def name(self) -> str:
        return f"{self.op}_{self.x.tag}"

    @property
    def struct(self) -> str:
        """The structure of its parameters."""
        return "nnkit_gather" if self.op == "gather" else "nnkit_move"


class MoveC(OneCallC[OpT]):
    """`struct nnkit_move`."""

    kind: ClassVar[Kind]

    def function(self, op: OpT, program: Program) -> Function:
        return move_function(self.kind, program.tensors[op.output])


def move_function(kind: Kind, tensor: Tensor) -> MoveFunction:
    """The kernel that moves a tensor's elements."""
    return MoveFunction(kind, raw_type(tensor.format.bytes))


def copy_call(name: str, shape: tuple[int, int, int], source: Tensor, part: int, out_channel: int) -> Call:
    """A copy of the op's input `part`, seen as [C, H, W], to the output from channel `out_channel` on."""
    constants = (move_constant(name, shape, shape),)
    return Call(move_function("copy", source).name, name, (part,), constants, out_channel, copies=True)


def move_source(functions: Collection[Function]) -> Source | None:
    """The file with all kernels that move elements."""
    kernels = sorted({function for function in functions if isinstance(function, MoveFunction)})
    declarations = tuple(
        Declaration(kernel.name, f"struct {kernel.struct}: {kernel.op}, elements of {kernel.x.bytes} byte(s)")
        for kernel in kernels
    )
    return Source("move", "move.c.j2", {"moves": kernels}, declarations) if kernels else None


def move_constant(
    name: str,
    source: tuple[int, int, int],
    output: tuple[int, int, int],
    *,
    scale: tuple[int, int] = (1, 1),
    offset: tuple[int, int] = (0, 0),
    value: int = 0,
) -> Constant:
    """A `struct nnkit_move` from [C, H, W] to [C, H, W]."""
    return Constant(
        "struct nnkit_move",
        name,
        (
            (f"{source[0]}", "channels"),
            (f"{source[1]}, {source[2]}", "input height, width"),
            (f"{output[1]}, {output[2]}", "output height, width"),
            (f"{scale[0]}, {scale[1]}", "scale"),
            (f"{offset[0]}, {offset[1]}", "rows above, columns left"),
            (f"{value}", "value, as unsigned bits"),
        ),
    )
