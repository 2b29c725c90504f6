"""Keep some of the outputs.

Change: the network has the named outputs alone, in the order in which they are named; layers and inputs that no
output needs any more go.
Options: `outputs`.
Refused where the network has no such output.
"""

from __future__ import annotations

from nnkit.graph import Model
from nnkit.recipe.restructure import KeepOutput
from nnkit.rewrite.edit import Edit, Edited
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.edits.outputs import with_outputs
from nnkit.rewrite.naming import named_output


def make(options: KeepOutput, where: str = "") -> Edit:
    """The edit with its options."""
    return Edit("keep_output", __doc__ or "", lambda model: _apply(model, options, where))


def _apply(model: Model, options: KeepOutput, where: str) -> Edited:
    editor = Editor(model, where)
    return with_outputs(editor, list(dict.fromkeys(named_output(editor, name) for name in options.outputs)))
