"""The memory plan of a program as the options ask for it, replayed by the checker before anybody sees it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from nnkit.c.fixed.catalogue import operator_c
from nnkit.memory.checker import check_plan
from nnkit.memory.needs import KernelNeeds
from nnkit.memory.plan import MemoryPlan
from nnkit.memory.problem import UNBOUNDED_BYTES
from nnkit.program import OpBase, Program
from nnkit_gap8.cluster.build import Cluster
from nnkit_gap8.code_choice import with_room_for_code
from nnkit_gap8.code_size import code_bytes
from nnkit_gap8.emit import CONTEXT_BYTES, STACK_BYTES
from nnkit_gap8.loads import MemoryMachine, OpLoad, op_loads, with_single_blocks
from nnkit_gap8.options import Gap8Options
from nnkit_gap8.placements import Placements
from nnkit_gap8.planner import plan

_CODE_BYTES = 64 << 10  # of L2 that weights leave to code and constants where they are fetched early
_PREFETCH_STEPS = 3  # on the cluster, whose L3 may still be busy with one layer's weights while another computes


def checked_plan(program: Program, options: Gap8Options, placements: Placements | None = None) -> MemoryPlan:
    """See `nnkit_gap8.planner`; with `memory.code: auto` see `nnkit_gap8.code_choice`. Raises DoesNotFitError.

    placements: those of other plans of this build, made with the same options.
    """
    job = _Job(program, options, placements or placements_for(options))
    if options.memory.code == "auto":
        return with_room_for_code(program, options, job.with_code)
    return job.with_code(options.memory.code or 0)


def placements_for(options: Gap8Options) -> Placements:
    """None yet; searched as long as the options say."""
    return Placements(options.memory_search.effort())


def loads_of(program: Program, options: Gap8Options) -> list[OpLoad]:
    """What the ops of a program need beside activations, their weights in the smallest pieces that are worth it.

    On the cluster every further piece takes the whole input through L1 again; elsewhere small pieces cost little.
    """
    machine, cores = memory_machine(options), options.core_machine()
    if options.cluster is None:
        return with_single_blocks(op_loads(program, lambda op: operator_c(op).needs(op, program, cores), machine))
    return op_loads(program, Cluster(program, cores).needs, machine)


def search_machine(program: Program, options: Gap8Options, placements: Placements) -> MemoryMachine:
    """The memories for a search of stripes: with `memory.code: auto` with room for the layers whole, as a table."""
    machine = memory_machine(options)
    if options.memory.code != "auto":
        return machine
    roomy = options.model_copy(update={"memory": options.memory.model_copy(update={"l2": UNBOUNDED_BYTES})})
    plan_of_roomy = _Job(program, roomy, placements).with_code(0)
    return replace(machine, code_bytes=code_bytes(program, plan_of_roomy, roomy, "table"))


def memory_machine(options: Gap8Options) -> MemoryMachine:
    """The memories as the options size them, with what is kept in L2 for context, stack and code.

    Code whose room is found while planning counts as none.
    """
    code = options.memory.code
    return MemoryMachine(
        *options.regions(),
        context_bytes=CONTEXT_BYTES,
        stack_bytes=STACK_BYTES,
        code_bytes=code if isinstance(code, int) else 0,
    )


@dataclass(frozen=True)
class _Job:
    program: Program
    options: Gap8Options
    placements: Placements

    def with_code(self, kept_bytes: int) -> MemoryPlan:
        """The plan that keeps so many bytes of L2 for code."""
        program, cores = self.program, self.options.core_machine()
        if self.options.cluster is None:
            return self._planned(lambda op: operator_c(op).needs(op, program, cores), kept_bytes)
        cluster = Cluster(program, cores)
        tiles = cluster.tile_plan(self._planned(cluster.needs, kept_bytes))
        # Where weights lie decides the tiles, and these what the layers take of L1, which changes nothing in L2.
        return self._planned(lambda op: cluster.needs(op, tiles), kept_bytes)

    def _planned(self, needs: Callable[[OpBase], KernelNeeds], kept_bytes: int) -> MemoryPlan:
        options = self.options
        machine = replace(memory_machine(options), code_bytes=kept_bytes)
        if options.cluster is not None and options.stripes != "least":
            pool_bytes = machine.l2.capacity_bytes - CONTEXT_BYTES - STACK_BYTES - (machine.code_bytes or _CODE_BYTES)
            machine = replace(machine, prefetch_steps=_PREFETCH_STEPS, prefetch_pool_bytes=max(0, pool_bytes))
        memory_plan = plan(
            self.program,
            needs,
            machine,
            planner=options.planner,
            weight_budget_bytes=options.weight_budget,
            # On the cluster another chunk of weights costs the whole input's way through L1 once more.
            repack_limit=options.repack_limit if options.cluster is None else 0.0,
            placements=self.placements,
        )
        check_plan(self.program, memory_plan, needs)
        return memory_plan
