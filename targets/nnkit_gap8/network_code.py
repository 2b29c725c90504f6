"""What a network's own C file is made of: the layers' constants and the steps, before they are text."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from nnkit.c.fixed.catalogue import OperatorOf, operator_c
from nnkit.c.fixed.layer import Call, Constant
from nnkit.c.fixed.machine import CoreMachine
from nnkit.c.text import unique_identifiers
from nnkit.memory.plan import MemoryPlan
from nnkit.program import JoinRows, Program
from nnkit_gap8.cluster.build import Cluster
from nnkit_gap8.cluster.tiling_constants import tiling_constants
from nnkit_gap8.shared_constants import with_shared_constants
from nnkit_gap8.steps import StepView, layer_comment, step_views

RESERVED = frozenset((
    "context", "l1", "l2", "port", "task", "tiles", "set_task", "set_weights", "run_kernel", "step", "steps", "fetch",
    "fetches", "left",
))  # fmt: skip
"""Names that the generated code uses."""


@dataclass(frozen=True)
class Layer:
    """A layer's constants with a comment."""

    comment: str
    constants: tuple[Constant, ...]


@dataclass(frozen=True)
class NetworkCode:
    """tilings: constants of the layers in tiles."""

    layers: tuple[Layer, ...]
    tilings: tuple[Constant, ...]
    steps: tuple[StepView, ...]


def network_code(
    program: Program, plan: MemoryPlan, machine: CoreMachine, cluster: Cluster | None, *, as_table: bool
) -> NetworkCode:
    """Where code should be small, one constant serves all layers with the same parameters.

    It should be in a table, where the plan keeps room for code, and in stripes. Layers in tiles keep their own.
    """
    kept = any(buffer.kind == "code" for buffer in plan.buffers.values())
    share = as_table or kept or any(isinstance(op, JoinRows) for op in program.ops)
    operator_of = operator_c if cluster is None else cluster.operators(plan)
    tiles = None if cluster is None else cluster.tile_plan(plan)
    calls = _calls(program, machine, operator_of)
    if share and cluster is None:
        calls = with_shared_constants(calls)
    tilings = tiling_constants(program, tiles, calls)
    steps = step_views(program, plan, calls, None if tiles is None else tilings.of_step)
    used = {call.layer for step in steps for call in step.calls}
    used |= {call.layer for step in steps if step.tiles for call in calls[program.ops[step.op].name]}
    return NetworkCode(_layers(program, calls, used), tilings.constants, tuple(steps))


def _calls(program: Program, machine: CoreMachine, operator_of: OperatorOf) -> dict[str, tuple[Call, ...]]:
    """The kernel calls of every op by its name."""
    names = unique_identifiers((op.name for op in program.ops), RESERVED)
    return {op.name: operator_of(op).calls(op, program, machine, f"layer_{names[op.name]}") for op in program.ops}


def _layers(program: Program, calls: Mapping[str, tuple[Call, ...]], used: Collection[str]) -> tuple[Layer, ...]:
    """Every layer with the constants of its calls; those of calls that nothing is left of would be unused."""
    return tuple(
        Layer(
            layer_comment(op, program),
            tuple(constant for call in calls[op.name] if call.layer in used for constant in call.constants),
        )
        for op in program.ops
    )
