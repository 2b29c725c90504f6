"""Compilation by the vendor's compiler: Top MLIR -> lowered MLIR -> final MLIR -> bmodel or cvimodel.

From the lowered program on, `layer_group/injection.py` runs it: with the compiler's own groups or with given ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from nnkit.calibrate.stats import ValueRange
from nnkit.errors import UsageError
from nnkit_tpu.batch import with_batch
from nnkit_tpu.chip_forms import Written, with_copies
from nnkit_tpu.chips import CV_CHIPS, chip_named
from nnkit_tpu.kept_apart import kept_apart
from nnkit_tpu.layer_group.audit import Audit
from nnkit_tpu.layer_group.injection import LoweredProgram, Outcome, compile_groups
from nnkit_tpu.program import Mode, TpuGraph
from nnkit_tpu.tables import calibration_table, qtable
from nnkit_tpu.toolchain import Toolchain, run_tpuc_opt
from nnkit_tpu.top_mlir import PixelInput, TopMlir, module_name, top_mlir
from nnkit_tpu.weights_file import write_npz
from nnkit_tpu.windows_in_front import windows_in_front

_NAME = "net"
TOP_MLIR, TOP_WEIGHTS = f"{_NAME}.mlir", f"{_NAME}_top_weights.npz"
TABLE, QTABLE = f"{_NAME}.cal", f"{_NAME}.qtable"
_SIMPLER_MLIR = f"{_NAME}_simpler.mlir"
_LOWERED_MLIR, _LOWERED_WEIGHTS = f"{_NAME}_lowered.mlir", f"{_NAME}_lowered_weights.npz"
_READY_MLIR = f"{_NAME}_ready.mlir"


@dataclass(frozen=True)
class CompileOptions:
    """quant_input, quant_output: the model's inputs and outputs are stored integers, not real numbers.

    fuse_preprocess: by input, those that the model takes as pixels. model_version: of a cvimodel.
    batch: images at a time. zero_points: values have these (`asymmetric`, as the compiler calls it).
    """

    chip: str
    mode: Mode = "INT8"
    quant_input: bool = False
    quant_output: bool = False
    cores: int = 1
    fuse_preprocess: Mapping[str, PixelInput] = field(default_factory=dict)
    model_version: str = "latest"
    batch: int = 1
    zero_points: bool = False

    @property
    def pixels_as_built(self) -> dict[str, dict[str, Any]]:
        """As the artifact's description has them."""
        return {name: asdict(each) for name, each in self.fuse_preprocess.items()}


@dataclass(frozen=True, eq=False)
class LoweredFiles:
    """What the compiler lowered a network to. mlir, weights: right after lowering, where integers can be read.

    ready: the same after the passes that order ops. locations: the compiler's name of each tensor; for an input that
    is taken as pixels, that of the pixels.
    """

    mlir: Path
    weights: Path
    ready: LoweredProgram
    locations: Mapping[str, str]


@dataclass(frozen=True)
class Compiled:
    """Files in the build's folder: the model, and the compiler's intermediate stages with their weights.

    audit, set_aside: of the groups, as in `Outcome`. overwritten: values that a model of several parts gives on the
    cv18xx in another than its last, where the later parts may write over them.
    """

    model: Path
    lowered_mlir: Path
    lowered_weights: Path
    locations: Mapping[str, str]
    audit: Audit | None
    set_aside: str
    overwritten: frozenset[str] = frozenset()


def lower_graph(
    toolchain: Toolchain,
    graph: TpuGraph,
    options: CompileOptions,
    folder: Path,
    *,
    ranges: Mapping[str, ValueRange] | None = None,
    modes: Mapping[str, str] | None = None,
) -> LoweredFiles:
    """Top MLIR, weights and tables into `folder`, which exists, and the compiler's passes before it forms groups.

    ranges: for INT8, of every tensor. modes: other precisions, by value.

    Raises UsageError for a chip or mode that does not exist, ModelError for missing ranges, ToolError from the
    compiler.
    """
    _check(options)
    sources = write_sources(graph, options, folder, ranges=ranges, modes=modes)
    integers = options.mode == "INT8"
    asymmetric = f"asymmetric={options.zero_points}"
    calibration = [f"--import-calibration-table=file={TABLE} {asymmetric}"] if integers else []
    table = f"qtable={QTABLE} " if modes else ""
    # A call of its own: with the table read in the same process, the compiler crashes on what it simplifies away.
    simplify = [
        *(TOP_MLIR, "--init", "--struct-optimize", "--shape-infer", "--canonicalize", "--extra-optimize"),
        *("--deinit", "-o", _SIMPLER_MLIR),
    ]
    run_tpuc_opt(toolchain, simplify, folder, log_name="simplify.log", what="simplifying the network")
    lower = [
        *(_SIMPLER_MLIR, "--init"),
        f"--processor-assign=chip={options.chip} mode={options.mode} num_device=1 num_core={options.cores} "
        "addr_mode=auto high_precision=False",
        *calibration,
        "--processor-top-optimize",
        *_fusion_of_preprocessing(options),
        f"--convert-top-to-tpu={table}weightFileName={_LOWERED_WEIGHTS} {asymmetric} doWinograd=False "
        "q_group_size=0 q_symmetric=False matmul_perchannel=False gelu_mode=normal",
        *("--canonicalize", "--weight-fold", "-o", _LOWERED_MLIR),
    ]
    run_tpuc_opt(toolchain, lower, folder, log_name="lower.log", what="lowering the network", in_integers=integers)
    order = [
        *(_LOWERED_MLIR, "--init"),
        f"--strip-io-quant=quant_input={options.quant_input} quant_output={options.quant_output}",
        *("--processor-tpu-optimize", "--dev-parallel", "--weight-reorder", "--subnet-divide=dynamic=False"),
        *("--op-reorder", "--topo-sort", "--deinit", "-o", _READY_MLIR),
    ]
    what = "ordering the lowered network"
    run_tpuc_opt(toolchain, order, folder, log_name="order.log", what=what, in_integers=integers)
    ready = replace(
        LoweredProgram.read(folder, _READY_MLIR, module_name(graph), chip_named(options.chip), options.mode),
        model_version=options.model_version,
    )
    names = model_names(sources.locations, options)
    if not (folder / _LOWERED_WEIGHTS).exists():  # a network without weights
        np.savez(folder / _LOWERED_WEIGHTS)
    return LoweredFiles(folder / _LOWERED_MLIR, folder / _LOWERED_WEIGHTS, ready, names)


def model_names(locations: Mapping[str, str], options: CompileOptions) -> dict[str, str]:
    """The names by which the model knows its tensors; the compiler has one of its own for pixels."""
    return {name: f"{at}_raw" if name in options.fuse_preprocess else at for name, at in locations.items()}


def write_sources(
    graph: TpuGraph,
    options: CompileOptions,
    folder: Path,
    *,
    ranges: Mapping[str, ValueRange] | None = None,
    modes: Mapping[str, str] | None = None,
) -> TopMlir:
    """What the compiler reads: Top MLIR, weights, calibration table (INT8) and qtable (where `modes` are given)."""
    written = with_copies(Written(graph, ranges, modes), options.chip, options.mode)
    written = replace(written, graph=with_batch(written.graph, options.batch))
    if options.chip not in CV_CHIPS:
        in_front = replace(written, graph=windows_in_front(written.graph))
        written = kept_apart(in_front, options.chip, options.mode)
    graph, ranges, modes = written.graph, written.ranges, written.modes
    top = top_mlir(graph, TOP_WEIGHTS, options.fuse_preprocess)
    (folder / TOP_MLIR).write_text(top.text, encoding="utf-8")
    write_npz(folder / TOP_WEIGHTS, top.weights)
    if options.mode == "INT8":
        (folder / TABLE).write_text(
            calibration_table(graph, ranges or {}, exact=options.zero_points), encoding="utf-8"
        )
    if modes:
        (folder / QTABLE).write_text(qtable(graph, modes), encoding="utf-8")
    return top


def compile_graph(
    toolchain: Toolchain,
    graph: TpuGraph,
    options: CompileOptions,
    folder: Path,
    *,
    ranges: Mapping[str, ValueRange] | None = None,
    modes: Mapping[str, str] | None = None,
    search: bool = True,
) -> Compiled:
    """Compile in `folder`, which exists, with the compiler's own groups.

    search: as in `compile_groups`. Other arguments, errors: `lower_graph`.
    """
    lowered = lower_graph(toolchain, graph, options, folder, ranges=ranges, modes=modes)
    return write_model(lowered, compile_groups(toolchain, lowered.ready, keep=folder, search=search), options, folder)


def write_model(lowered: LoweredFiles, outcome: Outcome, options: CompileOptions, folder: Path) -> Compiled:
    """The model file of one outcome into `folder`."""
    model = folder / model_file(options.chip)
    model.write_bytes(outcome.model)
    return Compiled(
        *(model, lowered.mlir, lowered.weights, lowered.locations, outcome.audit, outcome.set_aside),
        overwritten=_overwritten(lowered) if options.chip in CV_CHIPS else frozenset(),
    )


def _overwritten(lowered: LoweredFiles) -> frozenset[str]:
    written = {op.output for function in lowered.ready.functions[:-1] for op in function.graph.ops}
    return frozenset(name for name, at in lowered.locations.items() if at in written)


def model_file(chip: str) -> str:
    """The name of a chip's model file."""
    return f"{_NAME}.{'cvimodel' if chip in CV_CHIPS else 'bmodel'}"


def _fusion_of_preprocessing(options: CompileOptions) -> list[str]:
    """The compiler's pass, for all pixel inputs alike."""
    formats = sorted({pixels.pixel_format for pixels in options.fuse_preprocess.values()})
    if not formats:
        return []
    return [f"--fuse-preprocess=mode={options.mode} customization_format={formats[0]} align=False"]


def _check(options: CompileOptions) -> None:
    allowed = ("INT8", "BF16") if chip_named(options.chip).is_cv else ("INT8", "F16", "BF16", "F32")
    if options.mode not in allowed:
        raise UsageError(f"{options.chip} has no {options.mode}", remedy=f"one of {', '.join(allowed)}")
    formats = sorted({pixels.pixel_format for pixels in options.fuse_preprocess.values()})
    if len(formats) > 1:
        raise UsageError(
            f"inputs take different pixels ({', '.join(formats)})",
            remedy="the compiler fuses the preprocessing of one kind of pixels only",
        )
