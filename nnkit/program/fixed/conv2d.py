"""Convolution, in two ways to round: once, or after every input channel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nnkit.program.convolution import convolve, exact_type
from nnkit.program.fixed.convolution import Convolution
from nnkit.program.fixed.output_stage import wrap
from nnkit.program.fixed.pool import FusedPool
from nnkit.program.formats import Fixed
from nnkit.program.op import Accumulate
from nnkit.program.tensor import Array, Arrays, IntArray, Tensors
from nnkit.program.watch import Watch
from nnkit.program.window import padded, taps


@dataclass(frozen=True, eq=False, kw_only=True)
class Conv2d(Convolution):
    """Convolution (also grouped, depthwise, dilated; a fully connected layer is a full-window one).

    wide:    acc = (bias << bias_shift) + sum(x * w) over all taps in `accumulator`; output stage.
    running: (signed storage only) per output value an int plane v starts from bias; for each input channel of the
             group in order
             v = clamp(NORM((v << stage.shift) + sum_kernel(x * w), stage.shift), storage); then the output
             stage's leaky and clip (its shift is already spent).
    Padded taps read `pad_value` (an integer in the input's format).
    weight: [O, I/groups, kh, kw] integers; bias: [O] integers.
    """

    kind: ClassVar[str] = "conv2d"
    pad_value: int = 0
    accumulate: Accumulate = "wide"
    pool: FusedPool | None = None

    def compute(self, inputs: Arrays, tensors: Tensors, watch: Watch | None = None) -> Array:
        """[C, H, W] -> [O, OH, OW], those of the fused pool where there is one."""
        storage = tensors[self.output].fixed
        if self.accumulate == "running":
            values = self._running(inputs[0], storage, watch)
        else:
            values = self.stage.stored(self.accumulators(inputs[0]), self, storage, watch)
        return values if self.pool is None else self.pool.compute(values, storage)

    def accumulators(self, x: Array) -> IntArray:
        """The `wide` sums with the bias, not wrapped: [C, H, W] -> [O, OH, OW]."""
        weight = self.weight.astype(np.int64)
        dtype = exact_type(weight, self._reach(x), output_axis=0)
        sums = convolve(x[None].astype(dtype), weight.astype(dtype), self.window, self.groups, self.pad_value)[0]
        acc: IntArray = sums.astype(np.int64)
        acc += self._shifted_bias()
        return acc

    def multiply_accumulates(self, tensors: Tensors) -> int:
        """One per weight and output position; a fused pool does not change the count."""
        out_h, out_w = self.window.output_hw(*tensors[self.inputs[0]].shape[-2:])
        return out_h * out_w * int(self.weight.size)

    def _reach(self, x: Array) -> int:
        """The largest magnitude that a tap can read."""
        return max(int(x.max(initial=0)), -int(x.min(initial=0)), abs(self.pad_value))

    def _running(self, x: Array, storage: Fixed, watch: Watch | None) -> IntArray:
        """One rounding and one saturation per input channel, starting from the bias."""
        weight = self.weight.astype(np.int64)
        dtype = exact_type(weight, self._reach(x), output_axis=0)
        views = taps(padded(x.astype(dtype), self.window, self.pad_value), self.window)
        channels, out_h, out_w = views.shape[:3]
        in_per_group, out_per_group = channels // self.groups, weight.shape[0] // self.groups
        shift = self.stage.shift
        rounding = 1 << (shift - 1) if shift else 0
        low, high = -(1 << (storage.bits - 1)), storage.qmax
        planes = []
        for group in range(self.groups):
            outs = slice(group * out_per_group, (group + 1) * out_per_group)
            value = np.repeat(self.bias[outs].astype(np.int64)[:, None], out_h * out_w, axis=1)
            for channel in range(in_per_group):
                columns = views[group * in_per_group + channel].transpose(2, 3, 0, 1).reshape(-1, out_h * out_w)
                kernel = weight[outs, channel].reshape(out_per_group, -1).astype(dtype)
                acc = (value << shift) + (kernel @ columns).astype(np.int64) + rounding
                if watch is not None:
                    watch.accumulator(self.name, acc, 32)
                value = wrap(acc, 32) >> shift
                if watch is not None:
                    watch.saturation(self.name, value, low, high)
                value = np.clip(value, low, high)
            planes.append(value)
        return self.stage.activated(np.concatenate(planes).reshape(-1, out_h, out_w), storage)
