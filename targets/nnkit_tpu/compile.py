"""Compilation by the vendor's compiler: Top MLIR -> lowered MLIR -> final MLIR -> bmodel or cvimodel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nnkit.calibrate.stats import ValueRange
from nnkit.errors import UsageError
from nnkit_tpu.program import Mode, TpuGraph
from nnkit_tpu.tables import calibration_table, qtable
from nnkit_tpu.toolchain import Toolchain, run_tpuc_opt
from nnkit_tpu.top_mlir import top_mlir

BM_CHIPS = ("bm1684x", "bm1688")
CV_CHIPS = ("cv183x", "cv182x", "cv181x", "cv180x")
_NAME = "net"


@dataclass(frozen=True)
class CompileOptions:
    """quant_input, quant_output: the model's inputs and outputs are stored integers, not real numbers."""

    chip: str
    mode: Mode = "INT8"
    quant_input: bool = False
    quant_output: bool = False
    cores: int = 1


@dataclass(frozen=True)
class Compiled:
    """Files in the build's folder: the model, and the compiler's intermediate stages with their weights."""

    model: Path
    lowered_mlir: Path
    lowered_weights: Path
    final_mlir: Path
    locations: Mapping[str, str]


def compile_graph(
    toolchain: Toolchain,
    graph: TpuGraph,
    options: CompileOptions,
    folder: Path,
    *,
    ranges: Mapping[str, ValueRange] | None = None,
    modes: Mapping[str, str] | None = None,
) -> Compiled:
    """Compile in `folder`, which exists. ranges: for INT8, of every tensor. modes: other precisions, by value.

    Raises UsageError for a chip or mode that does not exist, ModelError for missing ranges, ToolError from the
    compiler.
    """
    _check(options)
    mode = options.mode
    top = top_mlir(graph, f"{_NAME}_top_weights.npz")
    (folder / f"{_NAME}.mlir").write_text(top.text, encoding="utf-8")
    np.savez(folder / f"{_NAME}_top_weights.npz", **top.weights)  # type: ignore[arg-type]
    lower = [
        *(f"{_NAME}.mlir", "--init", "--struct-optimize", "--shape-infer", "--canonicalize", "--extra-optimize"),
        f"--processor-assign=chip={options.chip} mode={mode} num_device=1 num_core={options.cores} addr_mode=auto "
        "high_precision=False",
    ]
    if mode == "INT8":
        (folder / f"{_NAME}.cal").write_text(calibration_table(graph, ranges or {}), encoding="utf-8")
        lower.append(f"--import-calibration-table=file={_NAME}.cal asymmetric=False")
    table = ""
    if modes:
        (folder / f"{_NAME}.qtable").write_text(qtable(graph, modes), encoding="utf-8")
        table = f"qtable={_NAME}.qtable "
    lower += [
        "--processor-top-optimize",
        f"--convert-top-to-tpu={table}weightFileName={_NAME}_lowered_weights.npz asymmetric=False doWinograd=False "
        "q_group_size=0 q_symmetric=False matmul_perchannel=False gelu_mode=normal",
        *("--canonicalize", "--weight-fold", "-o", f"{_NAME}_lowered.mlir"),
    ]
    run_tpuc_opt(toolchain, lower, folder, log_name="lower.log", what="lowering the network")
    place = [
        *(f"{_NAME}_lowered.mlir", "--init"),
        f"--strip-io-quant=quant_input={options.quant_input} quant_output={options.quant_output}",
        *("--processor-tpu-optimize", "--dev-parallel", "--weight-reorder", "--subnet-divide=dynamic=False"),
        *("--op-reorder", "--topo-sort"),
        "--layer-group=opt=2 group_by_cores=auto compress_mode=none debugger=0 disable_group_overlap=false "
        "lgcache=true",
        *("--core-parallel", "--after-layergroup-weight-reorder", "--address-assign", "--deinit"),
        *("-o", "final.mlir"),
    ]
    run_tpuc_opt(toolchain, place, folder, log_name="place.log", what="grouping and placing layers")
    model = f"{_NAME}.{'cvimodel' if options.chip in CV_CHIPS else 'bmodel'}"
    generate = [
        *("final.mlir", "--init"),
        f"--codegen=model_file={model} embed_debug_info=False model_version=latest",
        *("--deinit", "-o", "/dev/null"),
    ]
    run_tpuc_opt(toolchain, generate, folder, log_name="codegen.log", what="generating the model file")
    return Compiled(
        folder / model,
        folder / f"{_NAME}_lowered.mlir",
        folder / f"{_NAME}_lowered_weights.npz",
        folder / "final.mlir",
        top.locations,
    )


def _check(options: CompileOptions) -> None:
    if options.chip not in (*BM_CHIPS, *CV_CHIPS):
        raise UsageError(f"unknown chip {options.chip!r}", remedy=f"one of {', '.join((*BM_CHIPS, *CV_CHIPS))}")
    allowed = ("INT8", "BF16") if options.chip in CV_CHIPS else ("INT8", "F16", "BF16", "F32")
    if options.mode not in allowed:
        raise UsageError(f"{options.chip} has no {options.mode}", remedy=f"one of {', '.join(allowed)}")
