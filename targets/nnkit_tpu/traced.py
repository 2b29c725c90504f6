"""The model that gives every inner value, compiled from the same sources as the released one, without a search.

The compiler's code for a layer in one of its groups can be wrong, as that of scaled keys is in attention over
channels (DaViT) on the cv18xx. In the released model a calibration input shows it (`emit.py`); here the same input
does, layer by layer, and the model without groups stands in where fewer values are wrong in that.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from nnkit.calibrate.stats import ValueRange
from nnkit.errors import ToolError
from nnkit.program import Program
from nnkit.target import RunResult
from nnkit.verify.artifact import compare_artifact
from nnkit_tpu.artifact_files import TRACED
from nnkit_tpu.chips import CV_CHIPS
from nnkit_tpu.compile import Compiled, CompileOptions, lower_graph, write_model
from nnkit_tpu.grouping import QUICK_CUTS
from nnkit_tpu.layer_group.injection import compile_groups, compile_without_groups
from nnkit_tpu.layer_group.report import audit_report
from nnkit_tpu.model_run import run_model_inside
from nnkit_tpu.options import TpuOptions
from nnkit_tpu.program import TpuGraph, TpuReshape
from nnkit_tpu.runner import ChipModelRunner, traced_result
from nnkit_tpu.thresholds import scaled_by_their_readers
from nnkit_tpu.toolchain import Toolchain

Inputs = Mapping[str, NDArray[Any]]
_OTHERWISE = "layers are computed otherwise"


@dataclass(frozen=True, eq=False)
class Tracing:
    """What the traced model is made of. graph: of `program`. how: as the released one is compiled. ranges, modes: of
    the calibration table and the qtable. given: a stored calibration input; None where there is none."""

    program: Program
    graph: TpuGraph
    options: TpuOptions
    how: CompileOptions
    ranges: Mapping[str, ValueRange] | None
    modes: Mapping[str, str]
    given: Inputs | None

    def compiled(self, toolchain: Toolchain, folder: Path) -> Compiled:
        """The model, in a folder that exists; audited as the released one. Raises ToolError where it fails."""
        how = replace(self.how, quant_output=False, cores=1, batch=1)
        lowered = lower_graph(toolchain, self._of_every_value(), how, folder, ranges=self.ranges, modes=self.modes)
        quick = write_model(lowered, compile_groups(toolchain, lowered.ready, keep=folder, search=False), how, folder)
        wrong = self._wrong_values(toolchain, quick)
        if not wrong:
            return quick
        (folder / "alone").mkdir()
        try:
            outcome = compile_without_groups(toolchain, lowered.ready, folder / "alone", _OTHERWISE)
            alone = write_model(lowered, outcome, how, folder / "alone")
            left = self._wrong_values(toolchain, alone)
            return alone if left is not None and left < wrong else quick
        except ToolError:
            return quick

    def _of_every_value(self) -> TpuGraph:
        """With all values as outputs.

        Not inputs reshaped: on the bm1688 such an output stays zero, as does all that is computed from it. On the
        cv18xx not what would have another scale as an output.
        """
        graph = self.graph
        reshaped = {op.output for op in graph.ops if isinstance(op, TpuReshape) and op.inputs[0] in graph.inputs}
        on_cv = self.how.chip in CV_CHIPS and self.how.mode == "INT8"
        rescaled = scaled_by_their_readers(graph) if on_cv else set[str]()
        left_out = reshaped.difference(graph.outputs) | rescaled
        return replace(graph, outputs=tuple(op.output for op in graph.ops if op.output not in left_out))

    def _wrong_values(self, toolchain: Toolchain, compiled: Compiled) -> int | None:
        """How many values of layers are not as computed of what the model itself has in front of them; None where
        there is nothing to run it on, it does not run, or gives not all outputs."""
        if self.given is None:
            return None
        build = {"chip": self.how.chip, "names": compiled.locations, "pixels": self.how.pixels_as_built, "batch": 1}
        try:
            (held,) = run_model_inside(toolchain, compiled.model, self.program, build, [self.given])
        except ToolError:
            return None
        outputs = {name: held[name] for name in self.program.outputs if name in held}
        if len(outputs) < len(self.program.outputs):
            return None
        result = traced_result(self.program, outputs, held, compiled.overwritten)
        runner = _Computed(self.options, result)
        return compare_artifact(runner, compiled.model, self.program, [self.given]).mismatches


class _Computed(ChipModelRunner):
    """Gives what was computed."""

    def __init__(self, options: TpuOptions, result: RunResult) -> None:
        super().__init__(options)
        self._result = result

    def run(self, artifact: Path, program: Program, inputs: Sequence[Inputs], *, trace: bool) -> list[RunResult]:
        return [self._result]


def kept_traced(traced: Future[Compiled], folder: Path) -> dict[str, Any]:
    """What the report says of the traced model, which goes into a folder of its own.

    One that the compiler fails on, which has made the released one, is reported, and costs no build.
    """
    try:
        inner = traced.result()
    except ToolError as error:
        return {"not_compiled": error.reason}
    (folder / TRACED).mkdir()
    shutil.copyfile(inner.model, folder / TRACED / inner.model.name)
    return {
        "audit": None if inner.audit is None else audit_report(inner.audit),
        "groups": inner.set_aside or QUICK_CUTS,
        "overwritten": sorted(inner.overwritten),
    }
