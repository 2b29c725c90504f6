"""Drop some of the outputs.

Change: the named outputs go, with the layers and inputs that no other output needs.
Options: `outputs`.
Refused where the network has no such output, and where none would be left.
"""

from __future__ import annotations

from nnkit.graph import Model
from nnkit.recipe.restructure import DropOutput
from nnkit.rewrite.edit import Edit, Edited
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.edits.outputs import with_outputs
from nnkit.rewrite.naming import named_output


def make(options: DropOutput, where: str = "") -> Edit:
    """The edit with its options."""
    return Edit("drop_output", __doc__ or "", lambda model: _apply(model, options, where))


def _apply(model: Model, options: DropOutput, where: str) -> Edited:
    editor = Editor(model, where)
    dropped = {named_output(editor, name) for name in options.outputs}
    kept = [value for value in editor.graph.outputs if value not in dropped]
    if not kept:
        raise editor.refused("no output of the network would be left", "keep at least one")
    return with_outputs(editor, kept)
