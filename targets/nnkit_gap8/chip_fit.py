"""Whether a build runs on GAP8 at all: what the plan takes of L2 and its code together, and whether it links.

Code is bounded by tables (`code_size.py`, `affine/code_size.py`), which are never below what the compiler makes.
Where they cannot show that it fits, the compiler for rv32imc, where there is one, tells how much it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nnkit.boards.tools import INSTALL, RV32_COMPILER, RV32_SIZE, missing_tools
from nnkit.errors import DoesNotFitError
from nnkit.memory.plan import MemoryPlan
from nnkit.owned_folder import temporary_folder
from nnkit_gap8.gvsoc_runner import link_for_cluster
from nnkit_gap8.options import L2_BYTES, Gap8Options
from nnkit_gap8.runners import compiled_code_bytes


@dataclass(frozen=True)
class CodeSize:
    """Instructions and constants. measured: of objects; otherwise the most that they take."""

    size_bytes: int
    measured: bool

    def __str__(self) -> str:
        return f"{'' if self.measured else 'at most '}{self.size_bytes:,} bytes"


def kept_for_code(plan: MemoryPlan) -> int:
    """Bytes of L2 that a plan keeps for code."""
    return sum(buffer.size_bytes for buffer in plan.buffers.values() if buffer.kind == "code")


def check_code_fits(
    artifact: Path,
    plan: MemoryPlan,
    options: Gap8Options,
    most_bytes: int,
    planned_with_code: Callable[[Gap8Options], MemoryPlan],
) -> None:
    """Hold code and plan together to L2, or the code to what the plan keeps for it.

    A memory that the recipe makes larger than the chip's counts as it says; the build's notes say so.

    Args:
        artifact: as emitted. most_bytes: of code, by the tables.
        planned_with_code: the plan under other options. Raises DoesNotFitError.

    Raises DoesNotFitError.
    """
    kept = kept_for_code(plan)
    taken = plan.regions["l2"].peak_bytes - kept
    capacity = max(options.memory.l2, L2_BYTES)
    room = kept or capacity - taken
    if most_bytes <= room:
        return
    missing = missing_tools((RV32_COMPILER, RV32_SIZE))
    code = CodeSize(most_bytes, False) if missing else CodeSize(compiled_code_bytes(artifact), True)
    if code.size_bytes <= room:
        return
    measures = "" if code.measured else f"; or install a compiler that measures the code ({INSTALL[RV32_COMPILER]})"
    if kept:
        raise DoesNotFitError(
            f"instructions and constants take {code}, {code.size_bytes - kept:,} more than `memory.code`",
            where=artifact.parent.name,
            remedy=f"set `memory: {{code: {code.size_bytes}}}`, or `code: auto`{measures}",
        )
    raise DoesNotFitError(
        f"activations and weights take {taken:,} bytes of L2, instructions and constants {code}: together "
        f"{taken + code.size_bytes - capacity:,} more than the {capacity:,} there are",
        where="l2",
        remedy=_remedy(options, planned_with_code) + measures,
    )


def _remedy(options: Gap8Options, planned_with_code: Callable[[Gap8Options], MemoryPlan]) -> str:
    """`memory.code: auto` where a plan with it was found."""
    memory = options.memory.model_copy(update={"code": "auto"})
    try:
        plan = planned_with_code(options.model_copy(update={"memory": memory}))
    except DoesNotFitError as error:
        return f"{error.remedy}; `memory: {{code: auto}}` finds no room for the code either: {error.reason}"
    peak = plan.regions["l2"].peak_bytes
    return (
        f"set `memory: {{code: auto}}`: the plan then takes {peak:,} bytes, {kept_for_code(plan):,} of them for the "
        "code, which is no more than that"
    )


def check_links(artifact: Path) -> None:
    """Link a build for the cluster as its Makefile does, where the compiler is there.

    Raises ToolError where that fails, DoesNotFitError where L2 is too small.
    """
    if missing_tools((RV32_COMPILER,)) is None:
        with temporary_folder("nnkit-link-") as folder:
            link_for_cluster(artifact.resolve(), folder)
