"""Split the network at its warp (STN splitting) and keep one of the two parts.

Change: a network with a spatial transformer is two networks and a warp between them, which the CPU does. Two recipes
build the two: with part `stn` the network ends in the warp's matrix; with part `net` it begins with an input of the
warped image, named after the warp's result, instead of the image. The warp's attributes (direction, interpolation,
border) are those of the WarpPerspective node; warp_from_grid, before this, makes one of AffineGrid and GridSample.
NET is calibrated on images that have been through STN and warp.
Options: `part`.
Refused without exactly one warp; where layers compute the image that it reads; where an output does not depend on
it; and where layers behind it read what the STN computes.
"""

from __future__ import annotations

from collections.abc import Mapping

from nnkit.errors import ModelError
from nnkit.graph import Model
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.recipe.restructure import SplitStn
from nnkit.rewrite.edit import Edit, Edited, Expected, Values, copied
from nnkit.rewrite.stn_split import split_stn
from nnkit.rewrite.tag_moves import lost_tags
from nnkit.samples import NetworkInputs


def make(options: SplitStn, where: str = "") -> Edit:
    """The edit with its options."""
    return Edit("split_stn", __doc__ or "", lambda model: _apply(model, options, where))


def _apply(model: Model, options: SplitStn, where: str) -> Edited:
    try:
        split = split_stn(model)
    except ModelError as error:
        reason = f"{error.where}: {error.reason}" if error.where else error.reason
        raise ModelError(reason, where=where, remedy=error.remedy) from error
    warp = f"{split.warp.direction} matrix, {split.warp.interpolation}, border {split.warp.border}"
    if options.part == "stn":
        names: tuple[str, ...] = (split.matrix,)
        part, effect = split.stn, f"the output is '{split.matrix}', the matrix of the warp ({warp})"
    else:
        names = tuple(spec.name for spec in split.net.outputs)
        shape = list(split.warped_shape)
        part, effect = split.net, f"input '{split.warped}' {shape} takes the warped '{split.image}' ({warp})"
    lost = lost_tags(model, part)
    if lost:
        effect += f"; {', '.join(lost)} went with the other part"
    sessions: list[FloatSession] = []

    def feeds(sample: NetworkInputs) -> NetworkInputs:
        if options.part == "net":
            if not sessions:
                sessions.append(FloatSession(model, [split.warped]))
            sample = {**sample, **sessions[0].run(sample)}
        return {spec.name: sample[spec.name] for spec in part.inputs}

    def expected(values: Values) -> Mapping[str, Expected]:
        return {name: copied(values[name]) for name in names}

    return Edited(part, (split.warped,), effect, names, expected, feeds)
