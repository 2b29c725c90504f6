"""How a network's steps stand in its C, and the room that its code takes of L2."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

from nnkit.errors import DoesNotFitError
from nnkit.memory.plan import MemoryPlan
from nnkit.program import JoinRows, Program
from nnkit_gap8.code_size import StepsForm, code_bytes
from nnkit_gap8.options import Gap8Options

ROUNDS = 4  # plans with more and more room for code: what is left of L2 decides how many pieces weights come in


def steps_form(program: Program, plan: MemoryPlan, options: Gap8Options) -> StepsForm:
    """As the options say; `auto`: a table where the calls, by their bound, are too much.

    Too much is more than the plan keeps for code; where it keeps none, more than the chip's L2 has beside the peak.
    """
    if options.steps != "auto":
        return options.steps
    if options.stripes == "least" and any(isinstance(op, JoinRows) for op in program.ops):
        return "table"
    return "calls" if code_bytes(program, plan, options, "calls") <= code_room_bytes(plan, options) else "table"


def kept_for_code(plan: MemoryPlan) -> int:
    """Bytes of L2 that a plan keeps for code."""
    return sum(buffer.size_bytes for buffer in plan.buffers.values() if buffer.kind == "code")


def code_room_bytes(plan: MemoryPlan, options: Gap8Options) -> int:
    """Bytes of L2 for code: those that the plan keeps, or where it keeps none, what it leaves of the chip's."""
    return kept_for_code(plan) or options.memory.on_chip_l2_bytes - plan.regions["l2"].peak_bytes


def with_code_told(program: Program, plan: MemoryPlan, options: Gap8Options) -> MemoryPlan:
    """The plan, with a note of a table that was chosen."""
    if options.steps != "auto" or steps_form(program, plan, options) != "table":
        return plan
    table, calls = (code_bytes(program, plan, options, each) for each in ("table", "calls"))
    note = f"the steps are a table: at most {table:,} bytes of code, {calls:,} written out as calls"
    return replace(plan, notes=(*plan.notes, note))


def with_room_for_code(program: Program, options: Gap8Options, planned: Callable[[int], MemoryPlan]) -> MemoryPlan:
    """The plan with room for the code, written out as calls where that fits, otherwise as a table.

    Args:
        planned: a plan that keeps so many bytes for code. Raises DoesNotFitError.

    Raises DoesNotFitError, which names the code.
    """
    forms: tuple[StepsForm, ...] = ("calls", "table") if options.steps == "auto" else (options.steps,)
    sizes: dict[StepsForm, int] = {}
    planned = cache(planned)
    for form in forms:
        kept = 0
        try:
            for _ in range(ROUNDS):
                plan = planned(kept)
                sizes[form] = code_bytes(program, plan, options, form)
                if sizes[form] <= kept:
                    return plan
                kept = sizes[form]
        except DoesNotFitError as error:
            if form == forms[-1]:
                raise _with_code_named(error, sizes) from error
    raise no_room_for_code(program.name, _named(sizes))


def no_room_for_code(network: str, code: str) -> DoesNotFitError:
    """Where plans take more and more code. code: how much it was."""
    return DoesNotFitError(
        f"no room for the code was found: {code}",
        where=network,
        remedy="set `memory: {code: ...}` to a number of bytes",
    )


def _with_code_named(error: DoesNotFitError, sizes: dict[StepsForm, int]) -> DoesNotFitError:
    if not sizes:  # without any code it does not fit either
        return error
    return DoesNotFitError(f"{error.reason}; of them {_named(sizes)}", where=error.where, remedy=error.remedy)


def _named(sizes: dict[StepsForm, int]) -> str:
    words = {"calls": "written out as calls", "table": "as a table of steps"}
    return "code: " + ", ".join(f"at most {size:,} bytes {words[form]}" for form, size in sizes.items())
