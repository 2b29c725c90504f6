"""Published Caffe networks, cut to files of less than 1 MiB: seedlings for the fuzzing benchmark.

A network whose two files are too large becomes several seedlings. `<name>_head` has the first layers, as far as their
weights fit, and is a network still. `<name>_cut` has all layers, and the weights of the first ones. Both keep every
byte of what they keep: old blobs, unknown fields, comments. `<name>_thin` has all layers with an eighth of the
channels, down to the detection output, where that leaves a network.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.caffe_corpus import Files, caffemodel

PUBLISHED = {
    "det1": ("mtcnn/det1.prototxt", "mtcnn/det1.caffemodel"),
    "det2": ("mtcnn/det2.prototxt", "mtcnn/det2.caffemodel"),
    "enet": ("enet_cityscapes/enet.prototxt", "enet_cityscapes/enet.caffemodel"),
    "rfb": ("ulfg/RFB-320.prototxt", "ulfg/RFB-320.caffemodel"),
    "res10": ("res10_ssd/res10_300x300_deploy.prototxt", "res10_ssd/res10_300x300_ssd_from_uint8.caffemodel"),
    "squeezenet": ("squeezenet_v10_dc/SqueezeNet_deploy.prototxt", "squeezenet_v10_dc/SqueezeNet_v1.0_dc.caffemodel"),
}
"""Prototxt and caffemodel by name, below `models/` of the folder of real networks."""

_THINNED = ("enet", "res10", "squeezenet")
"""Whose concatenations are thinned as their parts are."""

_ROOM_BYTES = 960 << 10
"""The most bytes of both files together: mutations repeat pieces, and shall not always run into the largest size."""
_VARINT, _LENGTH_DELIMITED, _FIXED_BYTES = 0, 2, {1: 8, 5: 4}
_LAYER_FIELDS = (2, 100)
_TOKEN = re.compile(rb'#[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|[{}]')
_LAYER_KEY = re.compile(rb"\blayers?\s*$")
_OUTPUTS = re.compile(rb"(num_output\s*:\s*)(\d+)")
_LAYER_NAME = re.compile(rb'\bname\s*:\s*"([^"]*)"')


def published(folder: Path) -> list[Files]:
    """The seedlings. folder: of real networks. Raises OSError where a file is missing."""
    found = []
    for name, paths in PUBLISHED.items():
        text, weights = (folder / "models" / path for path in paths)
        files = Files(name, text.read_bytes(), weights.read_bytes())
        if len(files.prototxt) + len(files.caffemodel) <= _ROOM_BYTES:
            found.append(files)
        else:
            found += cut(files, _ROOM_BYTES)
        if name in _THINNED:
            found.append(thinned(files))
    return found


def thinned(files: Files) -> Files:
    """The network with an eighth of the channels; layers of fewer than 32 stay as they are."""
    from nnkit.caffe.weights import read_caffemodel

    def fewer(match: re.Match[bytes]) -> bytes:
        return match.group(1) + b"%d" % _fewer(int(match.group(2)))

    weights = read_caffemodel(files.caffemodel, files.name)
    arrays = {layer: [_thin_array(array) for array in each.arrays] for layer, each in weights.items()}
    return Files(f"{files.name}_thin", _OUTPUTS.sub(fewer, files.prototxt), caffemodel(arrays))


def _thin_array(array: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.ascontiguousarray(array[tuple(slice(_fewer(side)) for side in array.shape)])


def _fewer(channels: int) -> int:
    return channels // 8 if channels >= 32 and channels % 8 == 0 else channels


def cut(files: Files, room_bytes: int) -> list[Files]:
    """The two seedlings of a network that is larger than `room_bytes`."""
    room = room_bytes - len(files.prototxt)
    records = list(_records(files.caffemodel))
    kept = bytearray()
    lacking: set[bytes] = set()
    for number, record in records:
        if not lacking and len(kept) + len(record) <= room:
            kept += record
        elif number in _LAYER_FIELDS:
            lacking |= _names(number, record)
    weights = bytes(kept)
    head = b"".join(_until(files.prototxt, lacking))
    return [Files(f"{files.name}_head", head, weights), Files(f"{files.name}_cut", files.prototxt, weights)]


def _records(message: bytes) -> Iterator[tuple[int, bytes]]:
    """The fields of a protobuf message, in order: number, and all bytes of the field with its key."""
    at = 0
    while at < len(message):
        begin = at
        key, at = _varint(message, at)
        kind = key & 7
        if kind == _VARINT:
            _, at = _varint(message, at)
        elif kind == _LENGTH_DELIMITED:
            size, at = _varint(message, at)
            at += size
        else:
            at += _FIXED_BYTES[kind]
        yield key >> 3, message[begin:at]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if not data[at - 1] & 0x80:
            return value, at


def _names(number: int, record: bytes) -> set[bytes]:
    """The name of the layer in one field of a caffemodel, where it has weights."""
    from nnkit.caffe.schema import messages

    file = messages.WeightFile.FromString(record)
    layers = file.layer if number == _LAYER_FIELDS[1] else file.layers
    return {layer.name.encode() for layer in layers if layer.blobs}


def _until(text: bytes, lacking: set[bytes]) -> Iterator[bytes]:
    """The text up to the first layer whose weights are lacking."""
    depth = begin = start = 0
    for token in _TOKEN.finditer(text):
        if token.group() == b"{":
            if depth == 0:
                key = _LAYER_KEY.search(text, begin, token.start())
                start = key.start() if key else -1
            depth += 1
        elif token.group() == b"}":
            depth -= 1
            if depth == 0:
                name = _LAYER_NAME.search(text, start, token.end()) if start >= 0 else None
                if name is not None and name.group(1) in lacking:
                    return
                yield text[begin : token.end()]
                begin = token.end()
