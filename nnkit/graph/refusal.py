"""Refusals: nodes that cannot be taken, each with its reason, all of them in one message."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from nnkit.errors import LayersNotTakenError, ModelError


class Refused(ModelError):
    """A node cannot be taken. The reason completes "<layer> (<op>): ...": "its weights are not constant".

    Lowerings catch it node by node and report all refusals at once (`refusal_error`).
    """

    code = "NK302"

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(reason, remedy=remedy)


@dataclass(frozen=True)
class Refusal:
    """One layer that cannot be taken, and why. remedy: for this layer alone, where there is one."""

    layer: str
    op: str
    reason: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.layer} ({self.op}): {self.reason}" + (f"; {self.remedy}" if self.remedy else "")


class LayersRefused(LayersNotTakenError):
    """Layers cannot be taken; `refusals` has each of them, for who gathers them with others."""

    code = "NK303"

    def __init__(self, reason: str, refusals: Sequence[Refusal], *, remedy: str = "") -> None:
        super().__init__(reason, [refusal.layer for refusal in refusals], remedy=remedy)
        self.refusals = tuple(refusals)


def refusal_error(refusals: Sequence[Refusal], what: str, remedy: str) -> LayersRefused:
    """All refusals in one error, one line each. what: "cannot be deployed", behind the number of layers.

    Several are counted by op, the most frequent first.
    """
    count = len(refusals)
    by_op = sorted(Counter(refusal.op for refusal in refusals).items(), key=lambda item: (-item[1], item[0]))
    kinds = f" ({', '.join(f'{number} {op}' for op, number in by_op)})" if count > 1 else ""
    lines = "".join(f"\n  {refusal}" for refusal in refusals)
    return LayersRefused(f"{count} layer{'s' if count > 1 else ''} {what}{kinds}:{lines}", refusals, remedy=remedy)
