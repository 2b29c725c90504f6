"""From a network and target options to a Program and its inputs, by the stages that `nnkit run` uses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.networks import Network
from nnkit import stages
from nnkit.api.preparing import load
from nnkit.cache import StageCache
from nnkit.calibrate.stats import CalibrationStats
from nnkit.inputs import verification_samples
from nnkit.program import Program
from nnkit.program.inputs import quantized_inputs
from nnkit.report.progress import Progress
from nnkit.samples import Sample
from nnkit.stages import Build, Imported, Settled
from nnkit.target import load_target


@dataclass(frozen=True, eq=False)
class Built:
    """A Program with one real input: `sample` in real units, `inputs` as the program's integers."""

    build: Build
    imported: Imported
    settled: Settled
    statistics: CalibrationStats
    program: Program
    sample: Sample
    inputs: Mapping[str, NDArray[np.int64]] = field(repr=False)


class Workshop:
    """Builds programs in a folder of its own. Import and calibration are shared by all options of a network."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._cache = StageCache(folder / "cache")
        self._count = 0

    def program(self, network: Network, options: str) -> Built:
        """Quantise `network` under the gap8 options (YAML flow)."""
        build = self._build(network, options)
        imported = stages.import_model(build)
        restructured = stages.restructure(build, imported)
        settled = Settled(stages.lower(build, restructured))
        statistics = stages.calibrate(build, restructured)
        program = stages.quantize(build, settled, statistics)
        sample = verification_samples(build.recipe, imported.model, most=1)[0]
        return Built(build, imported, settled, statistics, program, sample, quantized_inputs(program, sample))

    def artifact(self, built: Built) -> Path:
        """Plan and emit: the folder of the C project."""
        self._count += 1
        place = self.folder / f"build{self._count}"
        place.mkdir()
        plan: Any = stages.plan(built.build, built.settled, built.statistics, built.program)
        return stages.emit(built.build, built.settled, built.statistics, built.program, plan, place).folder

    def _build(self, network: Network, options: str) -> Build:
        self._count += 1
        path = self.folder / f"recipe{self._count}.yaml"
        path.write_text(network.recipe(options), encoding="utf-8")
        recipe = load(path)
        target = load_target("gap8")
        return Build(recipe, "gap8", target, recipe.targets["gap8"], self._cache, Progress(quiet=True))
