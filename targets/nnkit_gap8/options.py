"""Options of the gap8 target, as the recipe writes them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from nnkit.affine_build.options import AffineOptions
from nnkit.c.fixed.machine import CoreMachine
from nnkit.memory.plan import Region
from nnkit.recipe import ByteSize, RecipeModel, RecipePath, TargetOptionsBase
from nnkit.recipe.base import fault
from nnkit.recipe.memory_search import MemorySearch

L1_BYTES, L2_BYTES = 64 << 10, 512 << 10
"""What is on the chip."""


class Gap8Memory(RecipeModel):
    """Sizes of the chip's memories."""

    l1: ByteSize = Field(default=L1_BYTES, ge=1, description="Cluster memory: scratch of the kernels.")
    l2: ByteSize = Field(default=L2_BYTES, ge=1, description="On-chip memory: activations, streamed weights, stack.")
    l3: ByteSize = Field(default=8 << 20, description="External memory: all weights.")
    code: ByteSize | Literal["auto"] | None = Field(
        default=None,
        description="Bytes of `l2` kept for the network's instructions and constants; `auto`: as many as they take "
        "at most. A build whose code takes more ends with exit code 4. `null`: none is kept, and a build ends so "
        "where data and code together exceed the chip's L2.",
        examples=["20KiB"],
    )
    larger_chip: bool = Field(
        default=False,
        description="`l1` and `l2` may be larger than GAP8's: for another chip of the family, or to learn what a "
        "network would take.",
    )

    @model_validator(mode="after")
    def _is_on_the_chip(self) -> Gap8Memory:
        for name, size, real in self._larger():
            if not self.larger_chip:
                raise fault(
                    f"{name} is {size:,} bytes, GAP8 has {real:,}",
                    f"write at most {real >> 10}KiB; for another chip, or to learn what a network would take, add "
                    "larger_chip: true",
                    (name,),
                )
        return self

    def _larger(self) -> list[tuple[str, int, int]]:
        """On-chip memories larger than GAP8's: name, bytes, and what there is."""
        sizes = (("l1", self.l1, L1_BYTES), ("l2", self.l2, L2_BYTES))
        return [(name, size, real) for name, size, real in sizes if size > real]

    @property
    def on_chip_l2_bytes(self) -> int:
        """What data and code have together: GAP8's L2, or a larger one that the recipe says."""
        return max(self.l2, L2_BYTES)

    def beyond_the_chip(self) -> tuple[str, ...]:
        """What GAP8 does not have: on-chip memories larger than its own."""
        return tuple(
            f"memory.{name} is {size:,} bytes, GAP8 has {real:,}: a build that needs more does not run on it"
            for name, size, real in self._larger()
        )

    def regions(self) -> tuple[Region, Region, Region]:
        """L1, L2 and L3."""
        return Region("l1", self.l1), Region("l2", self.l2), Region("l3", self.l3)


class Gap8Cluster(RecipeModel):
    """The network as a task of the cluster: layers in tiles in L1, moved by DMA, with packed arithmetic."""

    cores: int = Field(default=8, ge=1, le=8, description="Cores that share each tile's work.")
    l1: ByteSize = Field(default=48 << 10, ge=4 << 10, description="What the tiles may take of L1.")


class Gap8Options(TargetOptionsBase):
    """GreenWaves GAP8: 16-bit or 8-bit integers, weights streamed from L3."""

    precision: Literal["int16", "int8"] = Field(
        default="int16", description="Storage of activations and weights; layers tagged `hp` have 16 bits."
    )
    scheme: Literal["power_of_two", "affine"] = Field(
        default="power_of_two",
        description="`power_of_two`: fixed point, requantised by shifts. `affine`: scales and zero points, with a "
        "multiplier for each output channel, which networks with depthwise layers need in 8 bits; one core computes "
        "all layers, or with `cluster` its cores.",
    )
    accumulate: Literal["wide", "running"] = Field(
        default="wide",
        description="`wide`: one rounding after the sum over all channels. `running`: one rounding after each input "
        "channel, as the vendor's single-precision kernels do.",
    )
    accumulator_bits: Literal[32, 64] = Field(
        default=32,
        description="Width of the `wide` accumulator. 32 bits are proven not to overflow, at the cost of weight bits "
        "where needed; 64 bits cost instructions instead.",
    )
    unsigned: Literal["auto", "always", "never"] = Field(
        default="auto",
        description="Unsigned storage for tensors that cannot be negative: those of 8 bits, all, or none.",
    )
    formats: RecipePath | None = Field(
        default=None,
        description="Pinned formats (JSON): reproduces an existing release bit for bit.",
        examples=["formats.json"],
    )
    memory: Gap8Memory = Field(default=Gap8Memory(), description="Memory sizes.")
    planner: Literal["auto", "border", "general"] = Field(
        default="auto", description="L2 planner; `auto` takes the better of the floating border and the general one."
    )
    memory_search: MemorySearch = Field(
        default=MemorySearch(), description="How long the general planner may search for addresses."
    )
    op_order: Literal["search", "given"] = Field(
        default="search",
        description="`search`: the ops run in another order where that lowers the L2 peak; every value stays the "
        "same. `given`: in the network's order.",
    )
    stripes: Literal["auto", "never", "least"] = Field(
        default="auto",
        description="Layers in stripes of rows, so that wide tensors between them are never whole in L2. Rows that "
        "two stripes need are computed twice; every value stays the same. `auto`: where the network does not fit "
        "otherwise, the cheapest. `least`: those with the least L2 peak and code together.",
    )
    steps: Literal["auto", "calls", "table"] = Field(
        default="auto",
        description="How the network's steps stand in its C: written out as `calls`, or as a `table` that a loop "
        "walks, which takes less memory where a network has many layers. `auto`: the table where the calls do not "
        "fit `memory.code` (or, without it, the chip's L2), and with the stripes of `stripes: least`.",
    )
    weight_budget: ByteSize | None = Field(
        default=None,
        description="Most bytes that all weights may take; more ends with exit code 4.",
        examples=["1.5MiB"],
    )
    cores: int = Field(default=8, ge=1, le=8, description="Cluster cores that share each kernel's work.")
    cluster: Gap8Cluster | None = Field(
        default=None,
        description="Run the whole network on the cluster, layers cut into tiles that fit L1. It has its own "
        "`cores`, and its `l1` takes the place of `memory.l1`. Omitted: kernels read L2.",
    )
    repack_limit: float = Field(
        default=0.04,
        ge=0.0,
        le=1.0,
        description="Share of the instructions that may go into gathering inputs again for smaller weight chunks, to "
        "lower the L2 peak. 0: speed first.",
    )

    def regions(self) -> tuple[Region, Region, Region]:
        """L1, L2 and L3 as this build may use them."""
        _, l2, l3 = self.memory.regions()
        return Region("l1", self.core_machine().scratch_bytes), l2, l3

    def core_machine(self) -> CoreMachine:
        """What the kernels are cut for: the cluster's cores, which share L1."""
        if self.cluster is not None:
            return CoreMachine(self.cluster.cores, self.cluster.l1)
        return CoreMachine(self.cores, self.memory.l1)

    @property
    def affine(self) -> AffineOptions:
        """The options of the affine quantiser."""
        return AffineOptions(precision=self.precision, symmetric_activations=self.precision == "int16")
