"""Which C every fixed-point op has, and the C files that a network needs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

from nnkit.c.fixed.activation import ActivationC
from nnkit.c.fixed.add import AddC
from nnkit.c.fixed.concat import ConcatC
from nnkit.c.fixed.conv2d import Conv2dC, dense_source, running_output_is_signed
from nnkit.c.fixed.conv2d_depthwise import depthwise_source
from nnkit.c.fixed.conv2d_packed import packed_source
from nnkit.c.fixed.conv_transpose2d import ConvTranspose2dC, transposed_source
from nnkit.c.fixed.conv_transpose2d_packed import transposed_packed_source
from nnkit.c.fixed.elementwise import elementwise_source
from nnkit.c.fixed.embedding import EmbeddingC
from nnkit.c.fixed.join_rows import JoinRowsC
from nnkit.c.fixed.limits import KernelLimits, tensor_is_addressable, window_is_small
from nnkit.c.fixed.log_softmax import LogSoftmaxC
from nnkit.c.fixed.lookup import LookupC, lookup_source
from nnkit.c.fixed.matmul import MatMulC
from nnkit.c.fixed.move import move_source
from nnkit.c.fixed.mul import MulC
from nnkit.c.fixed.normalize_rows import NormalizeRowsC
from nnkit.c.fixed.operator import Declaration, Function, OperatorC, Source
from nnkit.c.fixed.pad import PadC
from nnkit.c.fixed.pool import PoolC, pool_source
from nnkit.c.fixed.reshape import ReshapeC
from nnkit.c.fixed.rows import rows_source
from nnkit.c.fixed.slice import SliceC
from nnkit.c.fixed.softmax import SoftmaxC
from nnkit.c.fixed.transpose import TransposeC
from nnkit.c.fixed.upsample import UpsampleC
from nnkit.c.sources import c_environment, tidy_source
from nnkit.constraints import OpConstraint
from nnkit.errors import InternalError
from nnkit.generated import packaged_text
from nnkit.program import (
    Activation,
    Add,
    Concat,
    Conv2d,
    ConvTranspose2d,
    Embedding,
    JoinRows,
    LogSoftmax,
    Lookup,
    MatMul,
    Mul,
    NormalizeRows,
    OpBase,
    Pad,
    Pool,
    Program,
    Reshape,
    Slice,
    Softmax,
    Transpose,
    Upsample,
)

TASK_HEADER = "nnkit_task.h"  # the same for every network: tasks, and the layers' structures

_OPERATORS: Mapping[type[OpBase], OperatorC[Any]] = MappingProxyType(
    {
        Conv2d: Conv2dC(),
        ConvTranspose2d: ConvTranspose2dC(),
        Pool: PoolC(),
        Add: AddC(),
        Mul: MulC(),
        Activation: ActivationC(),
        Lookup: LookupC(),
        Concat: ConcatC(),
        Upsample: UpsampleC(),
        Pad: PadC(),
        Reshape: ReshapeC(),
        Slice: SliceC(),
        Transpose: TransposeC(),
        Softmax: SoftmaxC(),
        LogSoftmax: LogSoftmaxC(),
        Embedding: EmbeddingC(),
        NormalizeRows: NormalizeRowsC(),
        MatMul: MatMulC(),
        JoinRows: JoinRowsC(),
    }
)

CONSTRAINTS: tuple[OpConstraint[KernelLimits], ...] = (
    window_is_small,
    tensor_is_addressable,
    running_output_is_signed,
)

_SourceOf: TypeAlias = Callable[[Collection[Function]], Source | None]
_SOURCES: tuple[_SourceOf, ...] = (
    depthwise_source,
    dense_source,
    packed_source,
    transposed_source,
    transposed_packed_source,
    pool_source,
    elementwise_source,
    lookup_source,
    move_source,
    rows_source,
)


def operator_c(op: OpBase) -> OperatorC[Any]:
    """The C of an op. Raises InternalError for one that has none."""
    operator = _OPERATORS.get(type(op))
    if operator is None:
        raise InternalError(f"no kernel for {op.kind}", where=op.name)
    return operator


def task_header() -> str:
    """The text of `nnkit_task.h`."""
    return packaged_text("nnkit", "c", "fixed", TASK_HEADER)


OperatorOf: TypeAlias = Callable[[OpBase], OperatorC[Any]]
"""Which C an op has on a target; `operator_c` unless the target has kernels of its own choice."""


def kernel_sources(program: Program, title: str, stem: str, operator_of: OperatorOf = operator_c) -> dict[str, str]:
    """The generated kernel files by name: the functions that a program uses, and a header.

    Args:
        title, stem: of the network: in comments; in file names and, with an underscore, before every function's name.
    """
    functions = {function for op in program.ops for function in operator_of(op).functions(op, program)}
    sources = [source for source_of in _SOURCES if (source := source_of(functions)) is not None]
    environment = c_environment("nnkit", "c", "fixed")
    common = {"network": title, "stem": stem, "prefix": f"{stem}_"}
    files = {
        f"{stem}_{source.name}.c": tidy_source(environment, source.template, {**common, **source.values})
        for source in sources
    }
    declarations: list[Declaration] = [each for source in sources for each in source.declarations]
    declarations.sort(key=lambda each: not each.inner)
    header = {**common, "declarations": declarations, "guard": stem.upper()}
    files[f"{stem}_kernels.h"] = tidy_source(environment, "kernels.h.j2", header)
    return files
