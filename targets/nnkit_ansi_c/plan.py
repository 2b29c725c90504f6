"""Where the values of a float32 program lie: the arena of the generated C as a memory plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from nnkit.cpu_segments.arena import VALUE_BYTES
from nnkit.errors import DoesNotFitError
from nnkit.memory.overlaps import with_overlaps
from nnkit.memory.plan import Buffer, BufferKind, MemoryPlan, RegionUse, Step, TensorPlace
from nnkit.memory.problem import roots_of
from nnkit.program import Program
from nnkit_ansi_c.network import Network
from nnkit_ansi_c.regions import Regions
from nnkit_ansi_c.stripe_values import origin, striped_layers

if TYPE_CHECKING:
    from nnkit.cpu_segments.assemble import Assembly

ARENA, CALLER = "arena", "caller"
ONE_ARENA = Regions()


def plan_of(
    program: Program, network: Network, limit_bytes: int | None, *, stripes_chosen: bool = True
) -> MemoryPlan:
    """The arena, and inputs and outputs, which are the caller's arrays.

    limit_bytes: of the arena; None: as much as it needs. stripes_chosen: see `too_much`. Raises DoesNotFitError.
    """
    assembly = network.assembly
    arena = assembly.arena
    peak_bytes = arena.float_bytes + arena.int_bytes
    steps = _steps(program, assembly)
    if limit_bytes is not None and peak_bytes > limit_bytes:
        names = [step.layer for step in assembly.steps for _ in step.calls]
        peak = names[peak_step(_outermost(assembly), len(names))]
        raise too_much(program, peak, peak_bytes, limit_bytes, stripes_chosen=stripes_chosen)
    last = max(len(steps) - 1, 0)
    buffers = _outermost(assembly, network.regions)
    caller_bytes = 0
    inputs = tuple(port.name for port in network.inputs if not port.in_arena)
    for name in (*inputs, *program.outputs):
        size = program.tensors[name].size_bytes
        buffers[name] = Buffer(name, "activation", CALLER, caller_bytes, size, 0, last)
        caller_bytes += size
    buffers |= network.regions.weight_buffers(network.held_bytes, last)
    regions = _regions(network, limit_bytes) | {
        CALLER: RegionUse(caller_bytes, caller_bytes, caller_bytes, True, limited=False)
    }
    plan = MemoryPlan(
        "general", regions, buffers, _places(program, assembly, buffers), steps, (), assembly.weight_bytes
    )
    return with_overlaps(plan, [call.accesses for step in assembly.steps for call in step.calls])


def _regions(network: Network, limit_bytes: int | None) -> dict[str, RegionUse]:
    """The arena, or each region of values, integers behind the floats of the last one; each region of weights."""
    weights = network.regions.weight_uses(network.held_bytes)
    arena = network.assembly.arena
    peak_bytes = arena.float_bytes + arena.int_bytes
    if not network.regions.values:
        given = peak_bytes if limit_bytes is None else limit_bytes
        proven = arena.proven_optimal
        limited = limit_bytes is not None
        return {ARENA: RegionUse(given, peak_bytes, arena.lower_bound_bytes, proven, limited)} | weights
    uses = {}
    network.regions.check_integers(arena, network.prefix)
    for each in network.regions.values:
        peak = arena.peaks[each.name]
        more = arena.int_bytes if each is network.regions.values[-1] else 0
        least = peak.lower_bound_bytes + more
        uses[each.name] = RegionUse(each.size, peak.peak_bytes + more, least, peak.peak_bytes + more == least)
    return uses | weights


def _steps(program: Program, assembly: Assembly) -> tuple[Step, ...]:
    """One for each call; views have none."""
    ops = {op.output: op for op in program.ops}
    steps: list[Step] = []
    for step in assembly.steps:
        op = ops[step.results[0].name] if step.results else program.ops[-1]
        for call in step.calls:
            reads = tuple(name for name in call.reads if name in program.tensors)
            steps.append(Step(len(steps), op.name, None, reads, call.writes))
    return tuple(steps)


def _outermost(assembly: Assembly, regions: Regions = ONE_ARENA) -> dict[str, Buffer]:
    """The arena's buffers that lie in no other one, live as long as any that lies in them."""
    last_region = regions.values[-1].name if regions.values else ARENA
    parents = {wish.inner: (wish.outer, 0) for wish in assembly.sharings}
    roots = roots_of([each.id for each in assembly.buffers], parents)
    lives: dict[str, list[tuple[int, int]]] = {}
    for each in assembly.buffers:
        lives.setdefault(roots[each.id][0], []).append((each.first_step, each.last_step))
    arena, result = assembly.arena, {}
    for each in assembly.buffers:
        if each.id in parents or each.id not in arena.offsets:
            continue
        first, last = min(life[0] for life in lives[each.id]), max(life[1] for life in lives[each.id])
        region = arena.regions.get(each.id, ARENA) if each.kind == "float" else last_region
        floats = arena.peaks[region].peak_bytes if regions.values else arena.float_bytes
        offset = arena.offsets[each.id] * VALUE_BYTES + (floats if each.kind == "int" else 0)
        kind: BufferKind = "scratch" if each.scratch else "activation"
        result[each.id] = Buffer(each.id, kind, region, offset, each.count * VALUE_BYTES, first, last)
    return result


def _places(program: Program, assembly: Assembly, buffers: Mapping[str, Buffer]) -> dict[str, TensorPlace]:
    """The place of every tensor; a view of another tensor lies where that one does."""
    parents = {wish.inner: (wish.outer, wish.offset * VALUE_BYTES) for wish in assembly.sharings}
    held = {name: name if name in buffers else assembly.roots.get(name, name) for name in program.tensors}
    roots = roots_of(held.values(), parents)
    return {
        name: TensorPlace(name, *roots[held[name]], tensor.size_bytes) for name, tensor in program.tensors.items()
    }


def too_much(
    program: Program, peak: str, needed_bytes: int, limit_bytes: int, *, stripes_chosen: bool
) -> DoesNotFitError:
    """What to say where the arena is larger than the recipe allows.

    stripes_chosen: whether stripes were looked for, so that less was not found; else the recipe says how many.
    """
    count = striped_layers(program.tensors)
    stripes = f" (its first {count} {'layer' if count == 1 else 'layers'} in stripes)" if count else ""
    takes = "the smallest arena that was found" if stripes_chosen else "the arena, with the recipe's `stripes`,"
    other = "" if stripes_chosen else ", leave `stripes` out, so that their number is chosen"
    return DoesNotFitError(
        f"{takes} takes {needed_bytes:,} bytes{stripes}, {needed_bytes - limit_bytes:,} more than `arena` allows; "
        f"the peak is at layer {origin(peak)!r}",
        where=program.name,
        remedy=f"set `arena` to at least {needed_bytes:,} bytes{other}, or use a smaller network",
    )


def peak_step(buffers: Mapping[str, Buffer], steps: int) -> int:
    """The step at which buffers reach furthest; of several the one at which most of them live, in bytes."""

    def reached(step: int) -> tuple[int, int]:
        live = [each for each in buffers.values() if each.first_step <= step <= each.last_step]
        return max((each.offset_bytes + each.size_bytes for each in live), default=0), sum(e.size_bytes for e in live)

    return max(range(max(steps, 1)), key=reached)
