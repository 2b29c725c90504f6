"""The networks that the mapper compiles: one, or STN and NET where a spatial transformer is split at its warp.

Nothing on the NNIE samples an image through a matrix. So a network with a WarpPerspective becomes two, each with a
prototxt, caffemodel, cfg and compiled network of its own: STN, from the image to the matrix, and NET, from the warped
image on. Between them the CPU warps the image, and NET's input is made of pixels, as a camera's would be.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from nnkit_nnie.input_settings import InputSettings
from nnkit_nnie.options import NnieOptions
from nnkit_nnie.segments import Division, Network, divide

if TYPE_CHECKING:
    from nnkit.stn import StnSplit

PartName = Literal["", "stn", "net"]


@dataclass(frozen=True, eq=False)
class Part:
    """One network for the mapper, divided by itself. name: empty for the only one. split: what it is a part of."""

    name: PartName
    network: Network
    split: StnSplit | None = None

    def named(self, stem: str) -> str:
        """A file's stem for this part: `face` becomes `face_stn`."""
        return f"{stem}_{self.name}" if self.name else stem


def division_of(options: NnieOptions) -> Division:
    """What decides how a network is divided."""
    return Division(
        options.chip,
        options.compile_mode,
        options.custom,
        options.outside_limits == "custom",
        options.split_at_warp,
    )


def parts_of(network: Network, division: Division) -> tuple[Part, ...]:
    """The networks that `network` is compiled as, in order of execution.

    Raises ModelError where the warp cannot be split at, and for limits that a part exceeds.
    """
    if network.split_at is None:
        return (Part("", network),)
    from nnkit.stn import split_stn

    split = split_stn(network.graph.model)
    return (
        Part("stn", divide(split.stn, division), split),
        Part("net", divide(split.net, division), split),
    )


def settings_of_part(part: Part, settings: tuple[InputSettings, ...]) -> tuple[InputSettings, ...]:
    """How a part's inputs are delivered; the warped image as planar pixels, which is what the CPU's warp makes."""
    by_name = {each.name: each for each in settings}
    if part.split is not None:
        image = by_name[part.split.image]
        by_name[part.split.warped] = replace(
            image, name=part.split.warped, shape=part.split.warped_shape, image_type="u8"
        )
    return tuple(by_name[spec.name] for spec in part.network.graph.model.inputs)
