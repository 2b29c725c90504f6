"""Calibration and the choice of precision where NET is calibrated behind the simulated STN."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nnie_stn_project import build_of, face, project, stn_model

from nnkit import pipeline
from nnkit.calibrate import calibrate
from nnkit.errors import RecipeError
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.program.inputs import quantized_inputs
from nnkit.rewrite.stn_split import split_stn
from nnkit.samples import Sample
from nnkit.simulate import simulate
from nnkit_nnie.gfpq.quantize import PIXELS, Precision, to_program
from nnkit_nnie.limits.context import Division
from nnkit_nnie.lowered import NnieLowered
from nnkit_nnie.options import NnieOptions
from nnkit_nnie.precision import NnieDiagnosis
from nnkit_nnie.stn.calibration import AlignedStatistics, statistics_for


def test_net_can_be_calibrated_behind_the_simulated_stn():
    model = stn_model()
    lowered = NnieLowered.of(model, Division("hi3516cv500"))
    samples = [Sample(str(i), {"face": face(i)[None].astype(np.float32)}) for i in range(3)]
    statistics = calibrate(model, {"face": [sample.inputs["face"] for sample in samples]}, {})
    precision, formats = Precision(0, frozenset()), {"face": PIXELS}

    def found(options: NnieOptions):
        return statistics_for(lowered, statistics, precision, formats, lambda count: samples[:count], options)

    chip = NnieOptions(chip="hi3516cv500")
    other = chip.model_copy(update={"net_calibration": "simulated"})
    assert found(chip) is statistics
    simulated = found(other)
    program = to_program(lowered.network, statistics, precision, name="t", inputs=formats)
    net = FloatSession(split_stn(model).net, fetch=["net_conv"])
    largest = 0.0
    for sample in samples:
        warped = simulate(program, quantized_inputs(program, sample))["warped"]
        largest = max(largest, float(net.run({"warped": warped[None].astype(np.float32)})["net_conv"].max()))
    assert simulated.ranges["net_conv"].observed_high == pytest.approx(largest, rel=1e-6)
    assert simulated.ranges["net_conv"] != statistics.ranges["net_conv"]
    assert simulated.ranges["stn_conv"] == statistics.ranges["stn_conv"]
    with pytest.raises(RecipeError, match="has none"):
        statistics_for(lowered, statistics, precision, formats, lambda count: [], other)


def test_the_search_calibrates_net_behind_the_stn_of_each_trial():
    """Every set of layers gives what the build with these tags gives, which the float STN would not."""
    model = stn_model()
    samples = [Sample(str(i), {"face": face(i)[None].astype(np.float32)}) for i in range(2)]
    statistics = calibrate(model, {"face": [sample.inputs["face"] for sample in samples]}, {})
    formats = {"face": PIXELS}
    options = NnieOptions(chip="hi3516cv500", compile_mode=2, net_calibration="simulated")
    lowered = NnieLowered.of(model, Division.of(options))
    aligned = AlignedStatistics(lowered, statistics, formats, lambda count: samples[:count], options)
    diagnosis = NnieDiagnosis(model, lowered, statistics, 2, formats, aligned)
    assert aligned.aligning == {"stn_conv", "matrix"}
    names = [candidate.name for candidate in diagnosis.candidates]
    assert names == ["stn_conv", "matrix", "net_conv", "feature"]
    scales, differs = set(), 0
    for layers in [frozenset(part) for size in range(5) for part in combinations(names, size)]:
        precision = Precision(2, layers)
        found = statistics_for(lowered, statistics, precision, formats, lambda count: samples[:count], options)
        program = to_program(lowered.network, found, precision, name="build", inputs=formats)
        scales.add(found.ranges["net_conv"].max_abs)
        by_float = to_program(lowered.network, statistics, precision, name="float", inputs=formats)
        for sample in samples:
            stored = quantized_inputs(program, sample)
            expected = simulate(program, stored)["feature"]
            np.testing.assert_array_equal(diagnosis.run(program, layers, sample)["feature"], expected)
            np.testing.assert_array_equal(simulate(diagnosis.program(layers), stored)["feature"], expected)
            differs += not np.array_equal(simulate(by_float, stored)["feature"], expected)
    assert len(scales) > 1  # the STN's precision moves what NET is calibrated on
    assert differs > 0


def test_hp_auto_measures_what_a_build_has(tmp_path: Path):
    """What the search says of the layers it chose, and of all of them, is what builds with these tags measure."""
    options = "{chip: hi3516cv500, compile_mode: 2, net_calibration: simulated, mapper: {run: false}}"
    recipe = project(tmp_path, options)
    text = recipe.read_text() + "verify: {images: {face: images/*.png}, gates: {cosine: 0.997}}\n"

    def report(tags: str) -> dict[str, Any]:
        recipe.write_text(text.replace("[feature]", tags))
        done = pipeline.run(build_of(recipe), tmp_path / "out")
        return json.loads((done.folder / "report.json").read_text())

    def measured(row: Mapping[str, float]) -> list[float]:
        return [row[key] for key in ("cosine", "sqnr_db", "max_abs")]

    searched = report("auto")
    (chosen,) = (row for row in searched["mixed_precision"]["pareto"] if row["chosen"])
    assert chosen["layers"] == ["matrix"]  # of the STN: NET's calibration follows from it
    assert measured(searched["verify"]["float_vs_program"]) == measured(chosen)
    everything = searched["mixed_precision"]["pareto"][-1]
    assert everything["layers"] == ["stn_conv", "matrix", "net_conv", "feature"]
    built = report("[stn_conv, matrix, net_conv, feature]")
    assert measured(built["verify"]["float_vs_program"]) == measured(everything)
