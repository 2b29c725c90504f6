"""The affine program: one container of affine ops over affine tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from nnkit.program.affine.concat import AffineConcat
from nnkit.program.affine.conv import AffineConv
from nnkit.program.affine.elementwise import AffineActivation, AffineAdd, AffineMul
from nnkit.program.affine.embedding import AffineEmbedding
from nnkit.program.affine.lookup import AffineLookup
from nnkit.program.affine.move import AffineMove
from nnkit.program.affine.op import AffineTensor
from nnkit.program.affine.pool import AffinePool
from nnkit.program.affine.rows import AffineMatMul, AffineNormalizeRows
from nnkit.program.affine.softmax import AffineSoftmax
from nnkit.program.program import Program

AffineOp: TypeAlias = (
    AffineConv
    | AffinePool
    | AffineAdd
    | AffineMul
    | AffineActivation
    | AffineLookup
    | AffineEmbedding
    | AffineSoftmax
    | AffineNormalizeRows
    | AffineMatMul
    | AffineConcat
    | AffineMove
)


@dataclass(frozen=True, eq=False)
class AffineProgram(Program):
    """A program of affine ops over affine tensors."""

    tensors: Mapping[str, AffineTensor]
    ops: tuple[AffineOp, ...]
    numerics: str = "nnkit.program.affine"


def with_names(program: AffineProgram, names: Mapping[str, str]) -> AffineProgram:
    """The program with values called otherwise: new names by old ones; values that are not listed keep theirs."""

    def new(name: str) -> str:
        return names.get(name, name)

    return replace(
        program,
        tensors={new(name): replace(tensor, name=new(name)) for name, tensor in program.tensors.items()},
        ops=tuple(
            replace(op, inputs=tuple(new(name) for name in op.inputs), output=new(op.output)) for op in program.ops
        ),
        inputs=tuple(new(name) for name in program.inputs),
        outputs=tuple(new(name) for name in program.outputs),
    )
