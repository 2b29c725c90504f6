"""The vendor's chip model runs the artifact; every layer is compared on the chip model's own inputs of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from nnkit.errors import ToolError
from nnkit.program import OpBase, Program
from nnkit.target import Contract, RunResult
from nnkit_tpu.artifact_files import TRACED, read_build
from nnkit_tpu.exactness import largest_difference, largest_on
from nnkit_tpu.model_run import run_model, run_model_inside
from nnkit_tpu.options import TpuOptions
from nnkit_tpu.program import TpuOp
from nnkit_tpu.toolchain import require_toolchain


class ChipModelRunner:
    """Outputs by the released model; inner values by the traced one, compiled from the same sources.

    A released model that computes something else than the traced one shows as a difference of the last layers.
    """

    name = "chip_model"
    contract: Contract = "bounded"
    emulated = True
    layer_by_layer: Literal[True] = True

    def __init__(self, options: TpuOptions) -> None:
        self._options = options

    def missing(self) -> str | None:
        """The toolchain, where it is not installed; the traced model, where the recipe leaves it out."""
        if not self._options.trace:
            return "the recipe says `trace: false`: inner values are not available"
        try:
            require_toolchain(self._options.toolchain)
        except ToolError as error:
            return f"{error.reason}: {error.remedy}"
        return None

    def bound(self, program: Program, tensor: str) -> float:
        """0 for layers that are exact, else one unit, or the last bits of a float."""
        op = program.producer(tensor)
        return largest_difference(op, self._options.chip) if isinstance(op, TpuOp) else 0.0

    def gauged(
        self, program: Program, op: OpBase, inputs: Sequence[NDArray[Any]], result: NDArray[Any]
    ) -> float | NDArray[np.float64]:
        """More where the op amplifies how the chip rounds within it, and where it gives more than calibration saw."""
        return largest_on(op, inputs, result, self._options.chip)

    def run(
        self, artifact: Path, program: Program, inputs: Sequence[Mapping[str, NDArray[Any]]], *, trace: bool
    ) -> list[RunResult]:
        """One result per set of inputs. Raises ToolError where there is no model, or the chip model fails."""
        toolchain = require_toolchain(self._options.toolchain)
        build = read_build(artifact)
        if not build["compiled"]:
            raise ToolError(
                "this artifact was built without the toolchain: there is no model in it",
                where=str(artifact),
                remedy="run `nnkit run` again, now that it is installed",
            )
        outputs = run_model(toolchain, artifact / build["model"], program, build, inputs, program.outputs)
        traced_model = artifact / TRACED / build["model"]
        if not trace:
            return [RunResult(each) for each in outputs]
        if not traced_model.exists():
            return [traced_result(program, each, {}, ()) for each in outputs]
        inner = run_model_inside(toolchain, traced_model, program, {**build, "batch": 1}, inputs)
        overwritten = (build.get("traced") or {}).get("overwritten", ())
        return [traced_result(program, each, held, overwritten) for each, held in zip(outputs, inner, strict=True)]


def traced_result(
    program: Program,
    outputs: Mapping[str, NDArray[Any]],
    held: Mapping[str, NDArray[Any]],
    overwritten: Collection[str],
) -> RunResult:
    """The outputs with the values that a traced model holds, but for those that its later parts write over.

    Layers without a value are part of others.
    """
    gone = set(overwritten).difference(program.outputs)
    inner = {name: values for name, values in held.items() if name not in gone}
    absorbed = frozenset(op.output for op in program.ops) - inner.keys() - outputs.keys()
    return RunResult(outputs, inner, absorbed=absorbed)
