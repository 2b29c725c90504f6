"""The arena of the generated C as a memory plan."""

from __future__ import annotations

from nnkit.memory.overlaps import with_overlaps
from nnkit.memory.plan import Buffer, MemoryPlan, RegionUse, Step, TensorPlace
from nnkit_ansi_c.integer_network import IntegerNetwork
from nnkit_ansi_c.plan import ARENA, CALLER, peak_step, too_much


def integer_plan(network: IntegerNetwork, limit_bytes: int | None, *, stripes_chosen: bool = True) -> MemoryPlan:
    """The arena, and inputs and outputs, which are the caller's arrays. Raises DoesNotFitError, see `too_much`."""
    program, layout, work = network.program, network.layout, network.work
    steps = tuple(
        Step(index, program.ops[work.owners[index]].name, None, call.reads, (call.write,))
        for index, call in enumerate(work.calls)
    )
    buffers: dict[str, Buffer] = {}
    for room in layout.rooms:
        if room.name in layout.inside:
            continue
        group = [each for each in layout.rooms if layout.outermost(each.name) == room.name]
        buffers[room.name] = Buffer(
            room.name,
            room.kind,
            layout.placement.places[room.name].region,
            layout.placement.places[room.name].offset_bytes,
            room.size_bytes,
            min(each.first_step for each in group),
            max(each.last_step for each in group),
        )
    last = max(len(steps) - 1, 0)
    regions = _regions(network, limit_bytes)
    peak = regions.get(ARENA)
    if limit_bytes is not None and peak is not None and peak.peak_bytes > limit_bytes:
        layer = steps[peak_step(buffers, len(steps))].op
        raise too_much(program, layer, peak.peak_bytes, limit_bytes, stripes_chosen=stripes_chosen)
    buffers |= network.regions.weight_buffers(network.held_bytes, last)
    caller_bytes = 0
    for name in (*program.inputs, *program.outputs):
        size = program.tensors[name].size_bytes
        buffers[name] = Buffer(name, "activation", CALLER, caller_bytes, size, 0, last)
        caller_bytes += size
    places = {}
    for name, spot in layout.places.items():
        holder = spot.base or layout.outermost(work.root(name))
        start = 0 if spot.base else buffers[holder].offset_bytes
        places[name] = TensorPlace(name, holder, spot.offset_bytes - start, program.tensors[name].size_bytes)
    regions[CALLER] = RegionUse(caller_bytes, caller_bytes, caller_bytes, True, limited=False)
    plan = MemoryPlan("general", regions, buffers, places, steps, (), network.weight_bytes)
    return with_overlaps(plan, [call.accesses for call in work.calls])


def _regions(network: IntegerNetwork, limit_bytes: int | None) -> dict[str, RegionUse]:
    """The arena, or each region of values and of weights. Least peaks are proven for what lies in a region."""
    sizes = {each.name: each.size for each in network.regions.values}
    uses = {}
    for name, peak in network.layout.placement.peaks.items():
        given = sizes.get(name, peak.peak_bytes if limit_bytes is None else limit_bytes)
        proven = peak.peak_bytes == peak.lower_bound_bytes
        limited = name in sizes or limit_bytes is not None
        uses[name] = RegionUse(given, peak.peak_bytes, peak.lower_bound_bytes, proven, limited)
    return uses | network.regions.weight_uses(network.held_bytes)
