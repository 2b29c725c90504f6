"""Give vectors out as feature maps of one pixel, [1, F, 1, 1].

Change: an output [1, F] that the last layer reshapes from [1, F, 1, 1] is given out without the reshape. The numbers,
their order and the output's name stay. Reshapes of NNIE have four dimensions, so a network that fc_to_conv left with
a reshape to a vector at its end could not be compiled. Written behind the rules and edits that make the outputs.
Options: `outputs`, those that are changed; by default all that can be.
Refused where a named output is no such reshape, and where none is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from nnkit.graph import Model
from nnkit.recipe.restructure import FourDimensionalOutputs
from nnkit.rewrite.edit import Edit, Edited, Expected, Values, copied, same_feeds
from nnkit.rewrite.surgery import Surgery

_RESHAPES = ("Reshape", "Flatten", "Squeeze")


def make(options: FourDimensionalOutputs, where: str = "") -> Edit:
    """The edit with its options."""
    return Edit("four_dimensional_outputs", __doc__ or "", lambda model: _apply(model, options, where))


def _apply(model: Model, options: FourDimensionalOutputs, where: str) -> Edited:
    surgery = Surgery(model, where)
    names = surgery.output_names
    asked = [surgery.one_output(name) for name in options.outputs or ()]
    changed = [name for name in asked or names if _is_reshaped_pixel(surgery, name)]
    for name in asked:
        if name not in changed:
            raise surgery.refused(
                f"output '{name}' is not reshaped from [1, F, 1, 1] by its last layer",
                "put this rule behind fc_to_conv, or leave the output out",
            )
    if not changed:
        raise surgery.refused(
            "no output is reshaped from [1, F, 1, 1] by its last layer",
            "put this rule behind fc_to_conv, or remove it",
        )
    for name in changed:
        _take_out(surgery, name)
    surgery.set_outputs(names)

    def expected(values: Values) -> Mapping[str, Expected]:
        return {name: copied(values[name]) for name in names}

    effect = f"{', '.join(repr(name) for name in changed)} given out as [1, F, 1, 1]"
    return Edited(surgery.finish(), tuple(changed), effect, tuple(names), expected, same_feeds)


def _is_reshaped_pixel(surgery: Surgery, output: str) -> bool:
    """Whether `output`, [1, F], is a reshape of a computed value [1, F, 1, 1] that is no output itself."""
    node = surgery.producer(output)
    if node is None or node.op_type not in _RESHAPES or node.domain or surgery.readers(output):
        return False
    source, shape = node.input[0], surgery.shape(output)
    if surgery.producer(source) is None or source in surgery.output_names:
        return False
    return surgery.shape(source) == (1, math.prod(shape), 1, 1)


def _take_out(surgery: Surgery, output: str) -> None:
    """Remove the reshape; the layer before it computes `output` now."""
    node: Any = surgery.producer(output)
    source = node.input[0]
    surgery.graph.node.remove(node)
    for other in surgery.graph.node:
        for names in (other.input, other.output):
            for index, name in enumerate(names):
                if name == source:
                    names[index] = output
        for entry in other.metadata_props:
            if entry.key == "nnkit.fuse_into" and entry.value == source:
                entry.value = output
    surgery.rename_tags(source, output)
