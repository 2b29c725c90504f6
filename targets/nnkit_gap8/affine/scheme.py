"""The affine scheme: what it refuses of a recipe, and its artifact. The other scheme's modules know nothing of it."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from nnkit.errors import InternalError, RecipeError
from nnkit.program import Program
from nnkit.program.affine import AffineProgram
from nnkit_gap8.affine.cluster import AffineCluster
from nnkit_gap8.affine.code_size import affine_code_bytes
from nnkit_gap8.affine.plan import AFFINE_STACK_BYTES, AffinePlan, affine_plan
from nnkit_gap8.code_choice import ROUNDS, no_room_for_code
from nnkit_gap8.emit import CONTEXT_BYTES
from nnkit_gap8.loads import MemoryMachine

if TYPE_CHECKING:
    from nnkit.graph import Model
    from nnkit.quantize.lowered import LoweredLayers
    from nnkit.target import PrecisionSearch, Quantization
    from nnkit_gap8.options import Gap8Options

_WHY_NOT_AFFINE = {
    "accumulate": "all sums are rounded once",
    "accumulator_bits": "sums have the width that each layer needs",
    "unsigned": "zero points take its place",
    "formats": "pinned formats are powers of two",
    "planner": "there is one planner",
    "stripes": "all layers run whole",
    "steps": "calls are written out",
    "repack_limit": "convolutions are cut into as few calls as L2 allows",
}
"""Options of power-of-two fixed point, and why affine integers have none of them."""
_ONE_CORE = "the affine kernels run on one core, or on those of `cluster`"


def check_options(options: Gap8Options) -> None:
    """Raises RecipeError for options of power-of-two fixed point."""
    if options.cores not in (1, type(options).model_fields["cores"].default):
        raise RecipeError(
            f"`cores: {options.cores}` with `scheme: affine`: {_ONE_CORE}",
            remedy="remove `cores`, or set `scheme: power_of_two`",
        )
    for name, reason in _WHY_NOT_AFFINE.items():
        if getattr(options, name) != type(options).model_fields[name].default:
            raise RecipeError(
                f"`{name}` is of `scheme: power_of_two`; with `scheme: affine` {reason}",
                remedy=f"remove `{name}`, or set `scheme: power_of_two`",
            )


@lru_cache(maxsize=1)
def planned(program: Program, options: Gap8Options) -> AffinePlan:
    """Calls and addresses, with room for the code as `memory.code` says. Raises DoesNotFitError.

    The latest is kept: a build plans, bounds its code and writes its files by the same one.
    """
    affine = of_scheme(program)
    cluster = None if options.cluster is None else AffineCluster(affine, options.core_machine())

    def with_code(kept_bytes: int) -> AffinePlan:
        machine = MemoryMachine(
            *options.regions(),
            context_bytes=CONTEXT_BYTES,
            stack_bytes=AFFINE_STACK_BYTES,
            code_bytes=kept_bytes,
        )
        return affine_plan(affine, machine, options.weight_budget, options.memory_search.effort(), cluster)

    if options.memory.code != "auto":
        return with_code(options.memory.code or 0)
    kept = 0
    for _ in range(ROUNDS):
        plan = with_code(kept)
        needed = affine_code_bytes(plan)
        if needed <= kept:
            return plan
        kept = needed
    raise no_room_for_code(affine.name, f"at most {kept:,} bytes")


def of_scheme(program: Program) -> AffineProgram:
    """The program, which is affine by the options that it was made with."""
    if not isinstance(program, AffineProgram):
        raise InternalError(f"{type(program).__name__} is not of the affine scheme")
    return program


def affine_diagnosis(
    reference: Model, lowered: LoweredLayers, quantization: Quantization, options: Gap8Options
) -> PrecisionSearch:
    """The network with any set of layers in 16 bits; raises RecipeError where all have them."""
    from nnkit.affine_build.diagnosis import AffineDiagnosis
    from nnkit.target import PrecisionSearch

    settings = {
        "target": "gap8",
        "options": options.model_dump(mode="json"),
        "calibration": quantization.calibration.model_dump(mode="json"),
    }
    return PrecisionSearch(settings, lambda: AffineDiagnosis(reference, lowered, quantization, options.affine))
