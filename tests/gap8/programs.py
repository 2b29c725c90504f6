"""Random Programs by hand, and a plan without any reuse: what the kernel tests run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.memory.plan import Buffer, MemoryPlan, RegionUse, Step, TensorPlace, WeightChunk
from nnkit.program import Conv2d, Fixed, Leaky, Op, OutputStage, Program, Tensor, Window
from nnkit_gap8.emit import CONTEXT_BYTES, STACK_BYTES
from nnkit_gap8.kernels import DEFAULT_L1_BYTES, align4, kernel_needs

S8, U8, S16, U16 = Fixed(8, 0), Fixed(8, 0, False), Fixed(16, 0), Fixed(16, 0, False)


@dataclass
class Builder:
    """Collects tensors and ops of a program."""

    name: str = "net"
    tensors: dict[str, Tensor] = field(default_factory=dict)
    ops: list[Op] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)

    def tensor(self, name: str, shape: tuple[int, ...], fixed: Fixed) -> str:
        self.tensors[name] = Tensor(name, shape, fixed, fixed.qmin, fixed.qmax)
        return name

    def input(self, name: str, shape: tuple[int, ...], fixed: Fixed) -> str:
        self.inputs.append(self.tensor(name, shape, fixed))
        return name

    def program(self, *outputs: str) -> Program:
        return Program(self.name, self.tensors, tuple(self.ops), tuple(self.inputs), outputs)


def random_values(rng: np.random.Generator, tensor: Tensor, extreme: bool = False) -> NDArray[np.int64]:
    """Values of a tensor; with `extreme` mostly at the ends of the range, so that outputs saturate."""
    values = rng.integers(tensor.fixed.qmin, tensor.fixed.qmax, tensor.shape, endpoint=True)
    if extreme:
        ends = np.where(rng.random(tensor.shape) < 0.5, tensor.fixed.qmin, tensor.fixed.qmax)
        values = np.where(rng.random(tensor.shape) < 0.8, ends, values)
    return values.astype(np.int64)


def stage_for(
    rng: np.random.Generator,
    out: Fixed,
    acc_bits: float,
    *,
    clip: bool = False,
    leaky: int = 0,
) -> OutputStage:
    """A stage whose shift brings accumulators of about `acc_bits` bits into `out`, sometimes saturating."""
    shift = int(np.clip(acc_bits - out.bits + 1 + rng.integers(-2, 2), 0, 30))
    low, high = out.qmin, out.qmax
    if clip:
        low, high = (0 if out.signed else 1), int(rng.integers(out.qmax // 2, out.qmax))
    slopes = None
    if leaky:
        slopes = Leaky(rng.integers(-32768, 32767, leaky).astype(np.int16), int(rng.integers(10, 18)))
        low = out.qmin if not clip else out.qmin // 3
    return OutputStage(shift, low, high, slopes)


def conv(
    rng: np.random.Generator,
    builder: Builder,
    x: str,
    out_name: str,
    out_channels: int,
    out: Fixed,
    window: Window,
    *,
    weight_bits: int = 16,
    weight_magnitude: int | None = None,
    groups: int = 1,
    clip: bool = False,
    leaky: bool = False,
    output_hw: tuple[int, int] | None = None,
    **fields: Any,
) -> str:
    """Add a random Conv2d to the builder."""
    source = builder.tensors[x]
    channels, height, width = source.shape
    shape = (out_channels, channels // groups, window.kernel_h, window.kernel_w)
    taps = int(np.prod(shape[1:]))
    limit = weight_magnitude or (1 << (weight_bits - 1))
    weight = rng.integers(-limit, limit, shape)
    acc_bits = source.fixed.bits + np.log2(limit) + 0.5 * np.log2(taps) - 1
    leaky_count = (out_channels if rng.random() < 0.5 else 1) if leaky else 0
    stage = stage_for(rng, out, acc_bits, clip=clip, leaky=leaky_count)
    bias = rng.integers(-(1 << 14), 1 << 14, out_channels).astype(np.int32)
    builder.tensor(out_name, (out_channels, *(output_hw or window.output_hw(height, width))), out)
    builder.ops.append(
        Conv2d(
            name=f"{out_name}_layer",
            inputs=(x,),
            output=out_name,
            weight=weight,
            weight_bits=weight_bits,
            weight_frac=0,
            bias=bias,
            bias_frac=0,
            bias_shift=int(rng.integers(0, stage.shift + 1)),
            window=window,
            stage=stage,
            groups=groups,
            **fields,
        )
    )
    return out_name


def naive_plan(
    program: Program,
    cores: int = 1,
    blocks_per_chunk: int | None = None,
    l2_capacity: int = 512 << 10,
    l1_bytes: int = DEFAULT_L1_BYTES,
) -> MemoryPlan:
    """Every tensor and chunk has bytes of its own; scratch of every op starts at L1's base.

    blocks_per_chunk: None streams each layer's weights as one chunk.
    """
    buffers: dict[str, Buffer] = {}
    places: dict[str, TensorPlace] = {}
    steps: list[Step] = []
    chunks: list[WeightChunk] = []
    offset = l3_offset = l1_peak = 0
    needs = {op.name: kernel_needs(op, program, cores, l1_bytes) for op in program.ops}
    total = sum(_chunk_count(len(need.weight_block_bytes), blocks_per_chunk) for need in needs.values())
    for tensor in program.tensors.values():
        buffers[tensor.name] = Buffer(tensor.name, "activation", "l2", offset, tensor.size_bytes, 0, total)
        places[tensor.name] = TensorPlace(tensor.name, tensor.name, 0, tensor.size_bytes)
        offset = align4(offset + tensor.size_bytes)
    for op in program.ops:
        need = needs[op.name]
        first_step = len(steps)
        blocks = need.weight_block_bytes
        size = blocks_per_chunk or max(len(blocks), 1)
        for first in range(0, max(len(blocks), 1), size):
            part = blocks[first : first + size]
            index = None
            if part:
                name = f"{op.name}:weights:{first}"
                buffers[name] = Buffer(name, "weights", "l2", offset, sum(part), len(steps), len(steps))
                index = len(chunks)
                fetch = max(len(steps) - 1, 0)
                chunks.append(WeightChunk(op.name, first, len(part), l3_offset, sum(part), name, fetch, len(steps)))
                offset += sum(part)
                l3_offset += sum(part)
            steps.append(Step(len(steps), op.name, index, op.inputs, (op.output,)))
        for region, size_bytes in need.scratch_bytes:
            name = f"{op.name}:scratch"
            buffers[name] = Buffer(name, "scratch", region, 0, size_bytes, first_step, len(steps) - 1)
            l1_peak = max(l1_peak, size_bytes)
    for kind, size_bytes in (("context", CONTEXT_BYTES), ("stack", STACK_BYTES)):
        buffers[kind] = Buffer(kind, kind, "l2", offset, size_bytes, 0, len(steps))  # type: ignore[arg-type]
        offset += size_bytes
    regions = {
        "l1": RegionUse(l1_bytes, l1_peak, l1_peak, True),
        "l2": RegionUse(l2_capacity, offset, offset, False),
        "l3": RegionUse(8 << 20, l3_offset, l3_offset, True),
    }
    return MemoryPlan("naive", regions, buffers, places, tuple(steps), tuple(chunks), l3_offset)


def _chunk_count(blocks: int, per_chunk: int | None) -> int:
    return 1 if not blocks or per_chunk is None else -(-blocks // per_chunk)
