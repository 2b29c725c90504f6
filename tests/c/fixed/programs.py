"""Programs by hand, with random weights and inputs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.program import Conv2d, Fixed, Leaky, Op, OutputStage, Program, Tensor, Window

S8, U8, S16, U16 = Fixed(8, 0), Fixed(8, 0, False), Fixed(16, 0), Fixed(16, 0, False)


@dataclass
class Builder:
    """Collects tensors and ops of a program."""

    name: str = "net"
    tensors: dict[str, Tensor] = field(default_factory=dict)
    ops: list[Op] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)

    def tensor(self, name: str, shape: tuple[int, ...], fixed: Fixed) -> str:
        self.tensors[name] = Tensor(name, shape, fixed, fixed.qmin, fixed.qmax)
        return name

    def input(
        self, name: str, shape: tuple[int, ...], fixed: Fixed, *, low: int | None = None, high: int | None = None
    ) -> str:
        self.inputs.append(name)
        ends = fixed.qmin if low is None else low, fixed.qmax if high is None else high
        self.tensors[name] = Tensor(name, shape, fixed, *ends)
        return name

    def program(self, *outputs: str) -> Program:
        return Program(self.name, self.tensors, tuple(self.ops), tuple(self.inputs), outputs)


def random_values(rng: np.random.Generator, tensor: Tensor, extreme: bool = False) -> NDArray[np.int64]:
    """Values of a tensor; with `extreme` mostly at the ends of the range, so that outputs saturate."""
    values = rng.integers(tensor.low, tensor.high, tensor.shape, endpoint=True)
    if extreme:
        ends = np.where(rng.random(tensor.shape) < 0.5, tensor.low, tensor.high)
        values = np.where(rng.random(tensor.shape) < 0.8, ends, values)
    return values.astype(np.int64)


def stage_for(
    rng: np.random.Generator,
    out: Fixed,
    acc_bits: float,
    *,
    clip: bool = False,
    leaky: int = 0,
) -> OutputStage:
    """A stage whose shift brings accumulators of about `acc_bits` bits into `out`, sometimes saturating."""
    shift = int(np.clip(acc_bits - out.bits + 1 + rng.integers(-2, 2), 0, 30))
    low, high = out.qmin, out.qmax
    if clip:
        low, high = (0 if out.signed else 1), int(rng.integers(out.qmax // 2, out.qmax))
    slopes = None
    if leaky:
        slopes = Leaky(rng.integers(-32768, 32767, leaky).astype(np.int16), int(rng.integers(10, 18)))
        low = out.qmin if not clip else out.qmin // 3
    return OutputStage(shift, low, high, slopes)


def conv(
    rng: np.random.Generator,
    builder: Builder,
    x: str,
    out_name: str,
    out_channels: int,
    out: Fixed,
    window: Window,
    *,
    weight_bits: int = 16,
    weight_magnitude: int | None = None,
    groups: int = 1,
    clip: bool = False,
    leaky: bool = False,
    output_hw: tuple[int, int] | None = None,
    **fields: Any,
) -> str:
    """Add a random Conv2d to the builder."""
    source = builder.tensors[x]
    channels, height, width = source.shape
    shape = (out_channels, channels // groups, window.kernel_h, window.kernel_w)
    taps = int(np.prod(shape[1:]))
    limit = weight_magnitude or (1 << (weight_bits - 1))
    weight = rng.integers(-limit, limit, shape)
    acc_bits = source.fixed.bits + np.log2(limit) + 0.5 * np.log2(taps) - 1
    leaky_count = (out_channels if rng.random() < 0.5 else 1) if leaky else 0
    stage = stage_for(rng, out, acc_bits, clip=clip, leaky=leaky_count)
    bias = rng.integers(-(1 << 14), 1 << 14, out_channels).astype(np.int32)
    builder.tensor(out_name, (out_channels, *(output_hw or window.output_hw(height, width))), out)
    builder.ops.append(
        Conv2d(
            name=f"{out_name}_layer",
            inputs=(x,),
            output=out_name,
            weight=weight,
            weight_bits=weight_bits,
            weight_frac=0,
            bias=bias,
            bias_frac=0,
            bias_shift=int(rng.integers(0, stage.shift + 1)),
            window=window,
            stage=stage,
            groups=groups,
            **fields,
        )
    )
    return out_name
