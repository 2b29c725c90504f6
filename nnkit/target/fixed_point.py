"""A target of power-of-two fixed point: the core lowers, quantises, corrects and searches for it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from nnkit.target.protocol import OptionsT, PrecisionSearch, Quantization, Target

if TYPE_CHECKING:
    from nnkit.graph import Model
    from nnkit.input_range import InputRange
    from nnkit.mixed_precision.diagnosis import Diagnosis
    from nnkit.program import Program
    from nnkit.quantize import FixedPointScheme
    from nnkit.quantize.lowered import LoweredLayers
    from nnkit.quantize.used_ranges import UsedRanges
    from nnkit.rewrite import RewriteLog


class FixedPointTarget(Target[OptionsT, "LoweredLayers"]):
    """A target whose arithmetic is `nnkit.program.fixed`: it names its scheme, and the rest is done.

    It offers the corrections that it lists; of those, the core has `bias_correction` and `equalize`.
    """

    @abstractmethod
    def scheme(self, options: OptionsT, headroom: float, input_ranges: Mapping[str, InputRange]) -> FixedPointScheme:
        """How this target quantises."""

    def lower(self, model: Model, log: RewriteLog, options: OptionsT) -> LoweredLayers:
        """`_cpu` layers run on the CPU, all others on the hardware."""
        from nnkit.quantize.lowered import LoweredLayers

        return LoweredLayers.of(model, log, self.documentation)

    def quantize(self, lowered: LoweredLayers, quantization: Quantization, options: OptionsT) -> Program:
        """The program of the scheme, with the recipe's corrections; the target's own where the recipe names none.

        A network whose layers were searched gets none of the target's own: the search's programs had none.
        """
        from nnkit.quantize import quantize
        from nnkit.quantize.fixed_corrections import corrected

        scheme, asked = self._scheme(quantization, options), quantization.calibration.corrections
        own = () if quantization.searched else self.own_corrections(options)
        return corrected(
            lowered,
            quantization.statistics,
            lambda network, statistics: quantize(network.layers, statistics, scheme, name=quantization.name),
            quantization.samples,
            own if asked is None else asked,
            asked=asked is not None,
        )

    def ranges_used(
        self, lowered: LoweredLayers, quantization: Quantization, program: Program, options: OptionsT
    ) -> UsedRanges:
        """Those of calibration, fitted to each value's number of bits."""
        from nnkit.quantize import ranges_used

        return ranges_used(lowered.layers, quantization.statistics, self._scheme(quantization, options))

    def diagnosis(
        self, reference: Model, lowered: LoweredLayers, quantization: Quantization, options: OptionsT
    ) -> PrecisionSearch:
        """The scheme with any set of layers in 16 bits; raises RecipeError where it leaves nothing to choose."""
        from nnkit.mixed_precision.diagnosis import Diagnosis

        scheme = self._scheme(quantization, options)
        corrections = quantization.calibration.corrections or ()
        _check_choice(scheme, corrections)

        def diagnosis() -> Diagnosis:
            return Diagnosis(
                reference,
                lowered.model,
                lowered.layers,
                quantization.statistics,
                scheme,
                lambda program: _finished(lowered.model, program, quantization),
            )

        return PrecisionSearch({"scheme": scheme, "corrections": list(corrections)}, diagnosis)

    def _scheme(self, quantization: Quantization, options: OptionsT) -> FixedPointScheme:
        return self.scheme(options, quantization.calibration.headroom, quantization.input_ranges)


def _finished(model: Model, program: Program, quantization: Quantization) -> Program:
    """With corrected biases where the recipe asks for them."""
    from nnkit.quantize.bias_correction import BIAS_CORRECTION, SAMPLES, corrected

    if BIAS_CORRECTION not in (quantization.calibration.corrections or ()):
        return program
    return corrected(model, program, quantization.samples(SAMPLES))


def _check_choice(scheme: FixedPointScheme, corrections: Sequence[str]) -> None:
    from nnkit.errors import RecipeError
    from nnkit.quantize.fixed_corrections import EQUALIZE

    if EQUALIZE in corrections:
        raise RecipeError(
            f"`hp: auto` chooses layers of the network as it is, and {EQUALIZE!r} would change their weights",
            remedy=f"remove {EQUALIZE!r} from `corrections`, or list the 16-bit layers in `tags: {{hp: [...]}}`",
        )

    if scheme.bits == 16:
        raise RecipeError(
            "`hp: auto` chooses 16-bit layers, but every layer has 16 bits already",
            remedy="set `precision: int8` in the target's options, or remove `hp: auto`",
        )
    if scheme.pinned is not None:
        raise RecipeError(
            "`hp: auto` chooses formats, but all are pinned",
            remedy="remove the pinned `formats`, or list the 16-bit layers in `tags: {hp: [...]}`",
        )
