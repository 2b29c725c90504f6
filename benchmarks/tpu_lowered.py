"""Networks of the benchmark, lowered by the vendor's compiler up to where it would form groups.

Ranges of the calibration table are all alike: they decide the values, not the plan.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import onnx

from nnkit.calibrate.stats import ValueRange
from nnkit.importers.onnx_importer import import_onnx
from nnkit_tpu.compile import CompileOptions, lower_graph
from nnkit_tpu.layer_group.injection import LoweredProgram
from nnkit_tpu.program import TpuGraph, TpuSlice, TpuTensor
from nnkit_tpu.toolchain import Toolchain

RANGE = ValueRange(-4.0, 4.0, -4.0, 4.0)


def tpu_graph(proto: onnx.ModelProto, name: str, folder: Path) -> TpuGraph:
    """The network's ops after fusion."""
    from nnkit_tpu.lowering import lower

    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.onnx"
    onnx.save(proto, path)
    return lower(import_onnx(path).model, name)


def batched(graph: TpuGraph, images: int) -> TpuGraph:
    """The graph with `images` at once instead of one."""
    tensors = {
        name: TpuTensor(name, (tensor.shape[0] * images, *tensor.shape[1:]), tensor.format)
        for name, tensor in graph.tensors.items()
    }
    ops = tuple(
        replace(op, ends=(images, *op.ends[1:])) if isinstance(op, TpuSlice) and op.ends[0] == 1 else op
        for op in graph.ops
    )
    return TpuGraph(graph.name, tensors, ops, graph.inputs, graph.outputs)


def lowered_program(toolchain: Toolchain, graph: TpuGraph, options: CompileOptions, folder: Path) -> LoweredProgram:
    """The compiler's program before it forms groups; its files go to `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    ranges = dict.fromkeys(graph.tensors, RANGE)
    return lower_graph(toolchain, graph, options, folder, ranges=ranges).ready
