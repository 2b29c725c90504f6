"""A small third-party target: 8-bit, one memory, a listing as artifact."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from nnkit.graph import Model
from nnkit.memory.plan import Buffer, MemoryPlan, Region, RegionUse, Step, TensorPlace
from nnkit.partition import Segment, partition
from nnkit.program import Program
from nnkit.quantize import FixedPointScheme, InputRange, quantize
from nnkit.recipe import ByteSize, TargetOptionsBase
from nnkit.rewrite import RewriteLog
from nnkit.target import API_VERSION, Deployment, Machine, Quantization, Runner, Tool


class ListingOptions(TargetOptionsBase):
    """Options of the listing target."""

    ram: ByteSize = Field(default=1 << 20, description="Memory for all tensors.")


class ListingTarget:
    """Writes every op of the program on a line."""

    api_version = API_VERSION
    name = "listing"
    summary = "lists the program as text"
    options = ListingOptions
    default_rules = ("fold_batch_norm", "fc_to_conv", "fuse_activation")
    program_classes = ()

    def machine(self, options: ListingOptions) -> Machine:
        return Machine("listing", (Region("ram", options.ram),))

    def legalisation(self, options: ListingOptions) -> tuple[str, ...]:
        return ("fc_to_conv",)

    def partition(self, model: Model, log: RewriteLog, options: ListingOptions) -> tuple[Segment, ...]:
        return partition(model, log)

    def quantize(self, model: Model, quantization: Quantization, options: ListingOptions) -> Program:
        scheme = self.scheme(options, quantization.calibration.headroom, quantization.input_ranges)
        return quantize(model, quantization.statistics, scheme, name=quantization.name)

    def check(self, program: Program, options: ListingOptions) -> None:
        """Everything can be listed."""

    def limits(self) -> tuple[str, ...]:
        return ()

    def scheme(
        self, options: ListingOptions, headroom: float, input_ranges: Mapping[str, InputRange]
    ) -> FixedPointScheme:
        return FixedPointScheme(bits=8, headroom=headroom, input_ranges=input_ranges)

    def plan(self, program: Program, options: ListingOptions) -> MemoryPlan:
        """Every tensor beside the others: nothing is reused."""
        last = len(program.ops) - 1
        buffers: dict[str, Buffer] = {}
        places: dict[str, TensorPlace] = {}
        offset = 0
        for tensor in program.tensors.values():
            size = -(-tensor.size_bytes // 4) * 4
            buffers[tensor.name] = Buffer(tensor.name, "activation", "ram", offset, size, 0, last)
            places[tensor.name] = TensorPlace(tensor.name, tensor.name, 0, tensor.size_bytes)
            offset += size
        steps = tuple(Step(i, op.name, None, op.inputs, (op.output,)) for i, op in enumerate(program.ops))
        use = RegionUse(options.ram, offset, offset, proven_optimal=False)
        return MemoryPlan("all_beside", {"ram": use}, buffers, places, steps, (), 0)

    def emit(self, deployment: Deployment, options: ListingOptions, folder: Path) -> None:
        ops = deployment.program.ops
        lines = [f"{op.name} {op.kind} {' '.join(op.inputs)} -> {op.output}" for op in ops]
        (folder / "listing.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def details(self, deployment: Deployment, options: ListingOptions, folder: Path) -> Mapping[str, Any]:
        return {"lines": len(deployment.program.ops)}

    def runners(self, options: ListingOptions) -> tuple[Runner, ...]:
        return ()

    def tools(self) -> tuple[Tool, ...]:
        return ()


TARGET = ListingTarget()
