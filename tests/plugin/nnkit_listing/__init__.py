"""A small third-party target: 8-bit, one memory, a listing as artifact."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from nnkit.constraints import Limits, check_constraints, constraint_text
from nnkit.input_range import InputRange
from nnkit.memory.one_region import plan_one_region
from nnkit.memory.plan import MemoryPlan, Region
from nnkit.program import OpBase, Program
from nnkit.quantize import FixedPointScheme
from nnkit.quantize.lowered import LoweredLayers
from nnkit.recipe import ByteSize, TargetOptionsBase
from nnkit.target import Deployment, FixedPointTarget, Machine


@dataclass(frozen=True)
class ListingLimits(Limits):
    """What can be listed."""

    max_name: int = 60


def name_is_short(op: OpBase, program: Program, limits: ListingLimits) -> str | None:
    """names have at most {max_name} characters
    fix: rename the layer in the model"""
    return f"{len(op.name)}" if len(op.name) > limits.max_name else None


class ListingOptions(TargetOptionsBase):
    """Options of the listing target."""

    ram: ByteSize = Field(default=1 << 20, description="Memory for all tensors.")


class ListingTarget(FixedPointTarget[ListingOptions]):
    """Writes every op of the program on a line."""

    api_version = 3
    name = "listing"
    summary = "lists the program as text"
    options = ListingOptions
    default_rules = ("fold_batch_norm", "fc_to_conv", "fuse_activation")

    def machine(self, options: ListingOptions) -> Machine:
        return Machine("listing", (Region("ram", options.ram),))

    def legalisation(self, options: ListingOptions) -> tuple[str, ...]:
        return ("fc_to_conv",)

    def scheme(
        self, options: ListingOptions, headroom: float, input_ranges: Mapping[str, InputRange]
    ) -> FixedPointScheme:
        return FixedPointScheme(bits=8, headroom=headroom, input_ranges=input_ranges)

    def check(self, program: Program, options: ListingOptions) -> None:
        """Raises ModelError with every op whose name is too long."""
        check_constraints(program, (name_is_short,), ListingLimits(), whose="the listing")

    def limits(self) -> tuple[str, ...]:
        return (constraint_text(name_is_short, ListingLimits()),)

    def plan(self, lowered: LoweredLayers, program: Program, options: ListingOptions) -> MemoryPlan:
        return plan_one_region(program, Region("ram", options.ram))

    def emit(self, deployment: Deployment[LoweredLayers], options: ListingOptions, folder: Path) -> None:
        ops = deployment.program.ops
        lines = [f"{op.name} {op.kind} {' '.join(op.inputs)} -> {op.output}" for op in ops]
        (folder / "listing.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def details(
        self, deployment: Deployment[LoweredLayers], options: ListingOptions, folder: Path
    ) -> Mapping[str, Any]:
        return {"lines": len(deployment.program.ops)}
