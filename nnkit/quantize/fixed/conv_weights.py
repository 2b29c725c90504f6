"""Integer weights and bias of a convolution, with the proof of its accumulator."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from nnkit.errors import InternalError, ModelError, RecipeError
from nnkit.program import Fixed, OutputStage, Tensor
from nnkit.program.op import Accumulator, Proof
from nnkit.quantize.fixed.format_table import FormatTable
from nnkit.quantize.fixed.lowering import Lowering, common_fields
from nnkit.quantize.fixed.output_stage import leaky_of
from nnkit.quantize.float_program import FloatConvolution
from nnkit.quantize.integer_bits import MAX_FRAC, MIN_FRAC, fraction_bits
from nnkit.quantize.proof import Bound
from nnkit.quantize.scheme import FixedPointScheme

ConvT = TypeVar("ConvT", bound=FloatConvolution)

_MAX_SHIFT = 30
_RUNNING_MAX_SHIFT = 15  # beyond it (plane << shift) alone leaves 32 bits


class BoundOf(Protocol):
    """The proof's bound for a convolution's integers."""

    def __call__(self, weight: NDArray[Any], bias: NDArray[Any], bias_shift: int, shift: int) -> Bound: ...


@dataclass(frozen=True, eq=False)
class Convolution:
    """A convolution between its tensors. running: it accumulates by the `running` semantics of the program's ops."""

    op: FloatConvolution
    source: Tensor
    output: Tensor
    scheme: FixedPointScheme
    running: bool
    bound_of: BoundOf


@dataclass(frozen=True, eq=False)
class Weights:
    """Integer weights and bias. bits_lost: fraction bits given up so that the accumulator is proven."""

    weight: NDArray[Any]
    bits: int
    frac: int
    bias: NDArray[np.int32]
    bias_frac: int
    bias_shift: int
    shift: int
    bound: Bound
    bits_lost: int = 0


def choose_weights(conv: Convolution) -> Weights:
    """The finest weight fraction whose accumulator is proven for the formats around the convolution.

    When even the output's fraction exceeds input + weight fraction, shift is 0 and the output must become coarser
    (`settle` of the convolutions). Raises ModelError where no fraction can be proven.
    """
    weight, _ = _finite(conv.op)
    bits = 16 if conv.op.tags.hp else conv.scheme.bits
    finest = fraction_bits(float(weight.min(initial=0.0)), float(weight.max(initial=0.0)), bits, True)
    limit = _RUNNING_MAX_SHIFT if conv.running else _MAX_SHIFT
    start = min(finest, conv.output.fixed.frac - conv.source.fixed.frac + limit, MAX_FRAC)
    for frac in range(start, MIN_FRAC - 1, -1):
        weights = _at(conv, Fixed(bits, frac), finest - frac)
        if weights is not None:
            return weights
    raise ModelError(
        "no weight format keeps its 32-bit accumulator from overflowing",
        where=conv.op.name,
        remedy="set `accumulator_bits: 64`, or normalise this layer's weights",
    )


def _finite(op: FloatConvolution) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    if not (np.isfinite(op.weight).all() and np.isfinite(op.bias).all()):
        raise ModelError(
            "its weights hold NaN or infinity",
            where=op.name,
            remedy="re-export the network from a good checkpoint",
        )
    return op.weight, op.bias


def _at(conv: Convolution, form: Fixed, bits_lost: int) -> Weights | None:
    """Weights in one format, or None where the proof fails."""
    weight, bias = _finite(conv.op)
    accumulator_frac = conv.source.fixed.frac + form.frac
    shift = max(0, accumulator_frac - conv.output.fixed.frac)
    integers = form.quantize(weight)
    if conv.running:
        bias_frac = min(conv.output.fixed.frac, accumulator_frac)
        bias_q = Fixed(16, bias_frac).quantize(bias)
    else:
        # At the accumulator's own fraction the bias costs no precision and needs no shift.
        bias_frac = accumulator_frac
        bias_q = np.floor(bias * 2.0**bias_frac + 0.5).astype(np.int64)
        if int(np.abs(bias_q).max(initial=0)) >= 1 << 31:
            return None
    bound = conv.bound_of(integers, bias_q, 0, shift)
    if conv.scheme.accumulator_bits == 32 and not bound.fits_int32:
        return None
    return Weights(
        weight=integers.astype(form.dtype),
        bits=form.bits,
        frac=form.frac,
        bias=bias_q.astype(np.int32),
        bias_frac=bias_frac,
        bias_shift=0,
        shift=shift,
        bound=bound,
        bits_lost=bits_lost,
    )


def pinned_weights(conv: Convolution) -> Weights:
    """Weights at the pinned fractions, proven or not.

    Raises RecipeError where the pins contradict the graph, or are too fine for the numbers that they store.
    """
    op, pinned = conv.op, conv.scheme.pinned
    if pinned is None:
        raise InternalError("no pinned formats", where=op.name)
    pins, place = pinned.of((op.name, *op.tags.origins)), f"{pinned.source}: {op.name}"
    weight, bias = _finite(op)
    if pins.input_frac != conv.source.fixed.frac:
        raise RecipeError(
            f"input_frac is {pins.input_frac}, but {op.inputs[0]!r} has {conv.source.fixed.frac} fraction bits",
            where=place,
            remedy="make the producer's output_frac and this input_frac equal",
        )
    form, bias_form = Fixed(pinned.bits, pins.weight_frac), Fixed(pinned.bits, pins.bias_frac)
    _check_that_it_fits("weight_frac", form, weight, place)
    _check_that_it_fits("bias_frac", bias_form, bias, place)
    integers, bias_q = form.quantize(weight), bias_form.quantize(bias)
    bias_shift = 0 if conv.running else pins.input_frac + pins.weight_frac - pins.bias_frac
    if bias_shift < 0:
        raise RecipeError(
            f"bias_frac {pins.bias_frac} exceeds input_frac + weight_frac",
            where=place,
            remedy="a bias cannot be finer than the accumulator it is added to",
        )
    if conv.running and pins.bias_frac != pins.output_frac:
        raise RecipeError(
            f"bias_frac is {pins.bias_frac}, output_frac is {pins.output_frac}; `running` starts from the bias",
            where=place,
            remedy="make them equal, or use `accumulate: wide`",
        )
    return Weights(
        weight=integers.astype(form.dtype),
        bits=form.bits,
        frac=pins.weight_frac,
        bias=bias_q.astype(np.int32),
        bias_frac=pins.bias_frac,
        bias_shift=bias_shift,
        shift=pins.norm,
        bound=conv.bound_of(integers, bias_q, bias_shift, pins.norm),
    )


def _check_that_it_fits(key: str, form: Fixed, values: NDArray[np.float64], place: str) -> None:
    """Raise RecipeError where a pinned format saturates values by more than one unit.

    One unit is what the published formula loses on an exact power of two: releases made by it are still reproduced.
    """
    unclipped = np.floor(values * 2.0**form.frac + 0.5)
    beyond = int(np.count_nonzero((unclipped < form.qmin - 1) | (unclipped > form.qmax + 1)))
    if not beyond:
        return
    what = "weights" if key == "weight_frac" else "biases"
    low, high = float(values.min()), float(values.max())
    try:
        remedy = f"{key} {fraction_bits(low, high, form.bits, True)} is the finest that holds them"
    except ValueError as error:
        remedy = f"normalise this layer's {what}: the {error}"
    raise RecipeError(
        f"{key} {form.frac} saturates {beyond} of {values.size} {what}: {form.bits} bits end at "
        f"{form.qmax * 2.0**-form.frac:g}, the largest magnitude is {max(-low, high):g}",
        where=place,
        remedy=remedy,
    )


def convolution_fields(conv: Convolution) -> dict[str, Any]:
    """The fields of the program's op that both convolutions share.

    The proof is `proven`, or for pinned formats that cannot be, `pinned_unproven` with a note by how much.
    """
    weights = choose_weights(conv) if conv.scheme.pinned is None else pinned_weights(conv)
    wide: Accumulator = "int64" if conv.scheme.accumulator_bits == 64 else "int32"
    accumulator: Accumulator = "running16" if conv.running else wide
    proof: Proof = "proven"
    note = ""
    if not weights.bound.fits_int32 and accumulator != "int64":
        proof = "pinned_unproven"
        note = f"the bound exceeds 32 bits by {weights.bound.excess_bits:.2f} bits"
    return {
        **common_fields(conv.op),
        "weight": weights.weight,
        "weight_bits": weights.bits,
        "weight_frac": weights.frac,
        "bias": weights.bias,
        "bias_frac": weights.bias_frac,
        "bias_shift": weights.bias_shift,
        "window": conv.op.window,
        "stage": OutputStage(weights.shift, conv.output.low, conv.output.high, leaky_of(conv.op.activation)),
        "groups": conv.op.groups,
        "accumulator": accumulator,
        "proof": proof,
        "proof_note": note,
        "bits_lost": float(weights.bits_lost),
    }


class ConvolutionLowering(Lowering[ConvT]):
    """The output is no finer than the accumulator; formats that are pinned stay."""

    @abstractmethod
    def convolution(self, op: ConvT, tensors: Mapping[str, Tensor], scheme: FixedPointScheme) -> Convolution:
        """The op between its tensors."""

    def settle(
        self, op: ConvT, formats: FormatTable, tensors: Mapping[str, Tensor], scheme: FixedPointScheme
    ) -> bool:
        if scheme.pinned is not None:
            return False
        conv = self.convolution(op, tensors, scheme)
        return formats.lower_frac(op.output, conv.source.fixed.frac + choose_weights(conv).frac)

    def takes(
        self, op: ConvT, before: Mapping[str, Tensor], tensors: Mapping[str, Tensor], scheme: FixedPointScheme
    ) -> bool:
        """Whether the accumulator is proven for the same weights."""
        weights = choose_weights(self.convolution(op, before, scheme))
        form = Fixed(weights.bits, weights.frac)
        return _at(self.convolution(op, tensors, scheme), form, weights.bits_lost) is not None

    def bits_lost(self, op: ConvT, tensors: Mapping[str, Tensor], scheme: FixedPointScheme) -> int:
        """Fraction bits that the weights give up for the proof."""
        return choose_weights(self.convolution(op, tensors, scheme)).bits_lost
