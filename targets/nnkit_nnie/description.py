"""`segments.json`: what runs where, what each tensor is called, shaped and stored, and how inputs are delivered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nnkit.program import Program
from nnkit_nnie.caffe_pair import CaffePair
from nnkit_nnie.chips import CHIPS
from nnkit_nnie.input_settings import InputSettings
from nnkit_nnie.options import NnieOptions
from nnkit_nnie.segments import Network, NnieSegment


def description(
    network: Network,
    program: Program,
    pair: CaffePair,
    settings: Sequence[InputSettings],
    options: NnieOptions,
    sources: Mapping[int, str],
) -> dict[str, Any]:
    """The file's data. sources: name of the C function of each CPU segment by its index, where there is one."""
    chip = CHIPS[options.chip]
    return {
        "network": program.name,
        "chip": chip.title,
        "nnie": chip.generation,
        "compile_mode": options.compile_mode,
        "inputs": [
            {
                "name": each.name,
                "blob": pair.blobs.get(each.name, each.name),
                "shape": list(each.shape),
                "image_type": each.image_type,
                "norm_type": each.norm_type,
                "mean": list(each.mean),
                "data_scale": each.data_scale,
                "order": each.rgb_order,
            }
            for each in settings
        ],
        "outputs": [_tensor(name, program, pair) for name in program.outputs],
        "segments": [_segment(segment, program, pair, sources) for segment in network.segments],
    }


def _segment(segment: NnieSegment, program: Program, pair: CaffePair, sources: Mapping[int, str]) -> dict[str, Any]:
    return {
        "index": segment.index,
        "runs_on": "nnie" if segment.placement == "npu" else "cpu",
        **({"function": sources[segment.index]} if segment.index in sources else {}),
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


def _tensor(name: str, program: Program, pair: CaffePair) -> dict[str, Any]:
    tensor = program.tensors[name]
    return {
        "name": name,
        "blob": pair.blobs.get(name, name),
        "shape": list(tensor.shape),
        "format": str(tensor.format),
    }
