"""Pools: the greatest of a window as it is stored, or the sum times a reciprocal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from nnkit.errors import ModelError
from nnkit.program import FusedPool, Pool, Tensor, Window
from nnkit.quantize.fixed.format_table import FormatTable, Range
from nnkit.quantize.fixed.lowering import Lowering, MovingLowering, common_fields
from nnkit.quantize.float_program import FloatAveragePool, FloatMaxPool, PoolWindow
from nnkit.quantize.scheme import FixedPointScheme


class MaxPoolLowering(MovingLowering[FloatMaxPool]):
    """One format on both sides."""

    def build(self, op: FloatMaxPool, tensors: Mapping[str, Tensor], scheme: FixedPointScheme) -> Pool:
        form = tensors[op.output].fixed
        return Pool(**common_fields(op), pool="max", window=op.window, clip_min=form.qmin, clip_max=form.qmax)


class AveragePoolLowering(Lowering[FloatAveragePool]):
    """The mean lies within the input's range. With pinned formats, as published, its format is the input's."""

    def shares_format(self, op: FloatAveragePool, scheme: FixedPointScheme) -> bool:
        return scheme.pinned is not None

    def output_range(self, op: FloatAveragePool, sources: Sequence[Range], calibrated: Range) -> Range:
        (source,) = sources
        low = 0.0 if source.non_negative else max(calibrated.low, min(source.low, 0.0))
        high = min(calibrated.high, max(source.high, 0.0))
        high = max(high, 0.0) if source.non_negative else high
        return replace(calibrated, low=low, high=high, non_negative=source.non_negative)

    def settle(
        self, op: FloatAveragePool, formats: FormatTable, tensors: Mapping[str, Tensor], scheme: FixedPointScheme
    ) -> bool:
        _, base = average_multiplier(_taps(op.window))
        return formats.lower_frac(op.output, tensors[op.inputs[0]].fixed.frac + base)

    def build(self, op: FloatAveragePool, tensors: Mapping[str, Tensor], scheme: FixedPointScheme) -> Pool:
        source, output, taps = tensors[op.inputs[0]], tensors[op.output], _taps(op.window)
        if scheme.pinned is not None:
            # The published kernel: clip(NORM(sum * (65536 // taps), 16)), format unchanged.
            return Pool(
                **common_fields(op),
                pool="average",
                window=op.window,
                multiplier=65536 // taps,
                shift=16,
                clip_min=output.fixed.qmin,
                clip_max=output.fixed.qmax,
            )
        multiplier, base = average_multiplier(taps)
        by_count: tuple[int, ...] = ()
        if op.window.has_padding and not op.counts_padding:
            by_count = (0, *(((1 << (base + 1)) // n + 1) // 2 for n in range(1, taps + 1)))
        return Pool(
            **common_fields(op),
            pool="average",
            window=op.window,
            multiplier=multiplier,
            shift=base + source.fixed.frac - output.fixed.frac,
            multipliers_by_count=by_count,
            clip_min=output.low,
            clip_max=output.high,
        )


def fused_pool(pool: PoolWindow) -> FusedPool:
    """A pool behind a convolution: it keeps the convolution's format."""
    if pool.kind == "max":
        return FusedPool("max", pool.window)
    if pool.window.has_padding and not pool.counts_padding:
        raise ModelError(
            "an average pool that excludes its padding was marked to fuse", where="pool", remedy="do not fuse it"
        )
    multiplier, shift = average_multiplier(_taps(pool.window))
    return FusedPool("average", pool.window, multiplier, shift)


def average_multiplier(taps: int) -> tuple[int, int]:
    """(multiplier, shift) for 1/taps with 17 significant bits: multiplier = round(2^shift / taps)."""
    shift = 16 + (taps - 1).bit_length()
    return (2 * (1 << shift) + taps) // (2 * taps), shift


def _taps(window: Window) -> int:
    return window.kernel_h * window.kernel_w
