"""The affine program: one container of affine ops over affine tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from nnkit.program.affine.concat import AffineConcat
from nnkit.program.affine.conv import AffineConv
from nnkit.program.affine.elementwise import AffineActivation, AffineAdd, AffineMul
from nnkit.program.affine.embedding import AffineEmbedding
from nnkit.program.affine.log_softmax import AffineLogSoftmax
from nnkit.program.affine.lookup import AffineLookup
from nnkit.program.affine.move import AffineMove
from nnkit.program.affine.onnx_op import AffineOnnx
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
    | AffineLogSoftmax
    | AffineNormalizeRows
    | AffineMatMul
    | AffineConcat
    | AffineMove
    | AffineOnnx
)


@dataclass(frozen=True, eq=False)
class AffineProgram(Program):
    """A program of affine ops over affine tensors."""

    tensors: Mapping[str, AffineTensor]
    ops: tuple[AffineOp, ...]
    numerics: str = "nnkit.program.affine"
