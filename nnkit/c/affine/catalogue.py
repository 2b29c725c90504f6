"""Which C each affine op has, and the C files that a network needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nnkit import __version__
from nnkit.c.affine.call import Code, Kernel
from nnkit.c.affine.conv import conv_call
from nnkit.c.affine.depthwise import MOST_TAPS, depthwise_call, is_depthwise
from nnkit.c.affine.elementwise import activation_call, add_call, concat_code, lookup_call, mul_call
from nnkit.c.affine.embedding import embedding_call
from nnkit.c.affine.move import move_code
from nnkit.c.affine.pool import pool_call
from nnkit.c.affine.rows import matmul_call, normalize_call
from nnkit.c.affine.softmax import log_softmax_call, softmax_call
from nnkit.c.sources import c_environment, tidy_source
from nnkit.errors import ModelError
from nnkit.generated import packaged_text
from nnkit.graph.refusal import Refusal, Refused
from nnkit.program import OpBase
from nnkit.program.affine import (
    AffineActivation,
    AffineAdd,
    AffineConcat,
    AffineConv,
    AffineEmbedding,
    AffineLogSoftmax,
    AffineLookup,
    AffineMatMul,
    AffineMove,
    AffineMul,
    AffineNormalizeRows,
    AffinePool,
    AffineProgram,
    AffineSoftmax,
    AffineTensor,
)
from nnkit.program.logarithm import LN2
from nnkit.visible import with_lines

HEADER = "nnkit_affine.h"


def code_of(op: OpBase, tensors: Mapping[str, AffineTensor]) -> Code:
    """The op's C. Raises Refused where it has none."""
    sources, output = [tensors[name] for name in op.inputs], tensors[op.output]
    match op:
        case AffineConv() if is_depthwise(op):
            return [depthwise_call(op, sources[0], output)]
        case AffineConv():
            return [conv_call(op, sources[0], output)]
        case AffinePool():
            return [pool_call(op, sources[0], output)]
        case AffineAdd():
            return [add_call(op, sources, output)]
        case AffineMul():
            return [mul_call(op, sources, output)]
        case AffineActivation():
            return [activation_call(op, sources[0], output)]
        case AffineLookup():
            return [lookup_call(op, sources[0], output)]
        case AffineEmbedding():
            return [embedding_call(op, sources[0], output)]
        case AffineMatMul():
            return [matmul_call(op, sources, output)]
        case AffineNormalizeRows():
            return [normalize_call(op, sources[0], output)]
        case AffineSoftmax():
            return [softmax_call(op, sources[0], output)]
        case AffineLogSoftmax():
            return [log_softmax_call(op, sources[0], output)]
        case AffineConcat():
            return concat_code(op, sources, output)
        case AffineMove():
            return move_code(op, sources[0], output)
    raise Refused(f"there is no C for {type(op).__name__}")


def codes_of(program: AffineProgram, arithmetic: str, remedy: str) -> list[Code]:
    """The C of every op, in order. Raises ModelError naming all that have none.

    arithmetic: what the message calls the C's integers. remedy: what its user can do instead.
    """
    codes, refusals = [], []
    for op in program.ops:
        try:
            codes.append(code_of(op, program.tensors))
        except Refused as error:
            refusals.append(Refusal(op.name, op.kind, error.reason, error.remedy))
    if refusals:
        reason = with_lines(f"these layers have no C of {arithmetic}:", map(str, refusals))
        raise ModelError(reason, remedy=remedy)
    return codes


def header() -> str:
    """The text of `nnkit_affine.h`."""
    return packaged_text("nnkit", "c", "affine", HEADER)


def kernels_source(prefix: str, kernels: Sequence[Kernel]) -> tuple[tuple[str, ...], str]:
    """(prototypes, definitions) of the functions that a network calls."""
    environment = c_environment("nnkit", "c", "affine")
    environment.globals["limit"] = MOST_TAPS
    environment.globals["ln2"] = LN2
    prototypes, definitions = [], []
    for template in sorted({kernel.template for kernel in kernels}):
        module = environment.get_template(f"{template}.c.j2").module
        mine = [kernel for kernel in kernels if kernel.template == template]
        prototypes += [str(module.signature(prefix, kernel)).strip() + ";" for kernel in mine]  # type: ignore[attr-defined]
        definitions.append(str(module.source(prefix, mine)))  # type: ignore[attr-defined]
    return tuple(prototypes), "\n".join(definitions)


def kernel_files(
    prefix: str, kernels: Sequence[Kernel], structures: Mapping[str, tuple[str, ...]], headers: Sequence[str] = ()
) -> dict[str, str]:
    """`<prefix>_kernels.h` and `<prefix>_kernels.c`.

    structures: the members of each structure of numbers. headers: others that the first includes.
    """
    prototypes, definitions = kernels_source(prefix, kernels)
    values = {
        "prefix": prefix,
        "macro": prefix.upper(),
        "version": __version__,
        "structures": structures,
        "headers": headers,
        "prototypes": prototypes,
        "definitions": definitions,
    }
    environment = c_environment("nnkit", "c", "affine")
    return {f"{prefix}_kernels.{end}": tidy_source(environment, f"kernels.{end}.j2", values) for end in ("h", "c")}
