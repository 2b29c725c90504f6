"""Size and time of a compiled network before there is one: estimates, and marked as such wherever they are shown.

The `.wk`: numbers are stored in records (`wk.layout`), a depthwise layer as dense as any: a record of 640 bytes a
channel of 3 x 3 in 8 bits. Compressed (`compress_mode: normal`), the padding of a record shrinks to `_PADDING` of its
bytes, the numbers do not; each record takes `_RECORD_BYTES` more. Each *piece*, a layer or a group of one, has
`_PIECE_BYTES` of instructions. A BatchNorm, Scale or Bias that is a layer of its own has
`_CHANNEL_BYTES` a channel. Fitted to two files of the vendor's mapper; see docs/nnie.md for how well.

Time: the multipliers work on what a record holds, 4 outputs by 16 inputs, whether all of it is there or not; so a
depthwise channel costs 64 products a tap. With 16 bits everything takes twice as long.

    milliseconds = products / rate + bytes of weights / bandwidth + pieces * time of a piece

Rate, bandwidth and time of a piece are fitted to public measurements (`Speed.measured`) or, for chips without any,
scaled by the products a second that their makers state.

Temporary memory: the most that is alive at once of the maps between layers of a segment, each in the bits that its
readers want, its lines padded to 16 bytes. No figure is public that it could be fitted to.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from nnkit.graph.read.conv import Conv
from nnkit.graph.read.conv_transpose import ConvTranspose
from nnkit.graph.read.fully_connected import FullyConnected
from nnkit_nnie.chips import Chip, Speed
from nnkit_nnie.layers import Layer
from nnkit_nnie.network import Network, NnieSegment
from nnkit_nnie.operators import read_weighted
from nnkit_nnie.wk.layout import RecordLayout

_HEAD_BYTES, _NODE_BYTES, _TABLE_BYTES = 192 + 16, 64, 4 * 1024
_PIECE_BYTES, _RECORD_BYTES, _PADDING = 954, 64 + 14, 0.146
_NUMBERS_BYTES, _CHANNEL_BYTES = 16, 33
_BY_CHANNEL = ("BatchNorm", "Scale", "Bias")
_OUTPUTS, _INPUTS = 4, 16
_LINE_BYTES = 16


@dataclass(frozen=True)
class Work:
    """What a layer has the NNIE do. outputs, inputs: of a group. taps: of the window. positions: where it is applied.

    A layer without a window has no taps, and is one piece. channels: of a layer with numbers for each of them.
    """

    outputs: int = 0
    inputs: int = 0
    taps: int = 0
    positions: int = 0
    groups: int = 1
    bits: int = 8
    channels: int = 0

    @property
    def products(self) -> int:
        """Products that the multipliers make, padding included, as many as of 8 bits."""
        padded = -(-self.outputs // _OUTPUTS) * _OUTPUTS * -(-self.inputs // _INPUTS) * _INPUTS
        return self.groups * padded * self.taps * self.positions * self.bits // 8

    def weight_bytes(self, *, compressed: bool) -> float:
        """Bytes of the layer's records."""
        if not self.taps:
            return float(self.channels * _CHANNEL_BYTES)
        layout = RecordLayout(16 if self.bits == 16 else 8, (self.outputs, self.inputs, self.taps, 1))
        size = layout.records * layout.size_bytes
        numbers = self.outputs * (_NUMBERS_BYTES + self.taps * self.inputs * self.bits // 8)
        stored = numbers + _PADDING * (size - numbers) if compressed else size
        return self.groups * (stored + layout.records * _RECORD_BYTES)


def wk_bytes(works: Iterable[Work], nodes: int, *, compressed: bool) -> int:
    """Bytes of a `.wk`. nodes: inputs and outputs of its segments."""
    known = list(works)
    records = sum(work.weight_bytes(compressed=compressed) for work in known)
    pieces = sum(work.groups for work in known)
    return round(_HEAD_BYTES + nodes * _NODE_BYTES + _TABLE_BYTES + records + pieces * _PIECE_BYTES)


def milliseconds(works: Iterable[Work], speed: Speed, *, compressed: bool) -> float:
    """The estimated time of one run on one core, in milliseconds."""
    microseconds = sum(
        work.products / speed.products_per_us
        + work.weight_bytes(compressed=compressed) / speed.weight_bytes_per_us
        + work.groups * speed.piece_us
        for work in works
    )
    return microseconds / 1000.0


def layer_milliseconds(
    network: Network, bits: Callable[[Layer], int], chip: Chip, *, compressed: bool
) -> dict[str, float]:
    """The estimated time of each layer on the NNIE, by its name; their sum is that of `milliseconds`."""
    on_npu = [layer for layer in network.layers if layer.placement == "npu"]
    works = zip(on_npu, works_of(network, on_npu, bits), strict=True)
    return {layer.name: round(milliseconds([work], chip.speed, compressed=compressed), 6) for layer, work in works}


def works_of(network: Network, layers: Sequence[Layer], bits: Callable[[Layer], int]) -> list[Work]:
    """What the layers have the NNIE do; those of the CPU nothing. bits: in which a layer reads."""
    return [_work(network, layer, bits(layer)) for layer in layers if layer.placement == "npu"]


def _work(network: Network, layer: Layer, bits: int) -> Work:
    operator = read_weighted(network.graph, layer)
    if isinstance(operator, FullyConnected):
        rows = math.prod(network.graph.shape(layer.main.output)) // operator.outputs
        return Work(operator.outputs, operator.inputs, 1, rows, 1, bits)
    if isinstance(operator, Conv):
        outputs, inputs, high, wide = operator.weight.shape
        positions = operator.window.output_hw[0] * operator.window.output_hw[1]
        return Work(outputs // operator.groups, inputs, high * wide, positions, operator.groups, bits)
    if isinstance(operator, ConvTranspose):
        inputs, outputs, high, wide = operator.weight.shape
        positions = operator.input_hw[0] * operator.input_hw[1]
        return Work(outputs, inputs // operator.groups, high * wide, positions, operator.groups, bits)
    return Work(bits=bits, channels=network.graph.shape(layer.outputs[0])[1] if layer.kind in _BY_CHANNEL else 0)


def temporary_bytes(network: Network, bits: Callable[[Layer], int]) -> int:
    """The most of any segment: the temporary buffer serves one after another."""
    npu = [segment for segment in network.segments if segment.placement == "npu"]
    return max((alive_bytes(network, segment, bits) for segment in npu), default=0)


def alive_bytes(network: Network, segment: NnieSegment, bits: Callable[[Layer], int]) -> int:
    """The largest sum of maps of a segment that are alive at once; what enters or leaves it has blobs of its own.

    bits: in which a layer reads.
    """
    last, width = {}, dict[str, int]()
    for step, layer in enumerate(segment.layers):
        for name in layer.inputs:
            last[name] = step
            width[name] = max(width.get(name, 1), bits(layer) // 8)
    alive: dict[str, int] = {}
    most = 0
    for step, layer in enumerate(segment.layers):
        for name in layer.outputs:
            if name in last:
                alive[name] = _map_bytes(network.graph.shape(name), width[name])
        most = max(most, sum(alive.values()))
        alive = {name: size for name, size in alive.items() if last[name] > step}
    return most


def _map_bytes(shape: Sequence[int], value_bytes: int) -> int:
    *outer, line = shape if len(shape) > 1 else (1, *shape)
    lines = 1
    for side in outer:
        lines *= side
    return lines * -(-line * value_bytes // _LINE_BYTES) * _LINE_BYTES


def estimates_of(network: Network, bits: Callable[[Layer], int], chip: Chip, *, compressed: bool) -> dict[str, Any]:
    """JSON data of a whole network, all its compiled files together. bits: in which a layer reads."""
    works = works_of(network, network.layers, bits)
    nodes = sum(len(s.inputs) + len(s.outputs) for s in network.segments if s.placement == "npu")
    return {
        "estimated": True,
        "wk_bytes": wk_bytes(works, nodes, compressed=compressed),
        "temporary_bytes": temporary_bytes(network, bits),
        "milliseconds": round(milliseconds(works, chip.speed, compressed=compressed), 3),
        "speed_measured": chip.speed.measured,
    }


def estimate_line(data: dict[str, Any]) -> str:
    """For people."""
    how = "fitted to measurements" if data["speed_measured"] else "scaled from another chip"
    return (
        f"estimated    {data['milliseconds']:.2f} ms on the NNIE ({how}), .wk {data['wk_bytes']:,} B, temporary "
        f"memory {data['temporary_bytes']:,} B"
    )
