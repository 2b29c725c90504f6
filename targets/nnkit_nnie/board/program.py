"""`board/main.c` and what it needs: features of a list of images, time over random inputs, sizes of memory.

The SDK's part (`nnkit_nnie.c`) and preprocessing (`nnkit_preprocess.c`) are the same for every network; the Makefile
names the chip's cross compiler and the sources, those of the CPU segments included.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import nnkit
from nnkit.c.sources import tidy_source
from nnkit.c.text import identifier
from nnkit.cpu_segments import SegmentSource
from nnkit.generated import packaged_text
from nnkit.inputs import image_inputs
from nnkit.preprocess import Preprocess
from nnkit.preprocess.c_settings import preprocess_initialiser, preprocess_sources
from nnkit.target import Deployment
from nnkit_nnie.board.run_c import BoardTensor, board_tensors
from nnkit_nnie.chips import Chip
from nnkit_nnie.layer_kinds import ROI_KINDS
from nnkit_nnie.lowered import NnieLowered
from nnkit_nnie.mapper.caffe_pair import WrittenNames
from nnkit_nnie.mapper.cfg import environment
from nnkit_nnie.mapper.input_settings import InputSettings
from nnkit_nnie.mapper.network_files import NetworkFiles
from nnkit_nnie.network import Network

_SDK_FILES = ("nnkit_nnie.h", "nnkit_nnie.c")


@dataclass(frozen=True)
class BoardInput:
    """An input of the program. how: fields of its `nnkit_preprocess`; empty where it is made from no pictures.

    means, scales: C of what makes numbers of pixels, by channel, where the board and not the chip does that.
    """

    tensor: BoardTensor
    how: str
    channels: int
    means: str = ""
    scales: str = ""


def board_program(
    deployment: Deployment[NnieLowered],
    written: Sequence[NetworkFiles],
    names: WrittenNames,
    settings: Sequence[InputSettings],
    chip: Chip,
    stem: str,
) -> dict[str, str]:
    """The files by name. names: of layers and blobs, of all networks."""
    function = identifier(stem)
    network, cpu_code = deployment.lowered.network, deployment.lowered.cpu_code
    program, pictures = deployment.program, image_inputs(deployment.recipe, network.graph.model)
    tensors = board_tensors(network, program, names, settings)
    folders = sorted(source.name for source in cpu_code.values())
    sources = ["main.c", *_c_files(_SDK_FILES), *_c_files(preprocess_sources()), f"{function}_run.c"]
    values = {
        "name": stem,
        "version": nnkit.__version__,
        "function": function,
        "prefix": function.upper(),
        "pictures": [_input(tensors[each.name], each, pictures.get(each.name)) for each in settings],
        "outputs": [tensors[name] for name in program.outputs],
        "wk_files": [files.wk for files in written],
        "core": 0,
        "max_boxes": _max_boxes(network),
        "arena_bytes": sum(source.arena_bytes for source in cpu_code.values()),
        "weight_bytes": sum(source.weight_bytes for source in cpu_code.values()),
        "chip": chip,
        "sources": [*sources, *_segment_files(cpu_code)],
        "include_folders": [f"../cpu/{folder}" for folder in folders],
    }
    env = environment()
    texts = {name: packaged_text("nnkit_nnie", "c", name) for name in _SDK_FILES} | preprocess_sources()
    return texts | {
        "main.c": tidy_source(env, "main.c.j2", values),
        "Makefile": tidy_source(env, "Makefile.j2", values),
    }


def _input(tensor: BoardTensor, setting: InputSettings, given: Preprocess | None) -> BoardInput:
    if given is None or tensor.frame or len(setting.shape) != 4:
        return BoardInput(tensor, "", 1)
    how = preprocess_initialiser(given, setting.shape[2], setting.shape[3])
    if tensor.is_pixels:
        return BoardInput(tensor, how, given.channels)
    means, scales = (
        ", ".join(repr(float(value)) for value in values * (given.channels if len(values) == 1 else 1))
        for values in (given.mean, given.scale)
    )
    return BoardInput(tensor, how, given.channels, means, scales)


def _max_boxes(network: Network) -> int:
    """Most regions that a ROI layer of the NNIE gets."""
    layers = [layer for layer in network.layers if layer.kind in ROI_KINDS and layer.placement == "npu"]
    return max((network.graph.shape(layer.inputs[1])[0] for layer in layers), default=0)


def _c_files(names: Sequence[str] | Mapping[str, str]) -> list[str]:
    return [name for name in names if name.endswith(".c")]


def _segment_files(cpu_code: Mapping[int, SegmentSource]) -> list[str]:
    """The C of the CPU segments; of kernels that several have, the first copy."""
    files: dict[str, str] = {}
    for source in sorted(cpu_code.values(), key=lambda each: each.name):
        for name in _c_files(source.files):
            files.setdefault(name, f"../cpu/{source.name}/{name}")
    return list(files.values())
