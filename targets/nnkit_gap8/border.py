"""The floating-border planner of the published GAP8 application, for chains and Fire modules.

Two buffers share one pool: the first starts at the pool's base, the second at a *border* that floats from layer to
layer; weights follow the second buffer. With activations a[0] (input), a[1], ... of a chain and a[1] to the right:

    chain: border = max(a[i + 1], a[i - 1])                     what lies left while a[i] lies right
    Fire:  border = max(squeeze input, expand1x1 + expand3x3)

In both, the border is the largest buffer that lies left while the one on the right lives: that rule is the
implementation. The parts of a Fire's concatenation are one buffer (they are written in place), so that both expand
layers read the right side and write the left one, and the next Fire starts from the base again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nnkit.memory.lifetimes import Storage
from nnkit.memory.packing import align_up


@dataclass(frozen=True)
class BorderLayout:
    """offsets: per buffer: 0 where it lies left, the border of that moment where it lies right."""

    offsets_bytes: tuple[int, ...]


@dataclass(frozen=True)
class Declined:
    """Why the border scheme does not apply."""

    reason: str


def border_layout(buffers: Sequence[Storage], alignment_bytes: int = 4) -> BorderLayout | Declined:
    """Place activation buffers left or right of a floating border.

    Declines where three buffers live at once, or one would have to be on both sides: that is no chain and no Fire.
    """
    order = sorted(range(len(buffers)), key=lambda i: (buffers[i].first_op, buffers[i].last_op, i))
    right: dict[int, bool] = {}
    for index in order:
        born = buffers[index]
        beside = [j for j in right if buffers[j].last_op >= born.first_op and buffers[j].first_op <= born.last_op]
        if not beside:
            right[index] = False
            continue
        sides = {right[j] for j in beside}
        if len(sides) == 2:
            names = ", ".join(repr(buffers[j].name) for j in sorted([*beside, index]))
            return Declined(f"three buffers live at once ({names}): the graph is not a chain of layers and Fires")
        right[index] = not sides.pop()
    offsets: list[int] = [0] * len(buffers)
    for index, is_right in right.items():
        if is_right:
            left = [j for j, other_right in right.items() if not other_right and _meet(buffers[j], buffers[index])]
            offsets[index] = max((align_up(buffers[j].size_bytes, alignment_bytes) for j in left), default=0)
    return BorderLayout(tuple(offsets))


def top_bytes(buffers: Sequence[Storage], layout: BorderLayout, op_index: int) -> int:
    """End of the highest activation buffer live at an op."""
    ends = [
        offset + buffer.size_bytes
        for buffer, offset in zip(buffers, layout.offsets_bytes, strict=True)
        if buffer.first_op <= op_index <= buffer.last_op
    ]
    return max(ends, default=0)


def _meet(a: Storage, b: Storage) -> bool:
    return a.first_op <= b.last_op and b.first_op <= a.last_op
