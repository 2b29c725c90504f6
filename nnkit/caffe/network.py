"""A Caffe network in one form: prototxt and caffemodel read, old layers upgraded, training left out, values named.

Caffe layers may write in place, so that one blob name stands for several values in turn. Here every value has a name
of its own: the last keeps the blob's name, an earlier one is called `<blob>_before_<layer that overwrites it>`. An
input keeps its name, and what overwrites it is called `<blob>_after_<layer>`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.caffe.phases import in_deployment
from nnkit.caffe.text_format import Parsed, parse_text
from nnkit.caffe.version1 import upgraded
from nnkit.caffe.weights import LayerWeights
from nnkit.errors import ModelError
from nnkit.names import NamePool
from nnkit.trust import check_layers, check_names

MAX_ENDS = 4096
"""Most bottoms, or tops, of one layer."""

MAX_DIMENSIONS = 8
MAX_VALUES = 1 << 28
"""Most numbers in one value: a GiB of float32, far beyond the targets."""

_SHOWN_NOTES = 20
_DATA_LAYERS = frozenset(["Data", "ImageData", "MemoryData", "HDF5Data", "DummyData", "WindowData", "AnnotatedData"])
_MEASURING_LAYERS = frozenset(["Accuracy", "Silence", "HDF5Output"])


@dataclass(frozen=True)
class CaffeInput:
    """An input of the network. shape: as written, the batch included."""

    name: str
    shape: tuple[int, ...]
    line: int


@dataclass(frozen=True, eq=False)
class CaffeLayer:
    """One layer, in the form of 2014 and after.

    bottoms, tops: names of values. in_place: it overwrites a blob in the file.
    parameters: the LayerParameter message. weights: float32 arrays as stored.
    line: in the prototxt.
    """

    name: str
    type: str
    bottoms: tuple[str, ...]
    tops: tuple[str, ...]
    parameters: Any
    line: int
    in_place: bool = False
    weights: tuple[NDArray[np.float32], ...] = field(default=(), repr=False)


@dataclass(frozen=True, eq=False)
class CaffeNetwork:
    """A network. outputs: values that no layer reads, in the order of their making; notes: for the report."""

    name: str
    inputs: tuple[CaffeInput, ...]
    layers: tuple[CaffeLayer, ...]
    outputs: tuple[str, ...]
    notes: tuple[str, ...]


def read_network(prototxt: bytes, weights: Mapping[str, LayerWeights], where: str) -> CaffeNetwork:
    """Read a prototxt, and give its layers their weights by name.

    Raises:
        ModelError: a syntax error (with line and column), or a network that is not one: a layer without a name, a
            bottom that nothing computes, a blob that two layers compute, no input.
    """
    from nnkit.caffe.schema import messages

    net = messages.NetParameter()
    parsed = parse_text(prototxt, net, where)
    if net.layer and net.layers:
        raise ModelError(
            "the network mixes `layer` and `layers`",
            where=f"{where}:{max(parsed.lines['layer'][0], parsed.lines['layers'][0])}",
            remedy="write all of them as `layer`, with types in quotes",
        )
    written = net.layer or net.layers
    if not written:
        raise ModelError("the file describes no layers", where=where, remedy="name the deploy prototxt")
    check_layers(sum(max(len(layer.top), 1) for layer in written), where)  # a Slice is one for each output
    check_names(_names(net, written), where)
    lines = parsed.lines["layer" if net.layer else "layers"]
    used = [
        (message, line) for message, line in zip(written, lines, strict=True) if in_deployment(message, net.state)
    ]
    notes = [*_unknown_notes(parsed, where)]
    if len(used) < len(written):
        notes.append(f"{len(written) - len(used)} layers are for training or other uses and are left out")
    layers = []
    for message, line in used:
        parameters = upgraded(message, f"{where}:{line}") if net.layers else message
        layers.append(_layer(parameters, line, where))
    inputs = _declared_inputs(net, where)
    inputs, layers = _input_layers(inputs, layers, where)
    layers, unlabelled = _without_labels(inputs, layers)
    layers, outputs = _named_values(inputs, layers, where)
    layers, outputs, dropped = _without_measuring(layers, outputs)
    notes += unlabelled + dropped
    layers, extra = _with_weights(layers, weights)
    notes += extra
    name = net.name or "network"
    return CaffeNetwork(name, tuple(inputs), tuple(layers), outputs, tuple(notes))


def _names(net: Any, layers: Sequence[Any]) -> Iterator[str]:
    yield from (net.name, *net.input)
    for layer in layers:
        yield from (layer.name, *layer.bottom, *layer.top)


def _layer(message: Any, line: int, where: str) -> CaffeLayer:
    place = f"{where}:{line}"
    name = message.name or (message.top[0] if message.top else "")
    if not name:
        raise ModelError("a layer has neither name nor top", where=place, remedy='write `name: "..."`')
    if not message.type:
        raise ModelError(f"layer '{name}' has no type", where=place, remedy='write `type: "Convolution"` or another')
    if max(len(message.bottom), len(message.top)) > MAX_ENDS:
        raise ModelError(
            f"layer '{name}' has more than {MAX_ENDS} bottoms or tops", where=place, remedy="check the file"
        )
    if any(not blob for blob in (*message.bottom, *message.top)):
        raise ModelError(f"a bottom or top of layer '{name}' has no name", where=place, remedy="name it")
    return CaffeLayer(name, message.type, tuple(message.bottom), tuple(message.top), message, line)


def _unknown_notes(parsed: Parsed, where: str) -> list[str]:
    """One note a name, with the places where it stands."""
    places: dict[str, list[int]] = {}
    for unknown in parsed.unknown:
        places.setdefault(unknown.path, []).append(unknown.line)
    notes = []
    for path, lines in list(places.items())[:_SHOWN_NOTES]:
        shown = ", ".join(str(line) for line in lines[:5]) + (", ..." if len(lines) > 5 else "")
        notes.append(f"unknown field '{path}' is ignored ({where}, line {shown})")
    if len(places) > _SHOWN_NOTES:
        notes.append(f"{len(places) - _SHOWN_NOTES} more unknown fields are ignored")
    return notes


def checked_shape(dims: Sequence[int], what: str, place: str) -> tuple[int, ...]:
    """A declared shape as a tuple.

    Raises:
        ModelError: no or too many dimensions, one below 1, or more than `MAX_VALUES` numbers.
    """
    shape = tuple(int(dim) for dim in dims[: MAX_DIMENSIONS + 1])
    values = 1
    for dim in shape:
        values *= max(dim, 1)
    if not shape or len(shape) > MAX_DIMENSIONS or min(shape) < 1 or values > MAX_VALUES:
        raise ModelError(
            f"{what} has shape {list(shape)}",
            where=place,
            remedy=f"write 1 to {MAX_DIMENSIONS} dimensions of at least 1, at most {MAX_VALUES:,} numbers in all",
        )
    return shape


def _declared_inputs(net: Any, where: str) -> list[CaffeInput]:
    """`input:` with `input_shape` or `input_dim`, as deploy files before 2015 have them."""
    names = list(net.input)
    if net.input_shape:
        shapes = [list(shape.dim[: MAX_DIMENSIONS + 1]) for shape in net.input_shape[: len(names) + 1]]
    else:
        dims = list(net.input_dim[: 4 * len(names) + 1])
        shapes = [dims[i : i + 4] for i in range(0, len(dims), 4)]
    if len(shapes) == 1 and len(names) > 1:
        shapes *= len(names)
    if len(shapes) != len(names) or any(not shape for shape in shapes):
        raise ModelError(
            f"the network declares {len(names)} inputs and {len(shapes)} shapes",
            where=where,
            remedy="write one input_shape (or four input_dim) for each input",
        )
    return [
        CaffeInput(name, checked_shape(shape, f"input '{name}'", where), 0)
        for name, shape in zip(names, shapes, strict=True)
    ]


def _input_layers(
    inputs: list[CaffeInput], layers: list[CaffeLayer], where: str
) -> tuple[list[CaffeInput], list[CaffeLayer]]:
    """Input layers become inputs; layers that read training data are refused."""
    kept = []
    for layer in layers:
        place = f"{where}:{layer.line}"
        if layer.type in _DATA_LAYERS and not layer.bottoms:
            raise ModelError(
                f"layer '{layer.name}' ({layer.type}) reads training data",
                where=place,
                remedy='put `layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 ... } } }` '
                "in its place, or name the deploy prototxt",
            )
        if layer.type != "Input":
            kept.append(layer)
            continue
        shapes = layer.parameters.input_param.shape
        if len(shapes) not in (1, len(layer.tops)) or not layer.tops:
            raise ModelError(
                f"layer '{layer.name}' has {len(layer.tops)} tops and {len(shapes)} shapes",
                where=place,
                remedy="write one `shape` in input_param for each top",
            )
        for index, top in enumerate(layer.tops):
            dims = list(shapes[index if len(shapes) > 1 else 0].dim[: MAX_DIMENSIONS + 1])
            inputs.append(CaffeInput(top, checked_shape(dims, f"input '{top}'", place), layer.line))
    if not inputs:
        raise ModelError(
            "the network has no input",
            where=where,
            remedy='add `layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 ... } } }`',
        )
    return inputs, kept


def _named_values(
    inputs: list[CaffeInput], layers: list[CaffeLayer], where: str
) -> tuple[list[CaffeLayer], tuple[str, ...]]:
    """A name for each value, and the values that nothing reads."""
    last_writer = {blob: index for index, layer in enumerate(layers) for blob in layer.tops}
    overwriter: dict[tuple[str, int], str] = {}  # (blob, version) -> the layer that overwrites it
    versions: Counter[str] = Counter()
    for item in inputs:
        if item.name in versions:
            raise ModelError(f"two inputs are called '{item.name}'", where=where, remedy="rename one")
        versions[item.name] = 0
    for layer in layers:
        for top in layer.tops:
            if top in layer.bottoms:
                overwriter[top, versions[top]] = layer.name
                versions[top] += 1
            elif top not in versions:
                versions[top] = 0
    pool = NamePool(versions)
    fed = {item.name for item in inputs}
    names: dict[tuple[str, int], str] = {}
    for (blob, version), layer_name in overwriter.items():
        wanted = f"{blob}_after_{layer_name}" if blob in fed else f"{blob}_before_{layer_name}"
        names[blob, version + (blob in fed)] = pool.free(wanted)
    current = {item.name: item.name for item in inputs}
    version_of = dict.fromkeys(current, 0)
    unread = dict.fromkeys(current.values())
    layer_names = Counter[str]()
    renamed = []
    for index, layer in enumerate(layers):
        place = f"{where}:{layer.line}"
        for bottom in layer.bottoms:
            if bottom not in current:
                later = last_writer.get(bottom, -1) >= index
                raise ModelError(
                    f"layer '{layer.name}' reads '{bottom}', which "
                    + ("a later layer computes" if later else "nothing computes"),
                    where=place,
                    remedy="put the layers in the order of execution" if later else "correct the name of the bottom",
                )
        bottoms = tuple(current[bottom] for bottom in layer.bottoms)
        for value in bottoms:
            unread.pop(value, None)
        if len(set(layer.tops)) < len(layer.tops):
            raise ModelError(f"layer '{layer.name}' has two tops of one name", where=place, remedy="rename one")
        tops = []
        for top in layer.tops:
            if top in current and top not in layer.bottoms:
                raise ModelError(
                    f"layer '{layer.name}' computes '{top}', which another layer or input computes already",
                    where=place,
                    remedy="give the top another name",
                )
            version_of[top] = version_of[top] + 1 if top in current else 0
            current[top] = names.get((top, version_of[top]), top)
            tops.append(current[top])
            unread[current[top]] = None
        layer_names[layer.name] += 1
        count = layer_names[layer.name]
        name = layer.name if count == 1 else f"{layer.name}_{count}"
        in_place = any(top in layer.bottoms for top in layer.tops)
        renamed.append(replace(layer, name=name, bottoms=bottoms, tops=tuple(tops), in_place=in_place))
    return renamed, tuple(unread)


def _without_labels(inputs: Sequence[CaffeInput], layers: list[CaffeLayer]) -> tuple[list[CaffeLayer], list[str]]:
    """Leave out layers that measure by what training alone has: labels that no layer and no input gives."""
    there = {item.name for item in inputs} | {top for layer in layers for top in layer.tops}
    gone = [layer for layer in layers if _measures(layer) and not there.issuperset(layer.bottoms)]
    left = {id(layer) for layer in gone}
    return [layer for layer in layers if id(layer) not in left], [_left_out(layer) for layer in gone]


def _measures(layer: CaffeLayer) -> bool:
    return layer.type in _MEASURING_LAYERS or layer.type.endswith("Loss")


def _left_out(layer: CaffeLayer) -> str:
    return f"layer '{layer.name}' ({layer.type}) computes nothing for deployment and is left out"


def _without_measuring(
    layers: list[CaffeLayer], outputs: tuple[str, ...]
) -> tuple[list[CaffeLayer], tuple[str, ...], list[str]]:
    """Leave out layers that only measure or swallow: what they alone read does not become an output."""
    gone = [layer for layer in layers if _measures(layer) and all(top in outputs for top in layer.tops)]
    if not gone:
        return layers, outputs, []
    left = {id(layer) for layer in gone}
    kept = [layer for layer in layers if id(layer) not in left]
    tops = {top for layer in gone for top in layer.tops}
    notes = [_left_out(layer) for layer in gone]
    outputs = tuple(name for name in outputs if name not in tops)
    if not outputs:  # the losses were all there was: what they measure is the network's result
        swallowed = {name for layer in gone for name in layer.bottoms}
        read = {name for layer in kept for name in layer.bottoms}
        outputs = tuple(top for layer in kept for top in layer.tops if top in swallowed and top not in read)
    return kept, outputs, notes


def _with_weights(
    layers: list[CaffeLayer], weights: Mapping[str, LayerWeights]
) -> tuple[list[CaffeLayer], list[str]]:
    given = [
        replace(layer, weights=weights[layer.name].arrays) if layer.name in weights else layer for layer in layers
    ]
    extra = sorted(set(weights) - {layer.name for layer in layers})
    if not extra:
        return given, []
    shown = ", ".join(f"'{name}'" for name in extra[:5]) + (", ..." if len(extra) > 5 else "")
    return given, [f"the caffemodel has weights for {len(extra)} layers that the prototxt does not have: {shown}"]
