"""Choosing among the network's outputs: what keep_output and drop_output share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nnkit.graph import Model
from nnkit.rewrite.edit import Edited, Expected, Values, copied, same_feeds
from nnkit.rewrite.surgery import Surgery


def with_outputs(surgery: Surgery, kept: Sequence[str]) -> Edited:
    """The network with these of its outputs alone, in this order."""
    before = surgery.output_names
    dropped = [name for name in before if name not in kept]
    surgery.set_outputs(kept)

    def expected(values: Values) -> Mapping[str, Expected]:
        return {name: copied(values[name]) for name in kept}

    model: Model = surgery.finish()
    effect = f"the outputs are {', '.join(repr(name) for name in kept)}; " + (
        f"{', '.join(repr(name) for name in dropped)} went" if dropped else "none went"
    )
    return Edited(model, tuple(dropped or kept), effect, tuple(kept), expected, same_feeds)
