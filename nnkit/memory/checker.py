"""Independent check of a MemoryPlan: replays it step by step over who owns each byte.

Every byte of a region carries a label: which value wrote it, and which byte of that value it is. A read must find
exactly the labels of the tensor it reads. Nothing here is shared with the planners: what a tensor's bytes should be
is derived from the program alone.

Order inside a step: copies issued in it land (they may land at any time until they are used, so they own their
bytes at once), scratch is trampled, inputs are read, outputs are written, scratch and weights must have survived.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.memory.claims import check_regions, wrong
from nnkit.memory.needs import KernelNeeds
from nnkit.memory.plan import Buffer, MemoryPlan, Step, WeightChunk
from nnkit.program import Activation, Add, Concat, Conv2d, Convolution, Lookup, Mul, OpBase, Program, Reshape

Labels = NDArray[np.int64]
_INDEX_BITS = 36  # a label is (owner << 36) + byte index


def check_plan(
    program: Program,
    plan: MemoryPlan,
    needs: Callable[[OpBase], KernelNeeds] | None = None,
    alignment_bytes: int | dict[str, int] = 4,
) -> None:
    """Raise InternalError, naming step and buffers, unless the plan is sound.

    Proven: every read finds the bytes its writer wrote, in every step and for every output at the end; weights are
    whole when used; scratch, context and stack overlap nothing; buffers lie in their regions, aligned; the steps
    are the program's ops in order; the peaks are those of the buffers.

    Args:
        needs: with it, scratch and weight blocks must also be what each op's kernel needs.
        alignment_bytes: of every buffer, for all regions or by region.
    """
    check_regions(plan, alignment_bytes)
    _check_overlaps(plan)
    _check_steps(program, plan)
    _check_chunks(program, plan, needs)
    _check_scratch(program, plan, needs)
    _Replay(program, plan, needs).run()


def _check_overlaps(plan: MemoryPlan) -> None:
    """No two buffers share bytes in a step: a sweep over offsets, region by region."""
    for region in plan.regions:
        active: list[Buffer] = []
        for buffer in sorted(
            (b for b in plan.buffers.values() if b.region == region and b.size_bytes), key=lambda b: b.offset_bytes
        ):
            active = [a for a in active if a.offset_bytes + a.size_bytes > buffer.offset_bytes]
            for other in active:
                if other.first_step <= buffer.last_step and buffer.first_step <= other.last_step:
                    step = max(other.first_step, buffer.first_step)
                    raise wrong(f"{buffer.name!r} overlaps {other.name!r} in {region}", f"step {step}")
            active.append(buffer)


def _check_steps(program: Program, plan: MemoryPlan) -> None:
    steps = list(plan.steps)
    position = 0
    for op in program.ops:
        start = position
        while position < len(steps) and steps[position].op == op.name:
            step = steps[position]
            if step.index != position:
                raise wrong(f"it has index {step.index}", f"step {position}")
            if step.reads != op.inputs or step.writes != (op.output,):
                raise wrong(f"it does not read and write what {op.name!r} does", f"step {position}")
            if step.chunk is None and position > start:
                raise wrong(f"{op.name!r} runs twice", f"step {position}")
            position += 1
        if position == start:
            raise wrong(f"{op.name!r} does not run after its predecessor", f"step {position}")
    if position != len(steps):
        raise wrong(f"{steps[position].op!r} runs out of order", f"step {position}")


def _check_chunks(program: Program, plan: MemoryPlan, needs: Callable[[OpBase], KernelNeeds] | None) -> None:
    by_op: dict[str, list[WeightChunk]] = {}
    for step in plan.steps:
        if step.chunk is None:
            continue
        if not 0 <= step.chunk < len(plan.chunks):
            raise wrong(f"chunk {step.chunk} does not exist", f"step {step.index}")
        chunk = plan.chunks[step.chunk]
        if chunk.op != step.op or chunk.step != step.index or not 0 <= chunk.fetch_step <= chunk.step:
            raise wrong(f"chunk {step.chunk} is for {chunk.op!r}, step {chunk.step}", f"step {step.index}")
        by_op.setdefault(step.op, []).append(chunk)
    if sum(len(chunks) for chunks in by_op.values()) != len(plan.chunks):
        raise wrong("a weight chunk is never used, or used twice", program.name)
    l3_end = 0
    stored: dict[int, tuple[OpBase, int]] = {}
    for op in program.ops:
        chunks = by_op.get(op.name, [])
        shared = stored.get(chunks[0].l3_offset_bytes) if chunks else None
        if shared is not None and not _same_weights(op, shared[0]):
            raise wrong(f"its weights lie on those of {shared[0].name!r}", op.name)
        if shared is not None and chunks[-1].l3_offset_bytes + chunks[-1].size_bytes != shared[1]:
            raise wrong(f"its weights end elsewhere than those of {shared[0].name!r}", op.name)
        for before, chunk in zip([None, *chunks], chunks, strict=False):
            expected_block = before.first_block + before.blocks if before else 0
            follows = before is None or chunk.l3_offset_bytes == before.l3_offset_bytes + before.size_bytes
            if (
                chunk.first_block != expected_block
                or chunk.blocks < 1
                or not follows
                or (shared is None and chunk.l3_offset_bytes < l3_end)
            ):
                raise wrong(f"the chunk from block {chunk.first_block} does not follow the one before", op.name)
            l3_end = max(l3_end, chunk.l3_offset_bytes + chunk.size_bytes)
        if chunks and shared is None:
            stored[chunks[0].l3_offset_bytes] = op, l3_end
        if needs is not None:
            blocks = needs(op).weight_block_bytes
            sizes = [sum(blocks[c.first_block : c.first_block + c.blocks]) for c in chunks]
            if sum(c.blocks for c in chunks) != len(blocks) or sizes != [c.size_bytes for c in chunks]:
                raise wrong("its weight chunks are not its weight blocks", op.name)
    if l3_end > plan.l3_weight_bytes:
        raise wrong(f"weights end at {l3_end} in l3, beyond {plan.l3_weight_bytes}", program.name)
    for chunk in plan.chunks:
        buffer = plan.buffers.get(chunk.buffer)
        if buffer is None or buffer.kind != "weights" or buffer.size_bytes < chunk.size_bytes:
            raise wrong(f"chunk at block {chunk.first_block} has no buffer of its size", chunk.op)
        if buffer.first_step > chunk.fetch_step or buffer.last_step < chunk.step:
            raise wrong(f"{buffer.name!r} does not live from the copy's issue to its use", f"step {chunk.step}")


def _same_weights(op: OpBase, other: OpBase) -> bool:
    """Whether the stored blocks of two layers may be the same bytes: numbers, and what a block's start is made of."""
    if not isinstance(op, Convolution) or not isinstance(other, Convolution) or type(op) is not type(other):
        return False
    leaky, leaky_there = op.stage.leaky, other.stage.leaky
    slopes = leaky is leaky_there or (
        leaky is not None and leaky_there is not None and np.array_equal(leaky.slopes, leaky_there.slopes)
    )
    mine = op.weight_bits, op.bias_shift, op.stage.shift, op.groups, op.accumulator, op.weight.shape
    theirs = (
        other.weight_bits,
        other.bias_shift,
        other.stage.shift,
        other.groups,
        other.accumulator,
        other.weight.shape,
    )
    numbers = np.array_equal(op.weight, other.weight) and np.array_equal(op.bias, other.bias)
    return numbers and slopes and mine == theirs


def _check_scratch(program: Program, plan: MemoryPlan, needs: Callable[[OpBase], KernelNeeds] | None) -> None:
    if needs is None:
        return
    for op in program.ops:
        wanted: dict[str, int] = {}
        for region, size in needs(op).scratch_bytes:
            wanted[region] = wanted.get(region, 0) + size
        steps = [step.index for step in plan.steps if step.op == op.name]
        for region, size in wanted.items():
            held_bytes = sum(
                b.size_bytes
                for b in plan.buffers.values()
                if b.kind == "scratch"
                and b.region == region
                and b.first_step <= steps[0]
                and steps[-1] <= b.last_step
            )
            if held_bytes < size:
                raise wrong(
                    f"{op.name!r} needs {size} bytes of scratch in {region} and has {held_bytes}", f"step {steps[0]}"
                )


class _Replay:
    """The bytes of every region and what they hold."""

    def __init__(
        self, program: Program, plan: MemoryPlan, needs: Callable[[OpBase], KernelNeeds] | None = None
    ) -> None:
        self.program = program
        self.plan = plan
        self.needs = needs
        self.memory = {
            region: np.full(
                max((b.offset_bytes + b.size_bytes for b in plan.buffers.values() if b.region == region), default=0),
                -1,
                dtype=np.int64,
            )
            for region in plan.regions
        }
        self.owners: list[str] = []
        self.ops = {op.name: op for op in program.ops}
        self.contents = self._contents()
        self.begun: set[str] = set()
        self.whole: set[str] = set(program.inputs)

    def run(self) -> None:
        for name in self.program.inputs:
            self._tensor_bytes(name, 0)[:] = self.contents[name]
        resident = [b for b in self.plan.buffers.values() if b.kind in ("context", "stack", "code")]
        marks = [(buffer, self._trample(buffer)) for buffer in resident]
        chunk_labels: dict[int, Labels] = {}
        last_step_of = {step.op: step.index for step in self.plan.steps}
        for step in self.plan.steps:
            for index, chunk in enumerate(self.plan.chunks):
                if chunk.fetch_step == step.index:
                    chunk_labels[index] = self._fresh(f"weights of {chunk.op}", chunk.size_bytes)
                    self._chunk_bytes(chunk)[:] = chunk_labels[index]
            scratch = [
                (b, self._trample(b))
                for b in self.plan.buffers.values()
                if b.kind == "scratch" and b.first_step <= step.index <= b.last_step
            ]
            self._step(step, last_step_of[step.op] == step.index)
            if step.chunk is not None:
                chunk = self.plan.chunks[step.chunk]
                self._expect(
                    self._chunk_bytes(chunk), chunk_labels[step.chunk], f"weights of {chunk.op!r}", step.index
                )
            for buffer, labels in [*scratch, *marks]:
                self._expect(self._buffer_bytes(buffer), labels, f"{buffer.kind} {buffer.name!r}", step.index)
        end = max(len(self.plan.steps) - 1, 0)
        for name in self.program.outputs:
            self._read(name, end)

    def _step(self, step: Step, is_last: bool) -> None:
        op = self.ops[step.op]
        for name in op.inputs:
            if name not in self.whole:
                raise wrong(f"{name!r} is read before it is whole", f"step {step.index} ({op.name})")
        over_input = self._is_over_its_input(op, step.index)
        for name in op.inputs if not over_input else ():
            self._read(name, step.index)
        if over_input:
            self._write_over_input(op, step)
        elif isinstance(op, Reshape):
            self._reshape(op, step.index)
        elif isinstance(op, Concat):
            self._concat(op, step.index)
        else:
            self._check_apart(op, step.index)
            target = self._tensor_bytes(op.output, step.index)
            if op.output in self.begun:  # what earlier chunks of this op wrote must still be there
                self._expect(target, self.contents[op.output], repr(op.output), step.index)
            target[:] = self.contents[op.output]
            self.begun.add(op.output)
        if is_last:
            self.whole.add(op.output)

    def _is_over_its_input(self, op: OpBase, step: int) -> bool:
        """Whether the output starts where the input does, in a convolution of each channel by itself."""
        if not isinstance(op, Conv2d) or op.groups == 1 or op.weight.shape[:2] != (op.groups, 1):
            return False
        return self._address(op.inputs[0], step)[:2] == self._address(op.output, step)[:2]

    def _write_over_input(self, op: OpBase, step: Step) -> None:
        """The channels of one chunk are read and written; cores take its blocks of 4 channels in any order."""
        where, source = f"step {step.index} ({op.name})", op.inputs[0]
        if self.needs is None or not self.needs(op).reads_planes_first or step.chunk is None:
            raise wrong(f"{op.output!r} is written over {source!r} while it is read", where)
        chunk, channels = self.plan.chunks[step.chunk], self.program.tensors[op.output].shape[0]
        first, last = chunk.first_block * 4, min((chunk.first_block + chunk.blocks) * 4, channels)
        in_plane, out_plane = (self.program.tensors[name].size_bytes // channels for name in (source, op.output))
        if chunk.blocks > 1 and in_plane != out_plane and last * out_plane > first * in_plane:
            raise wrong(f"{op.output!r} is written over channels of {source!r} that other cores read", where)
        read, written = slice(first * in_plane, last * in_plane), slice(first * out_plane, last * out_plane)
        labels, contents = self._tensor_bytes(op.output, step.index), self.contents[op.output]
        self._expect(
            self._tensor_bytes(source, step.index)[read], self.contents[source][read], repr(source), step.index
        )
        self._expect(labels[: written.start], contents[: written.start], repr(op.output), step.index)
        labels[written] = contents[written]

    def _reshape(self, op: Reshape, step: int) -> None:
        source, target = self._address(op.inputs[0], step), self._address(op.output, step)
        if source != target:
            raise wrong(f"{op.output!r} does not lie where {op.inputs[0]!r} does", f"step {step} ({op.name})")

    def _concat(self, op: Concat, step: int) -> None:
        """Parts that are not in their place are copied there; a copy must not run over a part it has yet to read."""
        target = self._tensor_bytes(op.output, step)
        region, base = self._address(op.output, step)[:2]
        element = self.program.tensors[op.output].format.bytes
        start, copies = 0, []
        for position, name in enumerate(op.inputs):
            size = self.program.tensors[name].elements * element
            in_place = self._address(name, step)[:2] == (region, base + start)
            if in_place and not self._stored_as_is(op, position):
                raise wrong(f"{name!r} needs another format in {op.output!r}", f"step {step} ({op.name})")
            if not in_place:
                copies.append((name, start, size))
            start += size
        for name, start, size in copies:
            low, high = base + start, base + start + size
            for other in op.inputs:
                other_region, other_base, other_size = self._address(other, step)
                if other_region == region and other_base < high and low < other_base + other_size:
                    raise wrong(f"copying {name!r} runs over {other!r}", f"step {step} ({op.name})")
            target[start : start + size] = self.contents[op.output][start : start + size]
        self._expect(target, self.contents[op.output], f"{op.output!r}", step)

    def _check_apart(self, op: OpBase, step: int) -> None:
        """An output may lie on an input only element on element."""
        region, base, size = self._address(op.output, step)
        for name in op.inputs:
            in_region, in_base, in_size = self._address(name, step)
            if in_region != region or in_base >= base + size or base >= in_base + in_size:
                continue
            a, b = self.program.tensors[name], self.program.tensors[op.output]
            same = (in_base, in_size) == (base, size) and a.shape == b.shape and a.format.bytes == b.format.bytes
            if not (same and isinstance(op, Add | Mul | Activation | Lookup)):
                raise wrong(f"{op.output!r} is written over {name!r} while it is read", f"step {step} ({op.name})")

    def _contents(self) -> dict[str, Labels]:
        """The labels each tensor's bytes must carry; bit-identical parts of a concatenation keep theirs."""
        contents: dict[str, Labels] = {}
        for name in self.program.inputs:
            contents[name] = self._fresh(name, self.program.tensors[name].size_bytes)
        for op in self.program.ops:
            size = self.program.tensors[op.output].size_bytes
            if isinstance(op, Reshape):
                contents[op.output] = contents[op.inputs[0]]
                if len(contents[op.output]) != size:
                    raise wrong("a reshape changes the number of bytes", op.name)
            elif isinstance(op, Concat):
                fresh = self._fresh(op.output, size)
                element, start = self.program.tensors[op.output].format.bytes, 0
                for position, name in enumerate(op.inputs):
                    part = self.program.tensors[name].elements * element
                    if self._stored_as_is(op, position):
                        fresh[start : start + part] = contents[name]
                    start += part
                contents[op.output] = fresh
            else:
                contents[op.output] = self._fresh(op.output, size)
        return contents

    def _stored_as_is(self, op: Concat, position: int) -> bool:
        part: Any = self.program.tensors[op.inputs[position]].format
        whole: Any = self.program.tensors[op.output].format
        storage = (part.bits, getattr(part, "signed", None)) == (whole.bits, getattr(whole, "signed", None))
        return op.shifts[position] == 0 and storage

    def _fresh(self, owner: str, size: int) -> Labels:
        self.owners.append(owner)
        return (np.int64(len(self.owners) - 1) << _INDEX_BITS) + np.arange(size, dtype=np.int64)

    def _address(self, tensor: str, step: int) -> tuple[str, int, int]:
        """(region, offset, bytes) of a tensor; its buffer must live in `step`."""
        place = self.plan.places.get(tensor)
        buffer = self.plan.buffers.get(place.buffer) if place else None
        if place is None or buffer is None:
            raise wrong(f"{tensor!r} has no place", f"step {step}")
        size = self.program.tensors[tensor].size_bytes
        if place.size_bytes != size or place.offset_bytes < 0 or place.offset_bytes + size > buffer.size_bytes:
            raise wrong(f"{tensor!r} of {size} bytes does not lie inside {buffer.name!r}", f"step {step}")
        if place.offset_bytes % self.program.tensors[tensor].format.bytes:
            raise wrong(f"{tensor!r} is not aligned to its elements", f"step {step}")
        if buffer.kind != "activation" or not buffer.first_step <= step <= buffer.last_step:
            raise wrong(f"{tensor!r} is used while {buffer.name!r} does not live", f"step {step}")
        return buffer.region, buffer.offset_bytes + place.offset_bytes, size

    def _tensor_bytes(self, tensor: str, step: int) -> Labels:
        region, offset, size = self._address(tensor, step)
        return self.memory[region][offset : offset + size]

    def _buffer_bytes(self, buffer: Buffer) -> Labels:
        return self.memory[buffer.region][buffer.offset_bytes : buffer.offset_bytes + buffer.size_bytes]

    def _chunk_bytes(self, chunk: WeightChunk) -> Labels:
        return self._buffer_bytes(self.plan.buffers[chunk.buffer])[: chunk.size_bytes]

    def _trample(self, buffer: Buffer) -> Labels:
        labels = self._fresh(f"{buffer.kind} {buffer.name}", buffer.size_bytes)
        self._buffer_bytes(buffer)[:] = labels
        return labels

    def _read(self, tensor: str, step: int) -> None:
        self._expect(self._tensor_bytes(tensor, step), self.contents[tensor], repr(tensor), step)

    def _expect(self, labels: Labels, wanted: Labels, what: str, step: int) -> None:
        differing = np.flatnonzero(labels != wanted)
        if differing.size:
            at = int(differing[0])
            label = int(labels[at])
            owner = "nobody" if label < 0 else repr(self.owners[label >> _INDEX_BITS])
            raise wrong(f"byte {at} of {what} was written by {owner}", f"step {step}")
