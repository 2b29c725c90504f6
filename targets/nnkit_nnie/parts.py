"""The networks that the mapper compiles: one, or STN and NET where a spatial transformer is split at its warp.

Nothing on the NNIE samples an image through a matrix. So a network with a WarpPerspective becomes two, each with a
prototxt, caffemodel, cfg and compiled network of its own: STN, from the image to the matrix, and NET, from the warped
image on. Between them the CPU warps the image, and NET's input is made of pixels, as a camera's would be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from nnkit.errors import ModelError
from nnkit_nnie.front import front_of, network_behind_front
from nnkit_nnie.limits.context import Division
from nnkit_nnie.mapper.caffe_pair import CaffePair, caffe_pair
from nnkit_nnie.mapper.input_settings import NONE, InputSettings
from nnkit_nnie.network import Network
from nnkit_nnie.segments import divide

if TYPE_CHECKING:
    from nnkit.rewrite.stn_split import StnSplit

PartName = Literal["", "stn", "net"]


@dataclass(frozen=True, eq=False)
class Part:
    """One network for the mapper, divided by itself. name: empty for the only one. split: what it is a part of.

    pair: its layers as Caffe has them.
    """

    name: PartName
    network: Network
    pair: CaffePair
    split: StnSplit | None = None

    @staticmethod
    def of(name: PartName, network: Network, split: StnSplit | None = None) -> Part:
        """Raises ModelError for layers that Caffe cannot express, all of them at once."""
        return Part(name, network, caffe_pair(network), split)

    def with_sixteen_bits(self, values: Sequence[str]) -> Part:
        """The part with the layers that make these values in 16 bits, beside those that are tagged so."""
        return Part.of(self.name, self.network.with_sixteen_bits(values), self.split)

    def named(self, stem: str) -> str:
        """A file's stem for this part: `face` becomes `face_stn`."""
        return f"{stem}_{self.name}" if self.name else stem


def parts_of(network: Network, division: Division) -> tuple[Part, ...]:
    """The networks that `network` is compiled as, in order of execution.

    Raises ModelError where the warp cannot be split at, for limits that a part exceeds, and as `Part.of`.
    """
    if network.split_at is None:
        return (Part.of("", network_behind_front(network)),)
    from nnkit.rewrite.stn_split import split_stn

    split = split_stn(network.graph.model)
    return (
        Part.of("stn", _begun_on_the_npu("STN", divide(split.stn, division)), split),
        Part.of("net", _begun_on_the_npu("NET", divide(split.net, division)), split),
    )


def _begun_on_the_npu(name: str, network: Network) -> Network:
    front = front_of(network.segments)
    if front is None:
        return network
    raise ModelError(
        f"{name}, a part of the network that is split at its warp, begins on the CPU, with {front.layers[0].name} "
        f"({front.layers[0].kind})",
        where=front.layers[0].name,
        remedy="write split_at_warp: false: the network stays one, and the CPU runs what is before the NNIE",
    )


def settings_of_part(part: Part, settings: tuple[InputSettings, ...]) -> tuple[InputSettings, ...]:
    """How a part's inputs are delivered: the warped image as planar pixels, which is what the CPU's warp makes; what
    else the CPU makes as vectors."""
    by_name = {each.name: each for each in settings}
    if part.split is not None:
        image = by_name[part.split.image]
        by_name[part.split.warped] = replace(
            image, name=part.split.warped, shape=part.split.warped_shape, image_type="u8"
        )
    return tuple(
        by_name.get(spec.name, InputSettings(spec.name, spec.shape, "vector", NONE, (), 1.0, "BGR"))
        for spec in part.network.graph.model.inputs
    )
