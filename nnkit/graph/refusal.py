"""Refusals: nodes that cannot be taken, each with its reason, all of them in one message."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from nnkit.errors import LayersNotTakenError, ModelError
from nnkit.visible import Visible, with_lines

_OWN = re.compile(r"'[^']*'|[0-9][0-9,.]*")
"""What reasons of the same kind differ in: names and numbers."""
_MOST_APART = 3
_NAMED = 6


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
    title = f"{count} layer{'s' if count > 1 else ''} {what}{kinds}"
    return LayersRefused(refusal_lines(f"{title}:", refusals), refusals, remedy=remedy)


def refusal_lines(title: str, refusals: Sequence[Refusal]) -> Visible:
    """A title, and a line for each refusal; those alike are one line, with a count.

    Alike are refusals of one op whose reasons are equal, or differ in names and numbers alone.
    """
    together: dict[tuple[str, str, str], list[Refusal]] = {}
    for each in refusals:
        together.setdefault((each.op, _OWN.sub("", each.reason), each.remedy), []).append(each)
    lines = []
    for alike in together.values():
        equal = len({each.reason for each in alike}) == 1
        if len(alike) == 1 or (not equal and len(alike) <= _MOST_APART):
            lines += [str(each) for each in alike]
            continue
        first, names = alike[0], folded_names([each.layer for each in alike], _NAMED if equal else 1)
        reason = first.reason if equal else f"{first.reason}, and the like"
        lines.append(str(Refusal(names, first.op, reason, first.remedy)))
    return with_lines(title, lines)


def lines_and_remedy(title: str, refusals: Sequence[Refusal], remedy: str) -> tuple[Visible, str]:
    """As `refusal_lines`, and what to do: of a single refusal its own remedy, which its line leaves out then."""
    if len(refusals) == 1 and refusals[0].remedy:
        return refusal_lines(title, [replace(refusals[0], remedy="")]), refusals[0].remedy
    return refusal_lines(title, refusals), remedy


def folded_names(names: Sequence[str], most: int) -> str:
    """The first names, and how many more there are."""
    if len(names) <= most + 1:
        return ", ".join(names)
    return f"{', '.join(names[:most])} and {len(names) - most} more"
