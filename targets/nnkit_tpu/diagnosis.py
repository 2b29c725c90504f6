"""What `hp: auto` measures: the INT8 network with any set of layers in F16 (BF16 on the cv18xx)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from nnkit.defaults import FLOAT_INPUTS, FLOAT_OUTPUTS
from nnkit.errors import RecipeError
from nnkit.graph import Model
from nnkit.mixed_precision.diagnosis import Diagnosis, LayerCost, layer_cost
from nnkit.mixed_precision.search import LayerSet
from nnkit.program import Program
from nnkit.target import Quantization
from nnkit_tpu.bias_correction import corrects_biases
from nnkit_tpu.float_inputs import floats_inputs
from nnkit_tpu.float_outputs import floats_outputs
from nnkit_tpu.lowered import TpuLowered
from nnkit_tpu.options import TpuOptions
from nnkit_tpu.program import TpuOp, TpuPad, TpuPermute, TpuPool, TpuReshape, TpuSlice, TpuUpsample
from nnkit_tpu.weight_rounding import rounds_weights

Quantise = Callable[[TpuLowered, Quantization], Program]


class TpuDiagnosis(Diagnosis):
    """The network with any set of layers in higher precision, as the chip computes it.

    A trial has no corrected biases; what the search chooses is built with them.
    """

    def __init__(
        self,
        original: Model,
        lowered: TpuLowered,
        quantization: Quantization,
        options: TpuOptions,
        quantise: Quantise,
    ) -> None:
        """quantise: as a build does it. Raises RecipeError where all layers have 16 bits already."""
        if options.precision != "int8":
            raise RecipeError(
                f"`hp: auto` chooses 16-bit layers, but every layer is in {options.precision} already",
                remedy="set `precision: int8` in the target's options, or remove `hp: auto`",
            )
        self._original, self._model, self._network = original, lowered.model, lowered
        self._quantise, self._quantization = quantise, quantization
        floats = {
            FLOAT_INPUTS: floats_inputs(quantization, options),
            FLOAT_OUTPUTS: floats_outputs(quantization, options),
        }
        kept = tuple(name for name, asked in floats.items() if asked)
        plain = quantization.calibration.model_copy(update={"corrections": kept})
        self._uncorrected = replace(quantization, calibration=plain)
        self.trials_are_builds = not (corrects_biases(quantization) or rounds_weights(quantization))
        self._last: tuple[LayerSet, Program] | None = None
        self.layers = _in_integers(lowered, self.program(frozenset()))

    def program(self, layers: LayerSet) -> Program:
        """The Program of a trial; see the class."""
        if self._last is None or self._last[0] != layers:
            self._last = layers, self._quantise(self._tagged(layers), self._uncorrected)
        return self._last[1]

    def build_program(self, layers: LayerSet) -> Program:
        """The Program with the corrections of a build."""
        if self.trials_are_builds:
            return self.program(layers)
        return self._quantise(self._tagged(layers), self._quantization)

    def _tagged(self, layers: LayerSet) -> TpuLowered:
        return self._network.with_sixteen_bits(self.values(layers)) if layers else self._network


def _in_integers(lowered: TpuLowered, program: Program) -> tuple[LayerCost, ...]:
    """The layers that compute in INT8, by the names of the network."""
    ops = {op.name: op for op in program.ops if isinstance(op, TpuOp) and op.mode == "INT8"}
    return tuple(
        layer_cost(op.name, op.output, ops[op.name], program)
        for op in lowered.graph.ops
        if op.name in ops and not _moves(op)
    )


def _moves(op: TpuOp) -> bool:
    """Whether the op only moves or selects values."""
    return isinstance(op, TpuReshape | TpuPermute | TpuSlice | TpuUpsample | TpuPad) or (
        isinstance(op, TpuPool) and op.function == "max"
    )
