"""Give vectors out as feature maps of one pixel, [1, F, 1, 1].

Change: an output [1, F] that the last layer reshapes from [1, F, 1, 1] is given out without the reshape. The numbers,
their order and the output's name stay. For hardware whose reshapes have four dimensions, where a network that
fc_to_conv left with a reshape to a vector at its end could not be compiled. Written behind the rules and edits that
make the outputs.
Options: `outputs`, those that are changed; by default all that can be.
Refused where a named output is no such reshape, and where none is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from nnkit.graph import Model
from nnkit.recipe.restructure import FourDimensionalOutputs
from nnkit.rewrite.edit import Edit, Edited, Expected, Values, copied, same_feeds
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.naming import named_output
from nnkit.rewrite.reading import data_input, is_op

if TYPE_CHECKING:
    import onnx_ir as ir


def make(options: FourDimensionalOutputs, where: str = "") -> Edit:
    """The edit with its options."""
    return Edit("four_dimensional_outputs", __doc__ or "", lambda model: _apply(model, options, where))


def _apply(model: Model, options: FourDimensionalOutputs, where: str) -> Edited:
    editor = Editor(model, where)
    asked = [named_output(editor, name) for name in options.outputs or ()]
    changed = [output for output in asked or editor.graph.outputs if _is_reshaped_pixel(editor, output)]
    for output in asked:
        if output not in changed:
            raise editor.refused(
                f"output '{output.name}' is not reshaped from [1, F, 1, 1] by its last layer",
                "put this rule behind fc_to_conv, or leave the output out",
            )
    if not changed:
        raise editor.refused(
            "no output is reshaped from [1, F, 1, 1] by its last layer",
            "put this rule behind fc_to_conv, or remove it",
        )
    names, sites = editor.output_names, tuple(str(output.name) for output in changed)
    for output in changed:
        reshape = output.producer()
        if reshape is not None:
            editor.supersede(output, data_input(reshape))

    def expected(values: Values) -> Mapping[str, Expected]:
        return {name: copied(values[name]) for name in names}

    effect = f"{', '.join(repr(name) for name in sites)} given out as [1, F, 1, 1]"
    return Edited(editor.finish_edit(), sites, effect, tuple(names), expected, same_feeds)


def _is_reshaped_pixel(editor: Editor, output: ir.Value) -> bool:
    """Whether `output`, [1, F], is a reshape of a computed value [1, F, 1, 1] that is no output itself."""
    node = output.producer()
    if node is None or not is_op(node, "Reshape", "Flatten", "Squeeze") or editor.users(output):
        return False
    source = data_input(node)
    if source.producer() is None or source.is_graph_output():
        return False
    return editor.shape(source) == (1, math.prod(editor.shape(output)), 1, 1)
