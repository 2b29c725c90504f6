"""`segments.json`: what runs where, what each tensor is called, shaped and stored, and how inputs are delivered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nnkit.program import Program
from nnkit_nnie.chips import CHIPS
from nnkit_nnie.mapper.caffe_pair import WrittenNames, all_names
from nnkit_nnie.mapper.input_settings import InputSettings
from nnkit_nnie.mapper.network_files import NetworkFiles
from nnkit_nnie.network import Network, NnieSegment
from nnkit_nnie.options import NnieOptions


def description(
    network: Network,
    program: Program,
    written: Sequence[NetworkFiles],
    settings: Sequence[InputSettings],
    options: NnieOptions,
    functions: Mapping[int, str],
) -> dict[str, Any]:
    """The file's data. functions: name of the C function of each CPU segment by its index."""
    chip = CHIPS[options.chip]
    pair = all_names(files.pair for files in written)
    return {
        "network": program.name,
        "chip": chip.title,
        "nnie": chip.generation,
        "compile_mode": options.compile_mode,
        "networks": [_network(files) for files in written],
        "inputs": [_input(each, pair) for each in settings],
        "outputs": [_tensor(name, program, pair) for name in program.outputs],
        "segments": [_segment(segment, program, pair, functions, written) for segment in network.segments],
    }


def _network(files: NetworkFiles) -> dict[str, Any]:
    return {
        **({"name": files.part.name} if files.part.name else {}),
        "prototxt": files.prototxt,
        "caffemodel": files.caffemodel,
        "cfg": files.cfg,
        "wk": files.wk,
        "inputs": [_input(each, files.pair) for each in files.settings],
    }


def _input(each: InputSettings, names: WrittenNames) -> dict[str, Any]:
    return {
        "name": each.name,
        "blob": names.blobs.get(each.name, each.name),
        "shape": list(each.shape),
        "image_type": each.image_type,
        "norm_type": each.norm_type,
        "mean": list(each.mean),
        "data_scale": each.data_scale,
        "order": each.rgb_order,
    }


def network_of(segment: NnieSegment, written: Sequence[NetworkFiles]) -> NetworkFiles | None:
    """The network that a segment's layers are in; None for the warp between two."""
    names = {layer.name for layer in segment.layers}
    return next((f for f in written if names & {layer.name for layer in f.part.network.layers}), None)


def _segment(
    segment: NnieSegment,
    program: Program,
    pair: WrittenNames,
    functions: Mapping[int, str],
    written: Sequence[NetworkFiles],
) -> dict[str, Any]:
    files = network_of(segment, written)
    return {
        "index": segment.index,
        **({"network": files.part.name} if files is not None and files.part.name else {}),
        "runs_on": "nnie" if segment.placement == "npu" else "cpu",
        **({"function": functions[segment.index]} if segment.index in functions else {}),
        "inputs": [_tensor(name, program, pair) for name in segment.inputs],
        "outputs": [_tensor(name, program, pair) for name in segment.outputs],
        "layers": [
            {
                "name": layer.name,
                "type": layer.kind,
                "written_as": list(pair.layers.get(layer.name, ())),
                **({"hp": True} if layer.hp else {}),
                **({"cpu": True} if layer.cpu else {}),
                **({"custom": layer.why_custom} if layer.custom else {}),
            }
            for layer in segment.layers
        ],
    }


def _tensor(name: str, program: Program, pair: WrittenNames) -> dict[str, Any]:
    tensor = program.tensors[name]
    return {
        "name": name,
        "blob": pair.blobs.get(name, name),
        "shape": list(tensor.shape),
        "format": str(tensor.format),
    }
