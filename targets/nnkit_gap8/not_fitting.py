"""What to say when a network does not fit: which steps break the budget, by how much, and what would help."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil

from nnkit.errors import DoesNotFitError
from nnkit.memory.lifetimes import Storages, choose_storages
from nnkit.memory.packing import align_up
from nnkit.memory.plan import Region
from nnkit.memory.same_weights import first_with_same_weights
from nnkit.program import Conv2d, Convolution, Fixed, Pool, Program
from nnkit_gap8.loads import MemoryMachine, OpLoad, with_reserved
from nnkit_gap8.options import L2_BYTES

_SHOWN = 6


def check_weights(program: Program, loads: Sequence[OpLoad], l3: Region, budget_bytes: int | None) -> None:
    """Raise DoesNotFitError where all weights together exceed the budget or L3."""
    sources = first_with_same_weights(program)
    own = [(op, load) for i, (op, load) in enumerate(zip(program.ops, loads, strict=True)) if sources[i] == i]
    total = sum(align_up(sum(load.blocks), l3.alignment_bytes) for _, load in own)
    for limit, what in ((budget_bytes, "the weight budget"), (l3.capacity_bytes, "L3")):
        if limit is not None and total > limit:
            largest = sorted(own, key=lambda pair: -sum(pair[1].blocks))[:3]
            names = ", ".join(f"{op.name} {sum(load.blocks):,}" for op, load in largest)
            raise DoesNotFitError(
                f"the weights take {total:,} bytes, {total - limit:,} more than {what} of {limit:,} "
                f"(largest: {names})",
                where=program.name,
                remedy=_weight_remedy(program, total, limit, what),
            )


def _weight_remedy(program: Program, total: int, limit: int, what: str) -> str:
    wide = any(isinstance(op, Convolution) and op.weight_bits == 16 for op in program.ops)
    hints = []
    if wide:
        narrow = sum(
            int(op.weight.size) * (op.weight_bits // 8 - 1) for op in program.ops if isinstance(op, Convolution)
        )
        fits = "fits" if total - narrow <= limit else "still does not fit"
        hints.append(f"int8 weights would take about {total - narrow:,} bytes, which {fits}")
    hints.append(f"set {what} to at least {total:,} bytes" if what != "L3" else "a smaller network, or a larger L3")
    return "; ".join(hints)


def check_scratch(program: Program, loads: Sequence[OpLoad], l1: Region) -> None:
    """Raise DoesNotFitError where a kernel's scratch exceeds L1."""
    broken = [
        (op.name, load.l1_scratch_bytes)
        for op, load in zip(program.ops, loads, strict=True)
        if load.l1_scratch_bytes > l1.capacity_bytes
    ]
    if broken:
        lines = ", ".join(f"{name} needs {size:,} ({size - l1.capacity_bytes:,} too many)" for name, size in broken)
        raise DoesNotFitError(
            f"kernel scratch does not fit the {l1.capacity_bytes:,} bytes of L1: {lines}",
            where=broken[0][0],
            remedy="fewer cores, int8, or a layer with fewer input channels or a smaller window",
        )


def l2_error(
    program: Program,
    machine: MemoryMachine,
    storages: Storages,
    loads: Sequence[OpLoad],
    pool_bytes: int,
) -> DoesNotFitError:
    """The error for L2: steps that break the budget even with the smallest weight chunks, and remedies."""
    capacity = machine.l2.capacity_bytes
    totals = _totals(storages, loads, machine)
    over = [(index, total - capacity) for index, total in enumerate(totals) if total > capacity]
    where = program.ops[max(range(len(totals)), key=lambda i: totals[i])].name if totals else program.name
    peak = with_reserved(pool_bytes, machine)
    if over:
        worst = sorted(over, key=lambda pair: (-pair[1], pair[0]))
        lines = [
            f"{program.ops[index].name} needs {totals[index]:,} bytes, {excess:,} too many"
            for index, excess in sorted(worst[:_SHOWN])
        ]
        more = f" (and {len(over) - _SHOWN} more)" if len(over) > _SHOWN else ""
        do = "does" if len(over) == 1 else "do"
        reason = (
            f"{len(over)} of {len(totals)} layers {do} not fit the {capacity:,} bytes of L2: {'; '.join(lines)}{more}"
        )
    else:
        reason = (
            f"every layer alone fits the {capacity:,} bytes of L2, but no arrangement of the buffers was found that "
            f"takes less than {peak:,} bytes ({peak - capacity:,} too many)"
        )
    return DoesNotFitError(reason, where=where, remedy=_l2_remedy(program, machine, loads, over, totals, peak))


def _totals(storages: Storages, loads: Sequence[OpLoad], machine: MemoryMachine) -> list[int]:
    alignment = machine.l2.alignment_bytes
    live = storages.live_bytes(len(loads), alignment)
    return [
        with_reserved(live[index] + align_up(load.block_bytes, alignment) + load.l2_scratch_bytes, machine)
        for index, load in enumerate(loads)
    ]


def _l2_remedy(
    program: Program,
    machine: MemoryMachine,
    loads: Sequence[OpLoad],
    over: Sequence[tuple[int, int]],
    totals: Sequence[int],
    peak: int,
) -> str:
    capacity = machine.l2.capacity_bytes
    hints = []
    narrow = _int8_bytes(program, loads, machine)
    if narrow is not None:
        fits = "fits" if narrow <= capacity else "still does not fit"
        hints.append(f"int8 would need about {narrow:,} bytes, which {fits}")
    for index, _ in over:
        hint = _pool_hint(program, index)
        if hint and hint not in hints:
            hints.append(hint)
    scale = _input_scale(program, loads, machine)
    if scale:
        hints.append(scale)
    hints.append(f"give L2 at least {l2_bytes(max([peak, *totals]))}")
    return "; or ".join(hints)


def l2_bytes(needed: int) -> str:
    """A size for L2 in words, and where the chip has not as much, that."""
    more = (
        f" (more than the {L2_BYTES:,} of GAP8: another chip, and `larger_chip: true`)" if needed > L2_BYTES else ""
    )
    return f"{needed:,} bytes{more}"


def _int8_bytes(program: Program, loads: Sequence[OpLoad], machine: MemoryMachine) -> int | None:
    """The bound if every 16-bit tensor and weight took 8 bits; None where there are none."""
    tensors = {}
    for name, tensor in program.tensors.items():
        narrow = Fixed(8, 0, tensor.format.signed) if isinstance(tensor.format, Fixed) else tensor.format
        tensors[name] = replace(tensor, format=narrow)
    if all(tensors[name].format.bytes == t.format.bytes for name, t in program.tensors.items()):
        return None
    smaller = Program(program.name, tensors, program.ops, program.inputs, program.outputs, program.numerics)
    narrow_loads = [
        replace(load, blocks=tuple(block // 2 for block in load.blocks)) if _has_wide_weights(op) else load
        for op, load in zip(program.ops, loads, strict=True)
    ]
    return _bound(smaller, narrow_loads, machine)


def _has_wide_weights(op: object) -> bool:
    return isinstance(op, Convolution) and op.weight_bits == 16


def _bound(program: Program, loads: Sequence[OpLoad], machine: MemoryMachine) -> int:
    alignment = machine.l2.alignment_bytes
    extra = [align_up(load.block_bytes, alignment) + load.l2_scratch_bytes for load in loads]
    storages = choose_storages(program, extra, alignment)
    return max(_totals(storages, loads, machine), default=0)


def _pool_hint(program: Program, index: int) -> str:
    """A convolution at or before the step whose only reader is a pool: fusing them never stores its output."""
    for op in program.ops[max(index - 1, 0) : index + 1]:
        readers = program.consumers(op.output)
        if (
            isinstance(op, Conv2d)
            and op.pool is None
            and op.output not in program.outputs
            and len(readers) == 1
            and isinstance(readers[0], Pool)
            and readers[0].window.kernel_h < program.tensors[op.output].shape[1]  # a global pool fuses nowhere
        ):
            saved = program.tensors[op.output].size_bytes - program.tensors[readers[0].output].size_bytes
            return f"fusing {readers[0].name} into {op.name} would save {saved:,} bytes there"
    return ""


def _input_scale(program: Program, loads: Sequence[OpLoad], machine: MemoryMachine) -> str:
    """The largest input, in steps of an eighth of the sides, whose scaled activations would fit."""
    images = [program.tensors[name].shape for name in program.inputs if len(program.tensors[name].shape) == 3]
    if not images or min(images[0][1:]) < 8:
        return ""
    for eighths in range(7, 0, -1):
        tensors = {
            name: replace(tensor, shape=(tensor.shape[0], *(ceil(side * eighths / 8) for side in tensor.shape[1:])))
            for name, tensor in program.tensors.items()
        }
        smaller = Program(program.name, tensors, program.ops, program.inputs, program.outputs, program.numerics)
        if _bound(smaller, loads, machine) <= machine.l2.capacity_bytes:
            height, width = (side * eighths // 8 for side in images[0][1:])
            return f"an input of about {height}x{width} (instead of {images[0][1]}x{images[0][2]}) would fit"
    return ""
