"""ONNX Runtime runs the QDQ model; every stored value of it is compared with the integer program, layer by layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from nnkit.errors import ToolError
from nnkit.program import Program
from nnkit.reading import read_onnx
from nnkit.target import Contract, RunResult

FILE = "model.onnx"


@dataclass(frozen=True)
class OnnxRuntimeRunner:
    """For one op the two differ by one unit at most: half to even of a float, half up of an integer product.

    Where weights have zero points, or the op is a mean of many values, that holds likewise.
    """

    name: str = "onnxruntime"
    contract: Contract = "bounded"
    emulated: bool = False
    layer_by_layer: Literal[True] = True

    def missing(self) -> str | None:
        """It comes with nnkit."""
        return None

    def bound(self, program: Program, tensor: str) -> float:
        """One unit."""
        return 1.0

    def run(
        self, artifact: Path, program: Program, inputs: Sequence[Mapping[str, NDArray[Any]]], *, trace: bool
    ) -> list[RunResult]:
        """One result per set of inputs. Raises ToolError where ONNX Runtime refuses the model."""
        import onnxruntime

        model = read_onnx(artifact / FILE, what="the artifact", remedy="build it again")
        computed = {name for node in model.graph.node for name in node.output}
        stored = {name: f"{name}.q" for name in program.tensors if name not in program.inputs}
        stored = {name: value for name, value in stored.items() if value in computed}
        for value in stored.values():
            model.graph.output.add(name=value)
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        try:
            session = onnxruntime.InferenceSession(
                model.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
            return [_run(session, program, stored, given) for given in inputs]
        except Exception as error:  # its exception types are not public
            raise ToolError(
                f"ONNX Runtime cannot run the model: {str(error).splitlines()[0][:300]}",
                where=str(artifact / FILE),
                remedy="this is a bug: please report it",
            ) from error


def _run(session: Any, program: Program, stored: Mapping[str, str], given: Mapping[str, NDArray[Any]]) -> RunResult:
    feeds = {
        name: program.tensors[name].format.dequantize(given[name]).astype(np.float32)[None] for name in program.inputs
    }
    computed = session.run(list(stored.values()), feeds)
    tensors = {name: value[0] for name, value in zip(stored, computed, strict=True)}
    return RunResult({name: tensors[name] for name in program.outputs if name in tensors}, tensors)
