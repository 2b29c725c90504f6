"""What a target or a recipe asks of the fixed-point quantiser."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, TypeAlias

from nnkit.defaults import HEADROOM
from nnkit.input_range import InputRange
from nnkit.program.op import Accumulate
from nnkit.quantize.pinned import PinnedFormats

UnsignedPolicy: TypeAlias = Literal["auto", "always", "never"]


@dataclass(frozen=True)
class FixedPointScheme:
    """Power-of-two fixed point.

    bits: storage of layers that are not tagged; layers tagged `_hp` have 16.
    accumulate: `wide` or `running`, see `nnkit.program.fixed`.
    accumulator_bits: 32 (proven, at the cost of weight bits where needed) or 64 (`wide` only).
    unsigned: `auto` gives tensors of 8 bits that cannot be negative an unsigned format; `always` those of
        16 bits too; `never` none.
    headroom: factor on the calibrated range of 16-bit tensors (those of 8 bits have none: they are limited by
        resolution); what lies beyond is clipped, which proofs rely on.
    pinned: formats that are taken as they are instead of chosen.
    input_ranges: exact ranges of inputs by value name; others come from calibration.
    """

    bits: int = 16
    accumulate: Accumulate = "wide"
    accumulator_bits: Literal[32, 64] = 32
    unsigned: UnsignedPolicy = "auto"
    headroom: float = HEADROOM
    pinned: PinnedFormats | None = None
    input_ranges: Mapping[str, InputRange] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "input_ranges", MappingProxyType(dict(self.input_ranges)))
