"""One memory plan over several networks that never run at once, and over the stages between them.

The networks share the on-chip regions: each has its whole plan from the same base, so that a region is as large as
the largest needs, not as their sum. What a stage hands on (a frame, detections, a gallery) is a survivor: a buffer
that lives from the first step that writes it to the last that reads it, and that the allocator places around the
networks' own buffers. Context and stack, which all have together, lie behind everything. Weights lie side by side
where all of them are kept.

Steps are those of all networks one after another, with a step for each stage; `joint_checker` holds the plan to that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from nnkit.errors import DoesNotFitError
from nnkit.memory.engine import Effort
from nnkit.memory.packing import align_up
from nnkit.memory.placing import place
from nnkit.memory.plan import Buffer, BufferKind, MemoryPlan, Region, RegionUse, Step, TensorPlace, WeightChunk
from nnkit.memory.problem import UNBOUNDED_BYTES, Problem, Request

RESERVED = ("context", "stack")
"""Kinds of buffers that a network has alone; in a joint plan all have them together, among the survivors."""


@dataclass(frozen=True)
class Survivor:
    """A buffer that no network owns. stages: in which it is written or read; empty: always live."""

    name: str
    kind: BufferKind
    size_bytes: int
    stages: tuple[str, ...] = ()


@dataclass(frozen=True)
class Stage:
    """What runs between networks. reads, writes: survivors, or `network/tensor`, of one network in a stage."""

    name: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]


@dataclass(frozen=True)
class JointPlan:
    """plan: over all steps; its buffers and ops are named `network/NAME`, stages and survivors by their own names.

    networks: each network's own plan, with its weights where they lie among all.
    """

    plan: MemoryPlan
    networks: Mapping[str, MemoryPlan]

    def survivor_offset_bytes(self, name: str) -> int:
        """Where a survivor lies in its region."""
        return self.plan.buffers[name].offset_bytes

    def l3_offset_bytes(self, network: str) -> int:
        """Where a network's weights begin."""
        chunks = self.networks[network].chunks
        return chunks[0].l3_offset_bytes if chunks else 0


def join(
    order: Sequence[str | Stage],
    plans: Mapping[str, MemoryPlan],
    survivors: Sequence[Survivor],
    regions: Sequence[Region],
    *,
    shared: str,
    weights: str,
    effort: Effort | None = None,
) -> JointPlan:
    """Put plans together.

    Args:
        order: names of networks, and stages, as they run.
        plans: of each network alone.
        survivors: in `shared`.
        regions: of the machine.
        shared: region of activations. weights: region of all weights.

    Raises DoesNotFitError where a region is too small for all.
    """
    starts, step_count = _starts(order, plans)
    by_name = {region.name: region for region in regions}
    alignment = by_name[shared].alignment_bytes
    networks, end = {}, 0
    for name in (item for item in order if isinstance(item, str)):
        end = align_up(end, by_name[weights].alignment_bytes)
        networks[name] = _shifted(plans[name], weights, end)
        end = networks[name].l3_weight_bytes
    buffers = _network_buffers(order, networks, starts)
    moving = [survivor for survivor in survivors if survivor.kind not in RESERVED]
    offsets = _placed(buffers, moving, starts, step_count, shared, alignment, effort)
    pool = max((b.offset_bytes + b.size_bytes for b in buffers.values() if b.region == shared), default=0)
    pool = max([pool, *(offset + survivor.size_bytes for survivor, offset in zip(moving, offsets, strict=True))])
    behind = [survivor for survivor in survivors if survivor.kind in RESERVED]
    for survivor in behind:
        pool = align_up(pool, alignment)
        offsets.append(pool)
        pool += survivor.size_bytes
    for survivor, offset in zip([*moving, *behind], offsets, strict=True):
        life = _life(survivor, starts, step_count)
        buffers[survivor.name] = Buffer(survivor.name, survivor.kind, shared, offset, survivor.size_bytes, *life)
    peaks = {
        name: max((b.offset_bytes + b.size_bytes for b in buffers.values() if b.region == name), default=0)
        for name in by_name
    }
    peaks[weights] = end
    bounds = dict(peaks) | {shared: min(_bound(plans, survivors, starts, step_count, shared), peaks[shared])}
    for name, region in by_name.items():
        if peaks[name] > region.capacity_bytes:
            raise DoesNotFitError(
                f"{peaks[name]:,} bytes are needed, {region.capacity_bytes:,} are there: "
                f"{_shares(plans, survivors, name)}",
                where=name,
                remedy=f"give {name} more, or the networks less",
            )
    uses = {
        name: RegionUse(region.capacity_bytes, peaks[name], bounds[name], peaks[name] == bounds[name])
        for name, region in by_name.items()
    }
    steps: list[Step] = []
    chunks: list[WeightChunk] = []
    places = {}
    for item in order:
        if isinstance(item, Stage):
            steps.append(Step(len(steps), item.name, None, item.reads, item.writes))
            continue
        own, base = networks[item], len(steps)
        for step in own.steps:
            chunk = None if step.chunk is None else step.chunk + len(chunks)
            reads, writes = (tuple(f"{item}/{name}" for name in names) for names in (step.reads, step.writes))
            steps.append(Step(base + step.index, f"{item}/{step.op}", chunk, reads, writes))
        for each in own.chunks:
            moved = {"fetch_step": base + each.fetch_step, "step": base + each.step}
            chunks.append(replace(each, op=f"{item}/{each.op}", buffer=f"{item}/{each.buffer}", **moved))
        for tensor in own.places.values():
            name = f"{item}/{tensor.tensor}"
            places[name] = TensorPlace(name, f"{item}/{tensor.buffer}", tensor.offset_bytes, tensor.size_bytes)
    plan = MemoryPlan("joint", uses, buffers, places, tuple(steps), tuple(chunks), end)
    return JointPlan(plan, networks)


def kept_bytes(survivors: Sequence[Survivor], alignment_bytes: int = 4) -> int:
    """What all survivors take if none shares its place."""
    return sum(align_up(survivor.size_bytes, alignment_bytes) for survivor in survivors)


def _starts(order: Sequence[str | Stage], plans: Mapping[str, MemoryPlan]) -> tuple[dict[str, int], int]:
    """The first step of each network and stage, and the number of steps."""
    starts, step = {}, 0
    for item in order:
        starts[item.name if isinstance(item, Stage) else item] = step
        step += 1 if isinstance(item, Stage) else len(plans[item].steps)
    return starts, step


def _shifted(plan: MemoryPlan, weights: str, base: int) -> MemoryPlan:
    """The plan with its weights `base` bytes further."""
    end = base + plan.l3_weight_bytes
    chunks = tuple(replace(chunk, l3_offset_bytes=chunk.l3_offset_bytes + base) for chunk in plan.chunks)
    use = plan.regions[weights]
    capacity = max(use.capacity_bytes, end)
    regions = dict(plan.regions) | {
        weights: replace(use, capacity_bytes=capacity, peak_bytes=end, lower_bound_bytes=end)
    }
    return replace(plan, regions=regions, chunks=chunks, l3_weight_bytes=end)


def _network_buffers(
    order: Sequence[str | Stage], networks: Mapping[str, MemoryPlan], starts: Mapping[str, int]
) -> dict[str, Buffer]:
    """The buffers of all networks but what they have together, in joint steps; those of tensors that a stage reads
    or writes live in that stage too."""
    touched: dict[str, list[int]] = {}
    for stage in (item for item in order if isinstance(item, Stage)):
        for value in (*stage.reads, *stage.writes):
            touched.setdefault(value, []).append(starts[stage.name])
    buffers = {}
    for network, plan in networks.items():
        steps: dict[str, list[int]] = {}
        for place_of in plan.places.values():
            steps.setdefault(place_of.buffer, []).extend(touched.get(f"{network}/{place_of.tensor}", []))
        for buffer in plan.buffers.values():
            if buffer.kind in RESERVED:
                continue
            name, base = f"{network}/{buffer.name}", starts[network]
            first = min([base + buffer.first_step, *steps.get(buffer.name, [])])
            last = max([base + buffer.last_step, *steps.get(buffer.name, [])])
            buffers[name] = replace(buffer, name=name, first_step=first, last_step=last)
    return buffers


def _placed(
    buffers: Mapping[str, Buffer],
    survivors: Sequence[Survivor],
    starts: Mapping[str, int],
    step_count: int,
    shared: str,
    alignment: int,
    effort: Effort | None,
) -> list[int]:
    """Where each survivor lies, around the networks' buffers."""
    fixed = [
        Request(b.name, b.size_bytes, b.first_step, b.last_step, fixed_offset_bytes=b.offset_bytes)
        for b in buffers.values()
        if b.region == shared and b.size_bytes
    ]
    free = [Request(s.name, s.size_bytes, *_life(s, starts, step_count), alignment) for s in survivors]
    region = Region(shared, UNBOUNDED_BYTES, alignment)
    placement = place(Problem((region,), (*fixed, *free)), effort)
    return [placement.places[survivor.name].offset_bytes for survivor in survivors]


def _life(survivor: Survivor, starts: Mapping[str, int], step_count: int) -> tuple[int, int]:
    steps = [starts[name] for name in survivor.stages]
    return (min(steps), max(steps)) if steps else (0, max(step_count - 1, 0))


def _bound(
    plans: Mapping[str, MemoryPlan],
    survivors: Sequence[Survivor],
    starts: Mapping[str, int],
    step_count: int,
    shared: str,
) -> int:
    """What no placement can do without: at each network its own bound and what lives through all of its steps."""
    bounds = [0]
    for network, plan in plans.items():
        first, last = starts[network], starts[network] + len(plan.steps) - 1
        through = 0
        for survivor in survivors:
            begins, ends = _life(survivor, starts, step_count)
            through += survivor.size_bytes if begins <= first and last <= ends else 0
        own = sum(b.size_bytes for b in plan.buffers.values() if b.kind in RESERVED and b.region == shared)
        bounds.append(plan.regions[shared].lower_bound_bytes - own + through)
    return max(bounds)


def _shares(plans: Mapping[str, MemoryPlan], survivors: Sequence[Survivor], region: str) -> str:
    parts = [f"{name} {plan.regions[region].peak_bytes:,} alone" for name, plan in plans.items()]
    parts += [f"{survivor.name} {survivor.size_bytes:,}" for survivor in survivors if survivor.size_bytes >= 1024]
    return ", ".join(parts)
