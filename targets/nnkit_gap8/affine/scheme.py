"""The affine scheme: what it refuses of a recipe, and its artifact. The other scheme's modules know nothing of it."""

from __future__ import annotations

from dataclasses import replace
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
    from nnkit.c.fixed.machine import CoreMachine
    from nnkit.graph import Model
    from nnkit.memory.engine import Effort
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


def planned(program: Program, options: Gap8Options) -> AffinePlan:
    """Calls and addresses, with room for the code as `memory.code` says. Raises DoesNotFitError."""
    code = options.memory.code
    machine = MemoryMachine(
        *options.regions(),
        context_bytes=CONTEXT_BYTES,
        stack_bytes=AFFINE_STACK_BYTES,
        code_bytes=0 if code is None or code == "auto" else code,
    )
    cores = None if options.cluster is None else options.core_machine()
    effort = options.memory_search.effort()
    return _planned(of_scheme(program), machine, options.weight_budget, effort, cores, auto_code=code == "auto")


@lru_cache(maxsize=1)
def _planned(
    program: AffineProgram,
    machine: MemoryMachine,
    weight_budget_bytes: int | None,
    effort: Effort,
    cores: CoreMachine | None,
    *,
    auto_code: bool,
) -> AffinePlan:
    """The latest is kept: a build plans, bounds its code and writes its files by the same one."""
    cluster = None if cores is None else AffineCluster(program, cores)
    for _ in range(ROUNDS if auto_code else 1):
        plan = affine_plan(program, machine, weight_budget_bytes, effort, cluster)
        needed_bytes = affine_code_bytes(plan) if auto_code else 0
        if needed_bytes <= machine.code_bytes:
            return plan
        machine = replace(machine, code_bytes=needed_bytes)
    raise no_room_for_code(program.name, f"at most {machine.code_bytes:,} bytes")


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
