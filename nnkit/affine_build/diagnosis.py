"""Where an affine build loses accuracy: the search behind `hp: auto`, and the table of every report."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from nnkit.affine_build.options import AffineOptions
from nnkit.affine_build.quantize import scheme_of, source_of, stacked, to_program, trial_program
from nnkit.errors import RecipeError
from nnkit.graph import Model
from nnkit.layer_error import LayerError, gap_db, ranks
from nnkit.mixed_precision.diagnosis import Diagnosis, arithmetic_layers
from nnkit.mixed_precision.search import LayerSet
from nnkit.program import Program
from nnkit.program.affine import AffineProgram
from nnkit.quantize.affine import WeightFormats, outputs_of
from nnkit.quantize.affine.diagnose import diagnose
from nnkit.quantize.lowered import LoweredLayers
from nnkit.samples import Sample
from nnkit.target import Quantization

MOST_SAMPLES = 8
"""Samples of each set that the table is measured on: one float and two integer runs of the network for each."""
_TRIAL_IMAGES = 16  # that bias correction is measured on in a trial
_NAMED = 3  # layers in the line at the end of a run
_PART = 8  # samples that are simulated together


class AffineDiagnosis(Diagnosis):
    """The network with any set of layers in 16 bits, weights and what they read and write.

    A trial has no correction but that of biases, on a few images and not judged; what the search chooses is built and
    judged in full.
    """

    trials_are_builds = False

    def __init__(
        self, original: Model, lowered: LoweredLayers, quantization: Quantization, options: AffineOptions
    ) -> None:
        """Raises RecipeError where there is nothing to choose, ModelError as the quantiser."""
        if lowered.layers.formats:
            raise RecipeError(
                "`hp: auto` chooses 16-bit layers, but the network is quantised already and keeps its formats",
                remedy="remove `hp: auto`, or give the float network",
            )
        if options.precision == "int16":
            raise RecipeError(
                "`hp: auto` chooses 16-bit layers, but every layer has 16 bits already",
                remedy="set `precision: int8` or `a16w8` in the target's options, or remove `hp: auto`",
            )
        self._original, self._model, self._network = original, lowered.model, lowered
        self._quantization, self._options = quantization, options
        self._measured = quantization.samples(_TRIAL_IMAGES)
        self._formats = WeightFormats(scheme_of(quantization, options))
        self._last: tuple[LayerSet, AffineProgram] | None = None
        self.layers = arithmetic_layers(lowered.layers, self.program(frozenset()))

    def program(self, layers: LayerSet) -> AffineProgram:
        """The Program of a trial; see the class."""
        if self._last is None or self._last[0] != layers:
            made = trial_program(
                self._tagged(layers), self._quantization, self._options, self._measured, self._formats
            )
            self._last = layers, made
        return self._last[1]

    def build_program(self, layers: LayerSet) -> AffineProgram:
        """The Program with all corrections that the recipe asks for."""
        return to_program(self._tagged(layers), self._quantization, self._options, self._formats)

    def real_outputs(
        self, program: Program, layers: LayerSet, samples: Sequence[Sample]
    ) -> Iterator[Mapping[str, NDArray[Any]]]:
        """The outputs in real units, sample by sample; several samples are run at a time."""
        affine = cast("AffineProgram", program)  # what `program` and `build_program` here give
        for start in range(0, len(samples), _PART):
            part = samples[start : start + _PART]
            outputs = outputs_of(affine, stacked(part, self._model))
            for index in range(len(part)):
                yield {name: outputs[name][index] for name in program.outputs}

    def by_layer(self, samples: Sequence[Sample], layers: LayerSet = frozenset()) -> dict[str, LayerError]:
        """What every candidate loses; the values that are clipped are those of the float layer, beyond the format."""
        rows = diagnose(self._tagged(layers).layers, self.program(layers), stacked(samples, self._model))
        names = {layer.name for layer in self.layers}
        return {row.layer: row for row in rows if row.layer in names}

    def _tagged(self, layers: LayerSet) -> LoweredLayers:
        return self._network.with_sixteen_bits(self.values(layers)) if layers else self._network


def layer_table(
    program: AffineProgram,
    lowered: LoweredLayers,
    calibration: Callable[[int], Sequence[Sample]],
    held_out: Sequence[Sample],
    options: AffineOptions,
) -> dict[str, Any]:
    """What each layer of a build loses, by itself and with those before it, as JSON data.

    calibration: the first so many calibration inputs, where there are any; held_out: others.
    """
    source, named = source_of(program, lowered, calibration, options)
    seen, other = list(calibration(MOST_SAMPLES)), list(held_out[:MOST_SAMPLES])
    sets = {name: samples for name, samples in (("calibration", seen), ("verification", other)) if samples}
    if not sets:
        return {}
    tables = {name: diagnose(source.layers, named, stacked(samples, lowered.model)) for name, samples in sets.items()}
    first = next(iter(tables.values()))
    rank = ranks(first)
    rows = []
    for index, layer in enumerate(first):
        rows.append(
            {
                "name": layer.layer,
                "output": program.ops[index].output,
                "isolated_sqnr_db": {name: _finite(table[index].isolated_db) for name, table in tables.items()},
                "cumulative_sqnr_db": {name: _finite(table[index].cumulative_db) for name, table in tables.items()},
                "clip_rate": {name: table[index].clip_rate for name, table in tables.items()},
                "gap_db": gap_db(*(table[index] for table in tables.values())) if len(tables) == 2 else None,
                "rank": rank.get(layer.layer),
            }
        )
    return {"samples": {name: len(samples) for name, samples in sets.items()}, "layers": rows}


def table_summary(table: Mapping[str, Any]) -> list[str]:
    """A line for the end of a run."""
    ranked = sorted((row for row in table.get("layers", ()) if row["rank"]), key=lambda row: row["rank"])[:_NAMED]
    listed = []
    for row in ranked:
        alone = next(iter(row["isolated_sqnr_db"].values()))
        listed.append(f"{row['name']} ({alone:.1f} dB)")
    return [f"weakest  layers by themselves: {', '.join(listed)}"] if listed else []


def _finite(value: float | None) -> float | None:
    return value if value is not None and np.isfinite(value) else None
