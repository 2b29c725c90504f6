"""Cycles of ops and transfers: rates of the chip, or what the vendor's profile measured for the same network.

Without measurements an op's cycles follow from its arithmetic (checked against profiles of bm1684x and bm1688):

* convolution: taps * ceil(input channels of a group / lanes) * ceil(output channels / lanes) * pixels / pixel rate;
* depthwise convolution, pool: taps * channels per lane * vectors of pixels;
* everything INT8 with a requantisation: three passes over 32-bit values of the output;
* elementwise: a few passes over the output.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import ceil
from types import MappingProxyType

from nnkit_tpu.chips import Chip
from nnkit_tpu.layer_group.model import GroupGraph, GroupOp
from nnkit_tpu.layer_group.slices import Part


@dataclass(frozen=True, eq=False)
class CostModel:
    """Costs on one chip.

    measured: by op name, cycles of the whole op in the vendor's profile. factors: by kind, measured cycles over
    computed ones, for ops without a measurement of their own. dma_*: transfers; 0 takes the chip's.
    counts_bytes: costs are the bytes moved, and a little for each transfer, instead of cycles: for chips of which
    nobody tells the cycles. transfer_bytes: what a tensor's load or store costs then beside its bytes.
    """

    chip: Chip
    measured: Mapping[str, int] = field(default_factory=dict)
    factors: Mapping[str, float] = field(default_factory=dict)
    dma_bytes_per_cycle: float = 0.0
    dma_start_cycles: int = 0
    counts_bytes: bool = False
    transfer_bytes: int = 256

    def __post_init__(self) -> None:
        object.__setattr__(self, "measured", MappingProxyType(dict(self.measured)))
        object.__setattr__(self, "factors", MappingProxyType(dict(self.factors)))
        if not self.dma_bytes_per_cycle:
            object.__setattr__(self, "dma_bytes_per_cycle", self.chip.dma_bytes_per_cycle)
            object.__setattr__(self, "dma_start_cycles", self.chip.dma_start_cycles)

    def compute_cycles(self, graph: GroupGraph, op: GroupOp, part: Part | None = None) -> int:
        """Cycles for `part` of the op's output; None: for all of it."""
        if self.counts_bytes:
            return 0
        images, _, height, _ = graph.tensors[op.output].shape
        share = 1.0 if part is None else part.images.length * part.rows.length / (images * height)
        if op.name in self.measured:
            return ceil(self.measured[op.name] * share)
        return ceil(arithmetic_cycles(self.chip, graph, op) * self.factors.get(op.kind, 1.0) * share)

    def transfer_cycles(self, size_bytes: int, *, of_first_slice: bool = True) -> int:
        """Cycles of one transfer between global and local memory.

        of_first_slice: where bytes are counted, all slices of a tensor are one load or store, as they are in the
        compiler's final program.
        """
        if not size_bytes:
            return 0
        if self.counts_bytes:
            return size_bytes + (self.transfer_bytes if of_first_slice else 0)
        return max(ceil(self.dma_start_cycles + size_bytes / self.dma_bytes_per_cycle), self.chip.dma_floor_cycles)


def arithmetic_cycles(chip: Chip, graph: GroupGraph, op: GroupOp) -> float:
    """Cycles of the whole op by the formulas of this module."""
    images, channels, height, width = graph.tensors[op.output].shape
    source = graph.tensors[op.inputs[0]].shape if op.inputs else (1, 1, 1, 1)
    vectors = images * -(-channels // chip.lanes) * -(-height * width // chip.eu_bytes)
    requantise = 12 * vectors
    taps = op.window.kernel_h * op.window.kernel_w if op.window else 1
    match op.kind:
        case "conv" | "deconv" if 1 < op.group == source[1]:
            return 3.0 * taps * vectors + requantise
        case "conv" | "deconv":
            pixels = height * width if op.kind == "conv" else source[2] * source[3]
            inputs, outputs = (-(-each // op.group // chip.lanes) for each in (source[1], channels))
            passes = images * op.group * taps * inputs * outputs
            return passes * -(-pixels // chip.conv_pixels_per_cycle) + requantise
        case "max_pool" | "average_pool":
            return 3.0 * taps * vectors
        case "matmul":
            return op.macs / (chip.lanes * chip.eu_bytes) + requantise
        case "binary" | "scale" | "softmax":
            return 10.0 * vectors
        case _:
            return 4.0 * vectors


def calibrated(model: CostModel, graph: GroupGraph, measured: Mapping[str, int]) -> CostModel:
    """`model` with the measured cycles of whole ops, and per kind the factor by which the formulas were off."""
    sums: dict[str, tuple[float, float]] = {}
    for op in graph.ops:
        if op.name in measured:
            seen, computed = sums.get(op.kind, (0.0, 0.0))
            sums[op.kind] = (seen + measured[op.name], computed + arithmetic_cycles(model.chip, graph, op))
    factors = {kind: seen / computed for kind, (seen, computed) in sums.items() if computed > 0}
    return replace(model, measured=measured, factors=factors)
