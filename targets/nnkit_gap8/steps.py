"""The plan's steps as the lines of `<name>_run`: what is fetched, waited for, called and traced."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nnkit.c.fixed.layer import Call
from nnkit.c.text import comment_text
from nnkit.memory.plan import Buffer, MemoryPlan, WeightChunk
from nnkit.program import Conv2d, Convolution, OpBase, Program, Tensor

ALL_FETCHES = -1
"""A wait for every fetch that was started."""


@dataclass(frozen=True)
class FetchView:
    """A copy from weights.bin to L2."""

    l3: int
    l2: int
    bytes: int
    layer: str


@dataclass(frozen=True)
class CallView:
    """A kernel call; addresses count from the start of L2, `scratch` from that of L1. None: the call has none."""

    kernel: str
    layer: str
    inputs: tuple[int, int | None]
    output: int
    weights: int | None
    first_block: int
    blocks: int
    scratch: int | None
    cpu: bool


@dataclass(frozen=True)
class TraceView:
    """A tensor that is complete after a step."""

    offset: int
    bytes: int


@dataclass(frozen=True)
class TilesView:
    """A step in tiles. whole: the step's tensors and weights. kernels, tasks: what runs on every tile, in order.

    image: the kernel that makes the image of a new input; empty: none. tiling: of a layer; l1: its place.
    """

    tiling: str
    whole: CallView
    image: str
    kernels: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class StepView:
    """One step of the network. op: index of the layer.

    wait: for its weights: fetches that may still be under way then, or ALL; None: no wait.
    """

    op: int
    comment: str
    fetches_now: tuple[FetchView, ...]
    wait: int | None
    prefetches: tuple[FetchView, ...]
    calls: tuple[CallView, ...]
    trace: TraceView | None
    tiles: TilesView | None = None


def address(plan: MemoryPlan, tensor: str) -> int:
    """Offset of a tensor from L2's base, in bytes."""
    place = plan.places[tensor]
    return plan.buffers[place.buffer].offset_bytes + place.offset_bytes


def scratch_buffer(plan: MemoryPlan, op_name: str) -> Buffer | None:
    """The L1 scratch that is live while an op runs; None if it has none."""
    first = next(step.index for step in plan.steps if step.op == op_name)
    for buffer in plan.buffers.values():
        if buffer.kind == "scratch" and buffer.region == "l1" and buffer.first_step <= first <= buffer.last_step:
            return buffer
    return None


def step_views(
    program: Program, plan: MemoryPlan, calls: Mapping[str, tuple[Call, ...]], tilings: Mapping[int, str] | None
) -> list[StepView]:
    """All steps in order. A call that would copy a tensor onto itself (a part in place, a reshape) is left out.

    tilings: the constants of the steps in tiles; None: in a build without.
    """
    index_of = {op.name: index for index, op in enumerate(program.ops)}
    last_step = {step.op: step.index for step in plan.steps}
    views = []
    for step in plan.steps:
        op = program.ops[index_of[step.op]]
        chunk = plan.chunks[step.chunk] if step.chunk is not None else None
        now = (_fetch(plan, chunk),) if chunk is not None and chunk.fetch_step == step.index else ()
        ahead = tuple(
            _fetch(plan, other) for other in plan.chunks if other.fetch_step == step.index and other.step > step.index
        )
        trace = None
        if last_step[step.op] == step.index:
            trace = TraceView(address(plan, op.output), program.tensors[op.output].size_bytes)
        kernel_calls = tuple(
            view for call in calls[op.name] if (view := _call(op, call, chunk, program, plan)) is not None
        )
        tiles = None
        if tilings is not None and step.index in tilings and kernel_calls:
            tiles, kernel_calls = _tiles(tilings[step.index], calls[op.name], kernel_calls), ()
        views.append(
            StepView(
                index_of[step.op],
                _step_comment(step.index, op, chunk, bool(kernel_calls or tiles), program, plan),
                now,
                _wait(plan, step.index, chunk, tilings is not None),
                ahead,
                kernel_calls,
                trace,
                tiles,
            )
        )
    return views


def _tiles(tiling: str, calls: tuple[Call, ...], views: tuple[CallView, ...]) -> TilesView:
    """The calls of a packed convolution are its image, itself, and a pool; other layers have one."""
    whole = views[0]
    packed = len(views) > 1
    kernels = [(call.kernel, task) for call, task in zip(calls[int(packed) :], ("task", "pool_task"), strict=False)]
    return TilesView(tiling, whole, calls[0].kernel if packed else "", tuple(kernels))


def layer_comment(op: OpBase, program: Program) -> str:
    """Name, kind, shapes, formats and arithmetic of a layer in one line."""
    inputs = ", ".join(_shape(program.tensors[name]) for name in op.inputs)
    notes = [f"{op.accumulator} accumulator, {op.proof}"] if isinstance(op, Convolution) else []
    if isinstance(op, Convolution):
        notes.insert(0, f"{op.window.kernel_h}x{op.window.kernel_w}")
        if op.groups > 1:
            notes.insert(1, f"{op.groups} groups")
    if isinstance(op, Conv2d):
        notes.append(op.accumulate)
        if op.pool is not None:
            notes.append(f"{op.pool.kind} pool {op.pool.window.kernel_h}x{op.pool.window.kernel_w} behind it")
    text = f"{op.name}: {op.kind} {inputs} -> {_shape(program.tensors[op.output])}"
    return comment_text("; ".join([text, *notes]))


def _shape(tensor: Tensor) -> str:
    return f"{'x'.join(str(side) for side in tensor.shape)} {tensor.format}"


def _step_comment(
    index: int,
    op: OpBase,
    chunk: WeightChunk | None,
    computes: bool,
    program: Program,
    plan: MemoryPlan,
) -> str:
    inputs = ", ".join(f"{_shape(program.tensors[name])} at {address(plan, name)}" for name in op.inputs)
    output = f"{_shape(program.tensors[op.output])} at {address(plan, op.output)}"
    text = f"{index} {op.name}: {inputs} -> {output}"
    if chunk is not None:
        last = chunk.first_block + chunk.blocks - 1
        where = plan.buffers[chunk.buffer].offset_bytes
        text += f"; weight blocks {chunk.first_block}..{last}, {chunk.size_bytes} bytes at {where}"
    if not computes:
        text += "; already in place"
    return comment_text(text)


def _wait(plan: MemoryPlan, step: int, chunk: WeightChunk | None, in_order: bool) -> int | None:
    """The wait for a step's weights. in_order: fetches end one after another; later ones may still be under way."""
    if chunk is None:
        return None
    if not in_order:
        return ALL_FETCHES
    started = sorted((each for each in plan.chunks if each.fetch_step < step or each is chunk), key=_started)
    return len(started) - 1 - started.index(chunk)


def _started(chunk: WeightChunk) -> tuple[int, bool, int]:
    """In a step its own weights come first."""
    return chunk.fetch_step, chunk.step > chunk.fetch_step, chunk.step


def _fetch(plan: MemoryPlan, chunk: WeightChunk) -> FetchView:
    return FetchView(
        chunk.l3_offset_bytes,
        plan.buffers[chunk.buffer].offset_bytes,
        chunk.size_bytes,
        comment_text(chunk.op),
    )


def _call(op: OpBase, call: Call, chunk: WeightChunk | None, program: Program, plan: MemoryPlan) -> CallView | None:
    output = program.tensors[op.output]
    plane = output.elements // output.channels
    out_offset = address(plan, op.output) + call.out_channel * plane * output.format.bytes
    sources = [address(plan, op.inputs[index]) for index in call.inputs]
    if call.copies and sources[0] == out_offset:
        return None
    scratch = scratch_buffer(plan, op.name)
    return CallView(
        call.kernel,
        call.layer,
        (sources[0], sources[1] if len(sources) > 1 else None),
        out_offset,
        plan.buffers[chunk.buffer].offset_bytes if chunk is not None else None,
        chunk.first_block if chunk is not None else 0,
        chunk.blocks if chunk is not None else 0,
        scratch.offset_bytes if scratch is not None else None,
        op.placement == "cpu",
    )
