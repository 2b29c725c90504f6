"""Caffe layers as they are collected, and their writing as prototxt and caffemodel.

Layers name values while they are collected. At the end every value gets the name of a blob: its own, or where a layer
works in place, that of the value it overwrites.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.caffe.weights import fill_blob
from nnkit.graph.view import Shape
from nnkit.names import NamePool


@dataclass(eq=False)
class WrittenLayer:
    """A layer to be written. message: a LayerParameter with the layer's parameters only."""

    name: str
    type: str
    bottoms: list[str]
    tops: list[str]
    message: Any
    weights: tuple[NDArray[np.float32], ...] = ()
    in_place: bool = False


@dataclass(eq=False)
class NetworkWriter:
    """Collects layers in the order of execution.

    most_name_bytes: of the names of layers, and of values that the export introduces.
    """

    inputs: Mapping[str, Shape]
    outputs: tuple[str, ...]
    most_name_bytes: int | None = None
    layers: list[WrittenLayer] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    _names: NamePool = field(init=False)
    _values: NamePool = field(init=False)

    def __post_init__(self) -> None:
        self._names = NamePool(most_bytes=self.most_name_bytes)
        self._values = NamePool(most_bytes=self.most_name_bytes)

    def reserve_values(self, names: Sequence[str]) -> None:
        """Names that new values must not take."""
        self._values.reserve(names)

    def layer_name(self, wanted: str, suffix: str = "") -> str:
        """`wanted` and `suffix`, with a number between them where that is taken, shortened where it is too long."""
        return self._names.free(wanted, suffix)

    def value_name(self, wanted: str) -> str:
        """A free name for a value that the export introduces, as `layer_name` gives it."""
        return self._values.free(wanted)

    def blobs(self) -> dict[str, str]:
        """Blob name by value name.

        A layer marked in place gets one blob with its bottom where that is safe: nothing else reads the bottom, and
        it is no output. The blob has the input's name where the chain begins at an input, else the last value's.
        """
        readers = Counter(name for layer in self.layers for name in layer.bottoms)
        names = {value: value for value in self.inputs}
        names |= {top: top for layer in self.layers for top in layer.tops}
        outputs = set(self.outputs)

        def shared(layer: WrittenLayer) -> bool:
            bottom = layer.bottoms[0] if layer.bottoms else ""
            return layer.in_place and len(layer.tops) == 1 and readers[bottom] == 1 and bottom not in outputs

        from_input = set(self.inputs)
        for layer in self.layers:
            if shared(layer) and layer.bottoms[0] in from_input:
                from_input.add(layer.tops[0])
                names[layer.tops[0]] = names[layer.bottoms[0]]
        for layer in reversed(self.layers):
            if shared(layer) and layer.bottoms[0] not in from_input:
                names[layer.bottoms[0]] = names[layer.tops[0]]
        return names

    def prototxt(self, name: str, blobs: Mapping[str, str]) -> str:
        """The network as text. name: of the network."""
        from google.protobuf import text_format  # type: ignore[import-untyped]

        from nnkit.caffe.schema import messages

        net = messages.NetParameter(name=name)
        for value, shape in self.inputs.items():
            layer = net.layer.add(name=value, type="Input")
            layer.top.append(blobs[value])
            layer.input_param.shape.add().dim.extend(shape)
        for written in self.layers:
            layer = net.layer.add(name=written.name, type=written.type)
            layer.bottom.extend(blobs[value] for value in written.bottoms)
            layer.top.extend(blobs[value] for value in written.tops)
            layer.MergeFrom(written.message)
        return str(text_format.MessageToString(net, as_utf8=True))

    def caffemodel(self, name: str) -> bytes:
        """Names, types and weights of the layers that have any. name: of the network."""
        from nnkit.caffe.schema import messages

        file = messages.WeightFile(name=name)
        for written in self.layers:
            if written.weights:
                layer = file.layer.add(name=written.name, type=written.type)
                for array in written.weights:
                    fill_blob(layer.blobs.add(), array)
        return bytes(file.SerializeToString(deterministic=True))
