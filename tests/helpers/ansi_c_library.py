"""A network as an ansi_c artifact, compiled and run, without a recipe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from nnkit.calibrate.stats import CalibrationStats
from nnkit.graph import Model
from nnkit.program import Program
from nnkit_ansi_c.emit import emit_library
from nnkit_ansi_c.lowered import AnsiCLowered
from nnkit_ansi_c.network import Network
from nnkit_ansi_c.options import AnsiCOptions
from nnkit_ansi_c.quantize import float_program
from nnkit_ansi_c.runner import HostRunner

NO_STATISTICS = CalibrationStats({}, "max", 0, "")
SANITIZERS = ("-O0", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def library(
    model: Model, folder: Path, weights: Literal["blob", "arrays"] = "blob", *, inputs_in_arena: bool = False
) -> Program:
    """Writes the library `net` into `folder`."""
    program = float_program(AnsiCLowered.of(model).graph, NO_STATISTICS, "net")
    network = Network.of(program, inputs_in_arena=inputs_in_arena)
    emit_library(network, AnsiCOptions(weights=weights), folder)
    return program


def outputs(
    folder: Path, program: Program, inputs: Mapping[str, NDArray[Any]], flags: Sequence[str] = SANITIZERS
) -> dict[str, NDArray[Any]]:
    """What the compiled library gives for one set of inputs."""
    shaped = {name: np.asarray(inputs[name]).reshape(program.tensors[name].shape) for name in program.inputs}
    (result,) = HostRunner(flags=tuple(flags)).run(folder, program, [shaped], trace=False)
    return dict(result.outputs)
