"""Whether a build runs on GAP8 at all: what the plan takes of L2 and its code together, and whether it links.

Code is bounded by tables (`code_size.py`, `affine/code_size.py`), which are never below what the compiler makes.
Where they cannot show that it fits, the compiler for rv32imc, where there is one, tells how much it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from nnkit.boards.tools import INSTALL, RV32_COMPILER, RV32_SIZE, missing_tools
from nnkit.errors import DoesNotFitError
from nnkit.generated import write_sources
from nnkit.memory.plan import MemoryPlan
from nnkit.owned_folder import temporary_folder
from nnkit_gap8.code_choice import code_room_bytes, kept_for_code
from nnkit_gap8.gvsoc_runner import link_for_cluster
from nnkit_gap8.options import Gap8Options


@dataclass(frozen=True)
class CodeSize:
    """Instructions and constants. measured: of objects; otherwise the most that they take."""

    size_bytes: int
    measured: bool

    def __str__(self) -> str:
        return f"{'' if self.measured else 'at most '}{self.size_bytes:,} bytes"


def code_size(most_bytes: int, room_bytes: int, measured: Callable[[], int]) -> CodeSize:
    """The bound where it fits the room or no compiler is there, otherwise what the compiler makes."""
    if most_bytes <= room_bytes or missing_tools((RV32_COMPILER, RV32_SIZE)):
        return CodeSize(most_bytes, False)
    return CodeSize(measured(), True)


def check_code_fits(
    name: str,
    plan: MemoryPlan,
    options: Gap8Options,
    most_bytes: int,
    measured: Callable[[], int],
    remedy: Callable[[int], str],
) -> None:
    """Hold code and plan together to L2, or the code to what the plan keeps for it.

    Args:
        name: of the network. most_bytes: of code, by the tables.
        measured: what the compiler makes of it; asked where the tables cannot show that it fits. Raises ToolError.
        remedy: for code of so many bytes.

    Raises DoesNotFitError.
    """
    kept, room = kept_for_code(plan), code_room_bytes(plan, options)
    code = code_size(most_bytes, room, measured)
    if code.size_bytes <= room:
        return
    measures = "" if code.measured else f"; or install a compiler that measures the code ({INSTALL[RV32_COMPILER]})"
    if kept:
        raise DoesNotFitError(
            f"instructions and constants take {code}, {code.size_bytes - kept:,} more than `memory.code`",
            where=name,
            remedy=remedy(code.size_bytes) + measures,
        )
    raise DoesNotFitError(
        f"the plan takes {plan.regions['l2'].peak_bytes:,} bytes of L2, instructions and constants {code}: together "
        f"{code.size_bytes - room:,} more than the {options.memory.on_chip_l2_bytes:,} there are",
        where="l2",
        remedy=remedy(code.size_bytes) + measures,
    )


def measured_of(files: Mapping[str, bytes], measure: Callable[[Path], int]) -> int:
    """What `measure` tells of an artifact with these files."""
    with temporary_folder("nnkit-code-") as folder:
        write_sources(folder, files)
        return measure(folder)


def auto_remedy(options: Gap8Options, planned_with_code: Callable[[Gap8Options], MemoryPlan]) -> str:
    """`memory.code: auto` where a plan with it was found. planned_with_code: raises DoesNotFitError."""
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
