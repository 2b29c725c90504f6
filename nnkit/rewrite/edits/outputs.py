"""Choosing among the network's outputs: what keep_output and drop_output share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from nnkit.rewrite.edit import Edited, Expected, Values, copied, same_feeds
from nnkit.rewrite.editor import Editor

if TYPE_CHECKING:
    import onnx_ir as ir


def with_outputs(editor: Editor, values: Sequence[ir.Value]) -> Edited:
    """The network with these of its outputs alone, in this order."""
    kept = [str(value.name) for value in values]
    dropped = [name for name in editor.output_names if name not in kept]
    editor.set_outputs(values)

    def expected(values: Values) -> Mapping[str, Expected]:
        return {name: copied(values[name]) for name in kept}

    effect = f"the outputs are {', '.join(repr(name) for name in kept)}; " + (
        f"{', '.join(repr(name) for name in dropped)} went" if dropped else "none went"
    )
    return Edited(editor.finish_edit(), tuple(dropped or kept), effect, tuple(kept), expected, same_feeds)
