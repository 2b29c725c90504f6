"""What the names in a recipe's edits stand for: a layer, which stands for its first output, or a value."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nnkit.did_you_mean import did_you_mean
from nnkit.errors import RecipeError
from nnkit.rewrite.editor import Editor

if TYPE_CHECKING:
    import onnx_ir as ir


def named_value(editor: Editor, name: str) -> ir.Value:
    """The first output of the layer `name`, or the value `name`.

    Raises:
        RecipeError: there is no such layer or value; the nearest name is suggested.
    """
    for node in editor.nodes():
        if node.name == name:
            return node.outputs[0]
    values = {str(v.name): v for v in editor.graph.inputs}
    values |= {str(v.name): v for node in editor.nodes() for v in node.outputs}
    if name in values:
        return values[name]
    raise _unknown(editor, name, [*(str(n.name) for n in editor.nodes() if n.name), *values], "layer or value")


def named_output(editor: Editor, name: str | None) -> ir.Value:
    """The network's output `name`; the only one where no name is given.

    Raises:
        RecipeError: there is no such output, or there are several and none is named.
    """
    outputs = editor.graph.outputs
    names = editor.output_names
    if name is None and len(outputs) == 1:
        return outputs[0]
    if name is None:
        raise editor.refused(f"the network has {len(outputs)} outputs", f"add output: one of {', '.join(names)}")
    if name in names:
        return outputs[names.index(name)]
    raise _unknown(editor, name, names, "output")


def matching_layers(editor: Editor, globs: Sequence[str]) -> list[ir.Node]:
    """The layers whose name, or whose first output's name, one of the globs matches; in graph order.

    Raises:
        RecipeError: a glob matches no layer.
    """
    matched: set[ir.Node] = set()
    for pattern in globs:
        hits = {
            node
            for node in editor.nodes()
            if any(fnmatch.fnmatchcase(name, pattern) for name in (editor.layer(node), str(node.outputs[0].name)))
        }
        if not hits:
            raise _unknown(editor, pattern, [editor.layer(node) for node in editor.nodes()], "layer that matches")
        matched |= hits
    return [node for node in editor.nodes() if node in matched]


def _unknown(editor: Editor, name: str, known: Sequence[str], what: str) -> RecipeError:
    names = list(dict.fromkeys(known))
    shown = ", ".join(names[:12]) + (f", ... ({len(names)} in all)" if len(names) > 12 else "")
    remedy = f"{did_you_mean(name, names)} it has: {shown}".lstrip()
    return editor.refused(f"the network has no {what} '{name}'", remedy)
