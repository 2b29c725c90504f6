"""Random ops of every kernel variant, many to a program: one compilation tests them all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from nnkit.program import (
    Activation,
    Add,
    Concat,
    Conv2d,
    ConvTranspose2d,
    Embedding,
    Fixed,
    FusedPool,
    JoinRows,
    LogSoftmax,
    Lookup,
    Mul,
    Pad,
    Pool,
    Program,
    Reshape,
    Slice,
    Softmax,
    Transpose,
    Upsample,
    Window,
)
from nnkit.program.logarithm import logarithm_table
from tests.c.fixed.programs import S8, S16, U8, U16, Builder, conv, stage_for

TYPES = (S8, U8, S16, U16)
SIGNED = (S8, S16)


class Random:
    """Adds ops with inputs and outputs of their own to a program."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.builder = Builder()
        self.outputs: list[str] = []

    def pick(self, *choices: Any) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def size(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high, endpoint=True))

    def program(self) -> Program:
        return self.builder.program(*self.outputs)

    def fresh(self, shape: tuple[int, ...], fixed: Fixed) -> str:
        return self.builder.input(f"in{len(self.builder.inputs)}", shape, fixed)

    def output(self) -> str:
        name = f"out{len(self.outputs)}"
        self.outputs.append(name)
        return name

    def window(self, height: int, width: int, *, most: int = 4, pads: bool = True) -> Window:
        """A window that fits the image; asymmetric padding, strides and dilations."""
        kernel_h, kernel_w = self.size(1, most), self.size(1, most)
        dilation_h, dilation_w = self.pick(1, 1, 1, 2), self.pick(1, 1, 1, 2)
        pad = [self.size(0, 2) if pads else 0 for _ in range(4)]
        dilation_h = 1 if (kernel_h - 1) * dilation_h + 1 > height + pad[0] + pad[2] else dilation_h
        dilation_w = 1 if (kernel_w - 1) * dilation_w + 1 > width + pad[1] + pad[3] else dilation_w
        kernel_h = min(kernel_h, height + pad[0] + pad[2])
        kernel_w = min(kernel_w, width + pad[1] + pad[3])
        stride_h, stride_w = self.pick(1, 1, 2, 3), self.pick(1, 1, 2, 3)
        return Window(kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, *pad)

    def image(self, channels: int, fixed: Fixed, least: int = 1) -> tuple[str, int, int]:
        height, width = self.pick(least, self.size(least, 12)), self.pick(least, self.size(least, 14), 9)
        return self.fresh((channels, height, width), fixed), height, width

    def conv(self, x: Fixed, y: Fixed, *, weight_bits: int = 16, window: Window | None = None, **fields: Any) -> None:
        """A dense convolution; `window` None draws one."""
        name, height, width = self.image(self.size(1, 6), x, least=2)
        window = window or self.window(height, width)
        if fields.pop("padded_value", False):
            fields["pad_value"] = int(self.rng.integers(x.qmin, x.qmax))
        self._conv(name, y, window, self.size(1, 10), weight_bits=weight_bits, **fields)

    def pointwise(self, x: Fixed, y: Fixed, **fields: Any) -> None:
        name, _, _ = self.image(self.size(1, 9), x)
        self._conv(name, y, Window(1, 1), self.size(1, 10), **fields)

    def full_window(self, x: Fixed, y: Fixed, **fields: Any) -> None:
        name, height, width = self.image(self.size(1, 4), x, least=2)
        self._conv(name, y, Window(height, width), self.size(1, 9), **fields)

    def grouped(self, x: Fixed, y: Fixed, **fields: Any) -> None:
        groups = self.size(2, 3)
        name, height, width = self.image(groups * self.size(1, 3), x, least=3)
        window = self.pick(Window(1, 1), self.window(height, width))
        self._conv(name, y, window, groups * self.size(2, 6), groups=groups, **fields)

    def depthwise(self, x: Fixed, y: Fixed, **fields: Any) -> None:
        channels = self.size(2, 9)
        name, height, width = self.image(channels, x, least=3)
        if fields.pop("padded_value", False):
            fields["pad_value"] = int(self.rng.integers(x.qmin, x.qmax))
        self._conv(name, y, self.window(height, width), channels, groups=channels, **fields)

    def fused(self, x: Fixed, y: Fixed, kind: str, *, shape: str = "rows", **fields: Any) -> None:
        """A convolution with a pool behind it. shape: "rows", "pointwise", "depthwise"."""
        channels = self.size(2, 6)
        name, height, width = self.image(channels, x, least=6)
        window = Window(1, 1) if shape == "pointwise" else self.window(height, width, most=3)
        if shape == "depthwise":
            fields["groups"] = channels
        out_channels = channels if shape == "depthwise" else self.size(1, 11)
        conv_h, conv_w = window.output_hw(height, width)
        while True:
            pool = self.window(conv_h, conv_w, most=3, pads=kind == "max")
            rows, columns = pool.output_hw(conv_h, conv_w)
            no_window_is_empty = max(pool.pad_top, pool.pad_bottom) < pool.kernel_h
            no_window_is_empty &= max(pool.pad_left, pool.pad_right) < pool.kernel_w
            if no_window_is_empty and pool.dilation_h == pool.dilation_w == 1:
                break
        taps = pool.kernel_h * pool.kernel_w
        fields["pool"] = FusedPool(kind, pool, round(65536 / taps), 16)  # type: ignore[arg-type]
        self._conv(name, y, window, out_channels, output_hw=(rows, columns), **fields)

    def transposed(self, x: Fixed, y: Fixed, *, leaky: bool = False, **fields: Any) -> None:
        groups = self.pick(1, 1, 2)
        per_in, per_out = self.size(1, 4), self.size(1, 6)
        name, height, width = self.image(groups * per_in, x, least=2)
        window = replace(
            self.window(height, width, most=4, pads=False),
            stride_h=self.size(1, 3),
            stride_w=self.size(1, 3),
            pad_top=self.size(0, 1),
            pad_left=self.size(0, 1),
        )
        out_h = max(
            1, (height - 1) * window.stride_h + (window.kernel_h - 1) * window.dilation_h - self.size(0, 2) + 2
        )
        out_w = max(
            1, (width - 1) * window.stride_w + (window.kernel_w - 1) * window.dilation_w - self.size(0, 2) + 2
        )
        weight = self.rng.integers(-32768, 32768, (groups * per_in, per_out, window.kernel_h, window.kernel_w))
        stage = stage_for(self.rng, y, x.bits + 16, leaky=1 if leaky else 0)
        output = self.builder.tensor(self.output(), (groups * per_out, out_h, out_w), y)
        self.builder.ops.append(
            ConvTranspose2d(
                name=f"{output}_layer",
                inputs=(name,),
                output=output,
                weight=weight,
                weight_bits=16,
                weight_frac=0,
                bias=self.rng.integers(-9999, 9999, groups * per_out).astype(np.int32),
                bias_frac=0,
                bias_shift=self.size(0, stage.shift),
                window=window,
                stage=stage,
                groups=groups,
                **fields,
            )
        )

    def pool(self, fixed: Fixed, kind: str, *, by_count: bool = False, narrow: bool = False) -> None:
        name, height, width = self.image(self.size(1, 5), fixed, least=4)
        while True:
            window = self.window(height, width, most=self.pick(2, 3, 4))
            pads = (window.pad_top, window.pad_bottom, window.pad_left, window.pad_right)
            reach = (window.kernel_h, window.kernel_h, window.kernel_w, window.kernel_w)
            if all(pad < kernel for pad, kernel in zip(pads, reach, strict=True)):
                break
        taps = window.kernel_h * window.kernel_w
        low, high = (fixed.qmin // 2, fixed.qmax // 2) if narrow else (fixed.qmin, fixed.qmax)
        counts = (0, *(round(65536 / n) for n in range(1, taps + 1))) if by_count else ()
        shape = (self.builder.tensors[name].shape[0], *window.output_hw(height, width))
        output = self.builder.tensor(self.output(), shape, fixed)
        self.builder.ops.append(
            Pool(
                name=f"{output}_layer",
                inputs=(name,),
                output=output,
                pool=kind,  # type: ignore[arg-type]
                window=window,
                multiplier=65536 // taps,
                shift=16,
                multipliers_by_count=counts,
                clip_min=low,
                clip_max=high,
            )
        )

    def elementwise(
        self, kind: str, x: Fixed, b: Fixed, y: Fixed, *, leaky: bool = False, acc: str = "int32"
    ) -> None:
        shape = (self.size(1, 5), self.size(1, 6), self.size(1, 7))
        inputs = [self.fresh(shape, x)]
        output = self.builder.tensor(self.output(), shape, y)
        common: dict[str, Any] = {"name": f"{output}_layer", "output": output, "accumulator": acc}
        slopes = self.pick(1, shape[0]) if leaky else 0
        if kind == "activation":
            stage = stage_for(self.rng, y, x.bits, clip=True, leaky=slopes)
            self.builder.ops.append(Activation(**common, inputs=tuple(inputs), stage=stage))
        elif kind == "add":
            inputs.append(self.fresh(shape, b))
            shifts = (self.size(0, 9), self.size(0, 9))
            stage = stage_for(self.rng, y, max(x.bits, b.bits) + max(shifts), leaky=slopes)
            self.builder.ops.append(Add(**common, inputs=tuple(inputs), shifts=shifts, stage=stage))
        else:
            inputs.append(self.fresh(shape if self.pick(True, False) else (shape[0], 1, 1), b))
            stage = stage_for(self.rng, y, x.bits + b.bits - 1, leaky=slopes)
            self.builder.ops.append(Mul(**common, inputs=tuple(inputs), stage=stage))

    def moves(self, fixed: Fixed) -> None:
        """Concat (a copied and a converted part), upsample, pad and reshape."""
        height, width = self.size(1, 5), self.size(1, 5)
        other = self.pick(*TYPES)
        parts = (self.fresh((3, height, width), fixed), self.fresh((2, height, width), other))
        output = self.builder.tensor(self.output(), (5, height, width), fixed)
        self.builder.ops.append(
            Concat(name=f"{output}_layer", inputs=parts, output=output, shifts=(0, self.size(1, 5)))
        )
        up = self.builder.tensor(self.output(), (5, 2 * height, 3 * width), fixed)
        self.builder.ops.append(Upsample(name=f"{up}_layer", inputs=(output,), output=up, scale_h=2, scale_w=3))
        pad = self.builder.tensor(self.output(), (5, 2 * height + 3, 3 * width + 1), fixed)
        value = int(self.rng.integers(fixed.qmin, fixed.qmax))
        self.builder.ops.append(
            Pad(name=f"{pad}_layer", inputs=(up,), output=pad, top=1, left=0, bottom=2, right=1, value=value)
        )
        flat = self.builder.tensor(self.output(), (self.builder.tensors[pad].elements,), fixed)
        self.builder.ops.append(Reshape(name=f"{flat}_layer", inputs=(pad,), output=flat))

    def lookup(self, x: Fixed, y: Fixed) -> None:
        """A table of random outputs."""
        shape = (self.size(1, 5), self.size(1, 6), self.size(1, 7))
        source = self.fresh(shape, x)
        output = self.builder.tensor(self.output(), shape, y)
        step_bits = 0 if x.bits == 8 else self.pick(4, 6)
        entries = (1 << (x.bits - step_bits)) + (step_bits > 0)
        self.builder.ops.append(
            Lookup(
                name=f"{output}_layer",
                inputs=(source,),
                output=output,
                table=self.rng.integers(y.qmin, y.qmax, entries, endpoint=True),
                least=x.qmin,
                step_bits=step_bits,
                clip_min=y.qmin + (y.qmax - y.qmin) // 9,
                clip_max=y.qmax - 3,
            )
        )

    def log_softmax(self, x: Fixed, y: Fixed, shape: tuple[int, ...], axis: int, frac: int) -> None:
        """frac: of the input; the output has as many as its type takes of small rows."""
        source, output = self.fresh(shape, x), self.builder.tensor(self.output(), shape, y)
        coarse, fine = Softmax.tables(x.bits, frac)
        self.builder.ops.append(
            LogSoftmax(
                name=f"{output}_layer",
                inputs=(source,),
                output=output,
                axis=axis,
                coarse=coarse,
                fine=fine,
                logarithms=logarithm_table(),
                spread=26 - frac,
                widen=2,
                shift=26 - (2 if y.bits == 8 else 10),
                clip_min=y.qmin + 3,
                clip_max=0,
            )
        )

    def embedding(self, y: Fixed, rows: int, features: int, count: int) -> None:
        """Numbers lie on either side of the table, too."""
        name = f"in{len(self.builder.inputs)}"
        numbers = self.builder.input(name, (count,), Fixed(16, 0), low=-3, high=rows + 5)
        output = self.builder.tensor(self.output(), (count, features), y)
        table = self.rng.integers(y.qmin, y.qmax, (rows, features))
        self.builder.ops.append(
            Embedding(name=f"{output}_layer", inputs=(numbers,), output=output, table=table, table_bits=y.bits)
        )

    def transpose(self, fixed: Fixed, order: tuple[int, ...]) -> None:
        shape = tuple(self.size(2, 5) for _ in order)
        x = self.fresh(shape, fixed)
        output = self.builder.tensor(self.output(), tuple(shape[axis] for axis in order), fixed)
        self.builder.ops.append(Transpose(name=f"{output}_layer", inputs=(x,), output=output, order=order))

    def slice(self, fixed: Fixed, shape: tuple[int, ...], *cuts: slice) -> None:
        """Of a tensor of `shape` what Python's slices `cuts` take."""
        ranges = [range(*cut.indices(size)) for cut, size in zip(cuts, shape, strict=True)]
        x = self.fresh(shape, fixed)
        output = self.builder.tensor(self.output(), tuple(len(each) for each in ranges), fixed)
        starts, steps = tuple(each.start for each in ranges), tuple(each.step for each in ranges)
        self.builder.ops.append(Slice(name=f"{output}_layer", inputs=(x,), output=output, starts=starts, steps=steps))

    def join_rows(self, fixed: Fixed, channels: int, width: int, *heights: int) -> None:
        parts = tuple(self.fresh((channels, height, width), fixed) for height in heights)
        output = self.builder.tensor(self.output(), (channels, sum(heights), width), fixed)
        self.builder.ops.append(JoinRows(name=f"{output}_layer", inputs=parts, output=output))

    def _conv(self, x: str, y: Fixed, window: Window, out_channels: int, **fields: Any) -> None:
        conv(self.rng, self.builder, x, self.output(), out_channels, y, window, **fields)


def everything(seed: int) -> Program:
    """One program with every kind of kernel."""
    r = Random(seed)
    r.pointwise(S16, S16)
    r.conv(S16, S16, window=Window(3, 3, 1, 1, 1, 1, 1, 1, 1, 1))
    r.conv(U8, S8, weight_bits=8)
    r.conv(S16, U16, leaky=False, clip=True)
    r.conv(S16, S16, leaky=True)
    r.conv(S16, S16, accumulate="running")
    r.pointwise(S16, S16, accumulate="running", leaky=True)
    r.conv(S16, S16, accumulator="int64")
    r.full_window(S16, S16, accumulator="int64", leaky=True)
    r.grouped(S16, S8)
    r.depthwise(S16, S16)
    r.depthwise(U8, S16, leaky=True)
    r.fused(S16, S16, "max")
    r.fused(S16, S16, "average", shape="pointwise")
    r.fused(S8, U8, "max", shape="depthwise")
    r.transposed(S16, S16)
    r.transposed(U8, S8, leaky=True)
    r.pool(S16, "max")
    r.pool(U8, "average", by_count=True)
    r.pool(S8, "max", narrow=True)
    r.elementwise("add", S16, S8, S16)
    r.elementwise("mul", U8, S16, S16, leaky=True)
    r.elementwise("mul", U16, U16, U16, acc="int64")
    r.elementwise("activation", S16, S16, U8)
    r.moves(S16)
    r.lookup(S16, U16)
    r.lookup(U8, S8)
    r.transpose(S16, (1, 0, 2, 3))
    r.slice(U8, (6, 5, 4), slice(1, 6, 2), slice(None), slice(None))
    r.log_softmax(S16, S16, (7, 10), 1, 11)
    r.log_softmax(S16, S8, (6, 3, 2), 0, 10)
    r.log_softmax(U8, S16, (4, 300), 1, 4)
    r.embedding(S16, 700, 6, 40)
    r.embedding(S8, 9, 3, 11)
    return r.program()


__all__ = ["SIGNED", "TYPES", "Conv2d", "Random", "everything"]
