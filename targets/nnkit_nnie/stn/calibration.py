"""NET's calibration: images as STN and the warp leave them, by the STN in float or by the simulated NNIE's.

On the board NET sees what the quantised STN has aligned. The float STN is the usual practice, and needs nothing: the
float network's own values are NET's. With the simulated one, NET is calibrated again on what will really feed it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from nnkit.calibrate.stats import CalibrationStats
from nnkit.errors import RecipeError
from nnkit.program import Fixed, Float, Program
from nnkit.program.inputs import quantized_inputs
from nnkit.samples import Sample
from nnkit.simulate import simulate
from nnkit_nnie.gfpq.ops import layer_of
from nnkit_nnie.gfpq.quantize import Precision, to_program
from nnkit_nnie.lowered import NnieLowered
from nnkit_nnie.options import NnieOptions
from nnkit_nnie.parts import Part

if TYPE_CHECKING:
    from nnkit.calibrate.methods import Method


def part_program(program: Program, part: Part) -> Program:
    """The program of one part: its ops, as they are in the whole network's program."""
    names = {layer.name for layer in part.network.layers}
    graph = part.network.graph
    ops = tuple(op for op in program.ops if layer_of(op) in names)
    return replace(program, ops=ops, inputs=graph.inputs, outputs=graph.outputs)


def simulated_stn(program: Program, matrix: str) -> Callable[[Mapping[str, NDArray[Any]]], NDArray[np.float64]]:
    """The matrix in real units as the NNIE computes it, from one sample's inputs of the STN."""

    def run(inputs: Mapping[str, NDArray[Any]]) -> NDArray[np.float64]:
        stored = simulate(program, quantized_inputs(program, Sample("", inputs)))
        return program.tensors[matrix].format.dequantize(stored[matrix])

    return run


def net_samples(
    stn: Part, samples: Sequence[Sample], program: Program | None, image_format: Fixed | Float
) -> list[Sample]:
    """NET's inputs for each sample of the whole network, real units.

    program: the simulated STN; None takes the STN in float. image_format: in which the warped image is stored.
    """
    from nnkit_nnie.stn.run import net_calibration_inputs

    split = stn.split
    if split is None:
        return list(samples)
    run = None if program is None else simulated_stn(program, split.matrix)
    fed = []
    for sample, inputs in zip(
        samples, net_calibration_inputs(split, (each.inputs for each in samples), run), strict=True
    ):
        stored = image_format.dequantize(image_format.quantize(inputs[split.warped]))
        warped = np.asarray(stored, np.float32).reshape(split.warped_shape)
        fed.append(replace(sample, inputs={**inputs, split.warped: warped}))
    return fed


class AlignedStatistics:
    """The statistics of a network with any set of layers in 16 bits.

    With `net_calibration: simulated` NET's follow from how exactly the STN aligns, and so from the precision of the
    layers before the warp, `aligning`; otherwise from nothing, and `aligning` is empty.
    """

    def __init__(
        self,
        lowered: NnieLowered,
        statistics: CalibrationStats,
        inputs: Mapping[str, Fixed | Float],
        samples: Callable[[int], Sequence[Sample]],
        options: NnieOptions,
    ) -> None:
        """The arguments are those of `statistics_for`."""
        self._lowered, self._statistics, self._inputs = lowered, statistics, inputs
        self._samples, self._options = samples, options
        self._kept: dict[Precision, CalibrationStats] = {}
        self.aligning: frozenset[str] = frozenset()
        if len(lowered.parts) > 1 and options.net_calibration != "float":
            self.aligning = frozenset(layer.name for layer in lowered.parts[0].network.layers)

    def of(self, precision: Precision) -> CalibrationStats:
        """The result of `statistics_for`, computed once for each precision of the STN. Raises as it does."""
        key = replace(precision, hp=precision.hp & self.aligning)
        if key not in self._kept:
            self._kept[key] = statistics_for(
                self._lowered, self._statistics, key, self._inputs, self._samples, self._options
            )
        return self._kept[key]


def statistics_for(
    lowered: NnieLowered,
    statistics: CalibrationStats,
    precision: Precision,
    inputs: Mapping[str, Fixed | Float],
    samples: Callable[[int], Sequence[Sample]],
    options: NnieOptions,
) -> CalibrationStats:
    """The statistics that the network is quantised by: with `net_calibration: simulated`, NET's are made anew.

    inputs: formats of the network's inputs. samples: the first so many calibration inputs.

    Raises RecipeError where there are no calibration images to run the STN on.
    """
    if len(lowered.parts) == 1 or options.net_calibration == "float":
        return statistics
    given = samples(statistics.images)
    if not given or statistics.method == "table":
        raise RecipeError(
            "net_calibration: simulated runs the STN on the calibration images, and the recipe has none",
            remedy="name images in model.inputs.<name>.calibration, without a table; or write net_calibration: float",
        )
    program = to_program(lowered.network, statistics, precision, name="stn", inputs=inputs)
    return _with_net(lowered.parts, statistics, given, program)


def _with_net(
    parts: tuple[Part, ...], statistics: CalibrationStats, samples: Sequence[Sample], program: Program
) -> CalibrationStats:
    """The statistics with NET's values as the STN of `program` makes them; the method stays the recipe's."""
    from nnkit.calibrate import calibrate, sources_of

    stn, net = parts
    split = net.split
    if split is None:
        return statistics
    fed = net_samples(stn, samples, part_program(program, stn), program.tensors[split.warped].fixed)
    model = net.network.graph.model
    sources = sources_of(model, fed)
    settings: dict[str, Any] = {} if statistics.percentile is None else {"percentile": statistics.percentile}
    again = calibrate(model, sources, {}, method=cast("Method", statistics.method), **settings)
    return replace(statistics, ranges={**statistics.ranges, **again.ranges})
