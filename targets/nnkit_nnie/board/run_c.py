"""`board/<name>_run.c`: C that runs all segments in order, with the NNIE's part behind one function."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import nnkit
from nnkit.c.sources import tidy_source
from nnkit.c.text import float32_literal, identifier
from nnkit.generated import packaged_text
from nnkit.preprocess import Preprocess
from nnkit.program import Program
from nnkit_nnie.gfpq.quantize import PIXELS
from nnkit_nnie.mapper.caffe_pair import WrittenNames
from nnkit_nnie.mapper.cfg import environment
from nnkit_nnie.mapper.input_settings import NONE, InputSettings
from nnkit_nnie.network import Network, NnieSegment

_FORWARD = "nnkit_nnie_forward.h"
_FRAMES = {"yvu420sp": "420", "yvu422sp": "422"}
_SIXTHS = {"": 6, "420": 3, "422": 4}
"""Sixths of the bytes of planar pixels that an image takes."""


@dataclass(frozen=True)
class BoardTensor:
    """A tensor that crosses a segment's border, as the template uses it.

    is_float: made by the CPU. is_pixels: an image of a network, 8 bits where the NNIE reads it. Neither: S20.12.

    symbol: C expression of its values. buffer: C name of its own, also the stem of its converted copy's.
    means, scale: C of what the chip does to an image, (x - mean of the channel) * scale, for a CPU segment that reads
    it too; empty for raw pixels.
    frame: "420" or "422" where the image comes as a camera frame of that chroma; empty for planar pixels. A CPU
    segment gets the frame as pixels, in the order `rgb` or the reverse. size: height and width of the image, in C.
    """

    name: str
    blob: str
    symbol: str
    buffer: str
    elements: int
    chw: str
    is_float: bool
    is_pixels: bool = False
    source: str = ""
    means: str = ""
    scale: str = ""
    channels: int = 1
    frame: str = ""
    rgb: bool = False
    size: str = ""

    @property
    def input_bytes(self) -> int:
        """Bytes of an image as the board gets it."""
        return self.elements * _SIXTHS[self.frame] // 6


@dataclass(frozen=True)
class BoardSegment:
    """One step. number: among the NNIE's. conversions: tensors it reads in the other format than they are in."""

    index: int
    number: int
    function: str
    call: str
    inputs: tuple[BoardTensor, ...]
    outputs: tuple[BoardTensor, ...]
    conversions: tuple[BoardTensor, ...] = field(default=())


def board_sources(
    network: Network,
    program: Program,
    pair: WrittenNames,
    settings: Sequence[InputSettings],
    functions: Mapping[int, str],
    stem: str,
    compiled: Sequence[str] = (),
) -> dict[str, str]:
    """The sources by file name.

    compiled: the file of the compiled network of each NNIE segment, where there are several.
    """
    function = identifier(stem)
    tensors = board_tensors(network, program, pair, settings)
    crossing = [t for name, t in tensors.items() if name not in program.inputs]
    segments: list[BoardSegment] = []
    converted: dict[str, BoardTensor] = {}
    number = 0
    for segment in network.segments:
        made = _segment(segment, number, functions, tensors, converted)
        converted.update({tensor.name: tensor for tensor in made.conversions})
        number += segment.placement == "npu"
        segments.append(made)
    outputs = [tensors[name] for name in program.outputs]
    values = {
        "name": stem,
        "version": nnkit.__version__,
        "function": function,
        "prefix": function.upper(),
        "guard": f"{function.upper()}_RUN_H",
        "inputs": [tensors[name] for name in program.inputs],
        "outputs": outputs,
        "tensors": crossing,
        "converted": list(converted.values()),
        "segments": segments,
        "nnie_segments": number,
        "compiled": compiled,
        "uses_to_float": any(not t.is_float and not t.is_pixels for t in (*converted.values(), *outputs)),
        "uses_to_fixed": any(t.is_float and not t.is_pixels for t in converted.values()),
        "uses_to_pixels": any(t.is_float and t.is_pixels for t in converted.values()),
        "uses_frames": any(t.frame for t in tensors.values()),
        "uses_from_frame": any(t.frame for t in converted.values()),
        "uses_from_pixels": any(not t.is_float and t.is_pixels and not t.frame for t in converted.values()),
        "uses_normalize": any(not t.is_float and t.is_pixels and t.scale for t in converted.values()),
    }
    env = environment()
    return {
        _FORWARD: packaged_text("nnkit_nnie", "c", _FORWARD),
        f"{function}_run.h": tidy_source(env, "run.h.j2", values),
        f"{function}_run.c": tidy_source(env, "run.c.j2", values),
    }


def frames_on_the_cpu(network: Network, settings: Sequence[InputSettings]) -> tuple[str, ...]:
    """Notes on camera frames that a CPU segment reads too, whose colours two converters make."""
    read = {name for segment in network.segments if segment.placement == "cpu" for name in segment.inputs}
    return tuple(
        f"input {each.name}: the CPU reads this camera frame too, and board/ converts it by ITU-R BT.601; the chip's "
        "own coefficients are not published: compare both on the board"
        for each in settings
        if each.name in read and each.image_type in _FRAMES
    )


def frames_as_they_come(settings: Sequence[InputSettings], pictures: Mapping[str, Preprocess]) -> tuple[str, ...]:
    """Notes on camera frames of which the recipe crops, turns or resizes the pictures. pictures: by input."""
    notes = []
    for each in settings:
        given = pictures.get(each.name)
        if each.image_type not in _FRAMES or given is None:
            continue
        resize = "letterbox" if given.resize is not None and given.resize.letterbox else "resize"
        steps = {"crop": given.crop is not None, "flip": given.flip, resize: given.resize is not None}
        done = ", ".join(step for step, needed in steps.items() if needed)
        if done:
            notes.append(
                f"input {each.name}: the board takes camera frames of {each.shape[3]} x {each.shape[2]} as they are; "
                f"what the recipe does to pictures before ({done}) is for what feeds it to do"
            )
    return tuple(notes)


def board_tensors(
    network: Network, program: Program, pair: WrittenNames, settings: Sequence[InputSettings]
) -> dict[str, BoardTensor]:
    """The network's inputs and what segments give, by value name."""
    images = {each.name: each for each in settings if each.is_image}
    made = {name for segment in network.segments if segment.placement == "cpu" for name in segment.outputs}
    names = [*program.inputs, *dict.fromkeys(n for segment in network.segments for n in segment.outputs)]
    tensors = {}
    for index, name in enumerate(names):
        tensor = program.tensors[name]
        blob = pair.blobs.get(name, name)
        word = re.sub(r"[^a-z0-9]+", "_", blob.lower()).strip("_")
        is_input = name in program.inputs
        buffer = f"t{index}_{word}"
        symbol = f"((const int32_t *)inputs[{index}])" if is_input else buffer
        tensors[name] = BoardTensor(
            name,
            blob,
            symbol,
            buffer,
            tensor.elements,
            ", ".join(str(side) for side in _chw(tensor.shape)),
            is_float=name in made,
            is_pixels=name in images or tensor.format == PIXELS,
            source=f"inputs[{index}]" if is_input else "",
            **_normalization(images.get(name)),
            **_frame(images.get(name)),
        )
    return tensors


def _normalization(image: InputSettings | None) -> dict[str, Any]:
    """`means`, `scale` and `channels` of an image that the chip normalises."""
    if image is None or image.norm_type == NONE:
        return {}
    means = image.mean or (0.0,) * image.shape[1]
    return {
        "means": ", ".join(float32_literal(value) for value in means),
        "scale": float32_literal(image.data_scale),
        "channels": len(means),
    }


def _frame(image: InputSettings | None) -> dict[str, Any]:
    """`frame`, `rgb` and `size` of an image that a camera gives."""
    if image is None or image.image_type not in _FRAMES:
        return {}
    height, width = image.shape[2:]
    return {"frame": _FRAMES[image.image_type], "rgb": image.rgb_order == "RGB", "size": f"{height}, {width}"}


def _chw(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Channels, height, width; of regions (four dimensions) all channels one after another."""
    if len(shape) > 3:
        return shape[0] * shape[1], shape[2], shape[3]
    padded = (*shape, 1, 1, 1)
    return padded[0], padded[1], padded[2]


def _segment(
    segment: NnieSegment,
    number: int,
    functions: Mapping[int, str],
    tensors: Mapping[str, BoardTensor],
    converted: Mapping[str, BoardTensor],
) -> BoardSegment:
    reads_float = segment.placement == "cpu"
    inputs, conversions = [], []
    for name in segment.inputs:
        tensor = tensors[name]
        at = tensor.source or tensor.symbol
        if tensor.is_float != reads_float:
            at = f"{tensor.buffer}_converted"
            if name not in converted:
                conversions.append(tensor)
        inputs.append(replace(tensor, source=at))
    outputs = tuple(tensors[name] for name in segment.outputs)
    function = functions.get(segment.index, "")
    call = ""
    if function:
        arguments = [each.source for each in inputs] + [each.symbol for each in outputs]
        call = f"{function}_run({', '.join(arguments)});"
    return BoardSegment(segment.index, number, function, call, tuple(inputs), outputs, tuple(conversions))
