"""A build against a `.wk` that the vendor's mapper made: is it this network, and does it hold our numbers?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from nnkit.errors import UserFileError
from nnkit.program import Program
from nnkit.target import CompiledComparison, CompiledLayer, NumberCount
from nnkit_nnie.emit import read_build_file, read_segments_file
from nnkit_nnie.gfpq.ops import NnieWeighted
from nnkit_nnie.wk.alignment import StoredLayer, align, stored_layer
from nnkit_nnie.wk.fully_connected import StoredFullyConnected, compare_fully_connected, stored_fully_connected
from nnkit_nnie.wk.header import WkFile, check_sum, damaged, read_wk
from nnkit_nnie.wk.nodes import read_nodes
from nnkit_nnie.wk.numbers import LayerNumbers, compare_layer
from nnkit_nnie.wk.records import WkRecord, read_records
from nnkit_nnie.wk.same_network import same_network

_Read = TypeVar("_Read")
_MOST_RECORDS_A_KNOWN_ONE = 8
_SORTS = len(LayerNumbers("", 0).counts)


def compare_with_wk(build: Path, program: Program, path: Path) -> CompiledComparison:
    """Compare a build with a compiled network.

    Raises:
        UserFileError: it is another network's (the message names what differs), or nothing in it could be compared.
        ToolError: it is damaged.
    """
    compared = compare_artifact(build / "artifact", program, path)
    if not any(count.compared for count in compared.numbers):
        raise UserFileError(
            f"nothing in it can be compared: all {compared.records_unread} records are compressed, or laid out in a "
            "way that is not known",
            where=str(path),
            remedy="compile with compress_mode: bypass (1 in the mapper's cfg)",
        )
    return compared


def compare_artifact(artifact: Path, program: Program, path: Path) -> CompiledComparison:
    """Compare an artifact with a compiled network; counts are 0 where all records are compressed.

    Raises UserFileError where it is another network's, ToolError where it is damaged.
    """
    wk = read_wk(path)
    check_sum(wk, path)
    nodes = _sound(lambda: read_nodes(wk.data[: wk.head_bytes], wk.segments), path)
    segments, built = read_segments_file(artifact), read_build_file(artifact)
    network, notes = same_network(nodes, segments, built, path)
    records = _sound(lambda: read_records(wk.data, wk.head_bytes), path)
    own = [op for op in program.ops if isinstance(op, NnieWeighted) and op.layer in network["layers"]]
    stored = [stored_layer(op) or stored_fully_connected(op) for op in own]
    layers = [layer for layer in stored if layer is not None]
    expected = sum(
        layer.records if layer is not None else op.weight.shape[0]  # of a layout not known: one an output at most
        for op, layer in zip(own, stored, strict=True)
    )
    if len(records) > _MOST_RECORDS_A_KNOWN_ONE * (expected + 1):
        raise _other_layers(path, f"it holds {len(records)} records, and this build's layers have {expected}")
    results = _compared(layers, records, _Weights(artifact, network), path)
    notes += _generation(wk, segments) + _input_scales(results)
    return CompiledComparison(
        numbers=tuple(_total(results, position) for position in range(_SORTS)),
        records_unread=len(records) - sum(each.records_read for each in results),
        layers=tuple(_layer(each) for each in results if any(c.compared > c.equal for _, c in each.counts)),
        notes=tuple(notes),
    )


def _sound(read: Callable[[], _Read], path: Path) -> _Read:
    """What `read` gives; its ValueError as the error of a damaged file."""
    try:
        return read()
    except ValueError as error:
        raise damaged(path, str(error)) from error


def _compared(
    layers: Sequence[StoredLayer | StoredFullyConnected], records: Sequence[WkRecord], weights: _Weights, path: Path
) -> list[LayerNumbers]:
    """The comparison of each layer whose records were made out. Raises UserFileError where they are another's."""
    convolutions = [layer for layer in layers if isinstance(layer, StoredLayer)]
    known = sum(layer.records for layer in convolutions)
    places = align(layers, records)
    missing = [
        layer
        for layer, place in zip(layers, places, strict=True)
        if isinstance(layer, StoredLayer)
        if place is None or not layer.may_have(records[place].size_bytes)
    ]
    if 2 * sum(layer.records for layer in missing) > known:
        names = ", ".join(f"'{layer.op.layer}'" for layer in missing[:3])
        raise _other_layers(path, f"no records have the number and size of those of {names} and others")
    results = []
    for layer, place in zip(layers, places, strict=True):
        if place is None:
            continue
        own, reader = records[place : place + layer.records], weights.reader(layer.op)
        if isinstance(layer, StoredLayer):
            results.append(compare_layer(layer, own, reader))
        elif layer.fits(own):
            results.append(compare_fully_connected(layer, own, reader))
    return results


def _other_layers(path: Path, reason: str) -> UserFileError:
    return UserFileError(
        f"inputs and outputs are this network's, the layers are not: {reason}",
        where=str(path),
        remedy="compare with a build of the same weights, compile_mode and folding",
    )


class _Weights:
    """Weights of a network's layers before quantisation, from the emitted caffemodel, read when first asked for."""

    def __init__(self, artifact: Path, network: Mapping[str, Any]) -> None:
        self._file = artifact / network["folder"] / f"{network['stem']}.caffemodel"
        self._written: Mapping[str, Sequence[str]] = network["layers"]
        self._arrays: dict[str, NDArray[np.float64]] | None = None

    def reader(self, op: NnieWeighted) -> Any:
        """What gives a layer's weights."""
        return lambda: self._all()[op.layer].reshape(op.weight.shape)

    def _all(self) -> dict[str, NDArray[np.float64]]:
        from nnkit.caffe.weights import read_caffemodel, read_user_bytes

        if self._arrays is None:
            stored = read_caffemodel(read_user_bytes(self._file, "the caffemodel"), str(self._file))
            self._arrays = {
                layer: next(stored[name] for name in names if name in stored).arrays[0].astype(np.float64)
                for layer, names in self._written.items()
                if any(name in stored for name in names)
            }
        return self._arrays


def _generation(wk: WkFile, segments: Mapping[str, Any]) -> list[str]:
    if wk.generation == segments["nnie"]:
        return []
    return [
        f"the file seems to be for NNIE {wk.generation}, and {segments['chip']} has {segments['nnie']}: the board "
        "would not load it"
    ]


def _input_scales(results: Sequence[LayerNumbers]) -> list[str]:
    read = [each for each in results if len(each.input_scales) == 1]
    differing = [each for each in read if each.input_scales != {each.ours}]
    if not differing:
        return []
    shown = ", ".join(f"{each.layer} ({min(each.input_scales)}, here {each.ours})" for each in differing[:3])
    return [
        f"{len(differing)} of {len(read)} layers have another scale of their input, as after a calibration on other "
        f"images: {shown}{' ...' if len(differing) > 3 else ''}; biases are compared at the file's scales"
    ]


def _total(results: Sequence[LayerNumbers], position: int) -> NumberCount:
    counts = [each.counts[position][1] for each in results]
    name = LayerNumbers("", 0).counts[position][0]
    return NumberCount(
        name, sum(c.compared for c in counts), sum(c.equal for c in counts), sum(c.tied for c in counts)
    )


def _layer(each: LayerNumbers) -> CompiledLayer:
    return CompiledLayer(each.layer, tuple(NumberCount(name, c.compared, c.equal, c.tied) for name, c in each.counts))
