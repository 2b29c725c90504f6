"""What the quantiser asks of each op; every op's answers stand in the file of its name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

from nnkit.program import Op, Tensor
from nnkit.quantize.fixed.format_table import FormatTable, Range
from nnkit.quantize.float_program import FloatOp
from nnkit.quantize.scheme import FixedPointScheme

OpT = TypeVar("OpT", bound=FloatOp)


class Lowering(ABC, Generic[OpT]):
    """From one class of float ops to fixed point. The defaults are those of an op that does arithmetic."""

    def shares_format(self, op: OpT, scheme: FixedPointScheme) -> bool:
        """Whether the output has the format of the inputs."""
        return False

    def has_own_range(self, op: OpT) -> bool:
        """Whether the output's range is calibrated; otherwise it is that of what the op moves."""
        return True

    def output_range(self, op: OpT, sources: Sequence[Range], calibrated: Range) -> Range:
        """The output's range. calibrated: as seen, with headroom, or where it has none of its own, the hull of
        `sources`."""
        return bounded(op, calibrated)

    def settle(self, op: OpT, formats: FormatTable, tensors: Mapping[str, Tensor], scheme: FixedPointScheme) -> bool:
        """Make formats coarser where the op's arithmetic needs it. Returns whether any changed."""
        return False

    def takes(
        self, op: OpT, before: Mapping[str, Tensor], tensors: Mapping[str, Tensor], scheme: FixedPointScheme
    ) -> bool:
        """Whether the op is as good with the wider ranges of `tensors` as with those `before`; formats stay."""
        return True

    @abstractmethod
    def build(self, op: OpT, tensors: Mapping[str, Tensor], scheme: FixedPointScheme) -> Op:
        """The op of the integer program. Formats must be settled."""


class MovingLowering(Lowering[OpT]):
    """The lowering of an op that passes numbers on: one format and one range on both sides."""

    def shares_format(self, op: OpT, scheme: FixedPointScheme) -> bool:
        return True

    def has_own_range(self, op: OpT) -> bool:
        return False

    def output_range(self, op: OpT, sources: Sequence[Range], calibrated: Range) -> Range:
        return calibrated


def bounded(op: FloatOp, calibrated: Range, *, non_negative: bool = False) -> Range:
    """The range within what the op's activation leaves. non_negative: of the result without an activation."""
    low, high, activation = calibrated.low, calibrated.high, op.nonlinearity
    if activation is not None:
        if activation.low is not None:
            low, high = max(low, activation.low), max(high, activation.low)
        if activation.high is not None:
            low, high = min(low, activation.high), min(high, activation.high)
        non_negative = activation.non_negative
    if non_negative:
        low, high = 0.0, max(high, 0.0)
    return replace(calibrated, low=low, high=high, non_negative=non_negative)


def common_fields(op: FloatOp) -> dict[str, Any]:
    """What all ops of the integer program share."""
    return {
        "name": op.name,
        "inputs": op.inputs,
        "output": op.output,
        "placement": "cpu" if op.tags.cpu else "npu",
        "tags": tuple(tag for tag, on in (("hp", op.tags.hp), ("cpu", op.tags.cpu)) if on),
        "origins": op.tags.origins,
    }
