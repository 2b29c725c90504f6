"""Random affine ops, each with an input and an output of its own, as one program."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnkit.program import Window
from nnkit.program.affine import (
    AffineActivation,
    AffineAdd,
    AffineConcat,
    AffineConv,
    AffineEmbedding,
    AffineLogSoftmax,
    AffineLookup,
    AffineMatMul,
    AffineMove,
    AffineMul,
    AffineNormalizeRows,
    AffineOp,
    AffinePool,
    AffineProgram,
    AffineSoftmax,
    AffineTensor,
    Requantize,
)
from nnkit.program.formats import Affine
from nnkit.program.row_arithmetic import AFFINE_PARTS
from nnkit.quantize.affine.accumulators import conv_accumulator, output_rows, sum_accumulator
from nnkit.quantize.affine.multipliers import multiplier_and_shift
from nnkit.quantize.row_constants import RowConstants


class RandomOps:
    """Draws ops. Tensors are of 8 or 16 bits, signed or not."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.tensors: dict[str, AffineTensor] = {}
        self.ops: list[AffineOp] = []
        self.inputs: list[str] = []

    def program(self, name: str) -> AffineProgram:
        """All that was drawn; every op's output is one of the program."""
        outputs = tuple(op.output for op in self.ops)
        return AffineProgram(name, self.tensors, tuple(self.ops), tuple(self.inputs), outputs)

    def conv(self, *, bits: int = 8, transposed: bool = False, depthwise: bool = False, slopes: bool = False) -> None:
        rng, low = self.rng, 1
        groups = int(rng.integers(2, 40)) if depthwise else int(rng.choice([1, 1, 2, 3]))
        per_in, per_out = (1, 1) if depthwise else (int(rng.integers(1, 10)), int(rng.integers(1, 8)))
        kernel_h, kernel_w = (int(each) for each in rng.integers(1, 5, 2))
        stride_h, stride_w = (int(each) for each in rng.integers(1, 4, 2))
        dilation_h, dilation_w = (int(each) for each in rng.integers(1, 3, 2))
        span_h, span_w = (kernel_h - 1) * dilation_h + 1, (kernel_w - 1) * dilation_w + 1
        pads = [int(rng.integers(0, max(span, 1))) for span in (span_h, span_w, span_h, span_w)]
        window = Window(kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, *pads)
        height, width = int(rng.integers(low, 9)) + span_h, int(rng.integers(low, 9)) + span_w
        source = self._input((per_in * groups, height, width), bits)
        if transposed:
            pads = [min(pads[0], (height - 1) * stride_h), min(pads[1], (width - 1) * stride_w), 0, 0]
            window = Window(kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, *pads)
            out_hw = ((height - 1) * stride_h + span_h - pads[0], (width - 1) * stride_w + span_w - pads[1])
            shape = (per_in * groups, per_out, kernel_h, kernel_w)
        else:
            out_hw = window.output_hw(height, width)
            shape = (per_out * groups, per_in, kernel_h, kernel_w)
        weight = rng.integers(-127, 128, shape).astype(np.int8)
        outputs = per_out * groups
        axis = None if transposed and groups > 1 else 1 if transposed else 0
        scales = 1 if axis is None else outputs
        form = Affine(8, (0.01,) * scales, (0,) * scales, axis, signed=True)
        bias = rng.integers(-5000, 5000, outputs).astype(np.int32)
        output = self._tensor((outputs, *out_hw), bits)
        spread = 80.0 * source.reach / 128 * np.sqrt(per_in * kernel_h * kernel_w)
        factors = output.format.qmax / 2 / spread * rng.uniform(0.2, 3.0, outputs)
        zeros = np.zeros((1,) * 4, np.int64)
        rows = output_rows(weight, zeros, groups, transposed=transposed)
        self.ops.append(
            AffineConv(
                **self._fields((source,), output),
                weight=weight,
                weight_format=form,
                bias=bias,
                window=window,
                groups=groups,
                pad_value=source.zero_point if rng.random() < 0.7 else int(rng.integers(0, 100)),
                transposed=transposed,
                requantize=self._stage(factors, output, slopes=slopes),
                accumulator=conv_accumulator(rows, bias, source, "op", wide=bits == 16),
            )
        )

    def pool(self, kind: Any, *, bits: int = 8, by_count: bool = False) -> None:
        rng = self.rng
        kernel_h, kernel_w = (int(each) for each in rng.integers(1, 4, 2))
        pads = [int(rng.integers(0, size)) for size in (kernel_h, kernel_w, kernel_h, kernel_w)]
        window = Window(kernel_h, kernel_w, *(int(each) for each in rng.integers(1, 3, 2)), 1, 1, *pads)
        height, width = int(rng.integers(3, 9)), int(rng.integers(3, 9))
        source = self._input((int(rng.integers(1, 14)), height, width), bits)
        shape = (source.shape[0], *window.output_hw(height, width))
        if kind == "max":
            output = self._named(shape, source.format)
            self.ops.append(AffinePool(**self._fields((source,), output), pool="max", window=window))
            return
        output = self._tensor(shape, bits)
        taps, factor = kernel_h * kernel_w, output.format.qmax / source.format.qmax * float(rng.uniform(0.5, 2))
        pairs = [(0, 1), *(multiplier_and_shift(factor / n) for n in range(1, taps + 1))]
        self.ops.append(
            AffinePool(
                **self._fields((source,), output),
                pool="average",
                window=window,
                requantize=self._stage(np.array([factor / taps]), output),
                by_count=tuple(np.array(pair, np.int64) for pair in pairs) if by_count else (),
                count_include_pad=not by_count,
            )
        )

    def add(self, *, bits: int = 8, slopes: bool = False) -> None:
        shape = self._shape()
        sources, output = (self._input(shape, bits), self._input(shape, bits)), self._tensor(shape, bits)
        shift, most = (20, 1 << 20) if bits == 8 else (30, 1 << 30)
        factors = tuple(int(self.rng.integers(1, most)) for _ in sources)
        stage = Requantize(np.array([1]), np.array([shift]), output.format.qmin, output.format.qmax)
        if slopes:
            stage = Requantize(
                np.array([1 << 20]), np.array([shift + 20]), stage.clip_min, stage.clip_max, np.array([100_000])
            )
        fields = self._fields(sources, output)
        self.ops.append(AffineAdd(**fields, multipliers=(factors[0], factors[1]), requantize=stage))

    def mul(self, *, by_channel: bool, bits: int = 8) -> None:
        shape = self._shape()
        second = (shape[0], 1, 1) if by_channel else shape
        sources, output = (self._input(shape, bits), self._input(second, bits)), self._tensor(shape, bits)
        factor = output.format.qmax / (sources[0].reach * sources[1].reach)
        self.ops.append(
            AffineMul(**self._fields(sources, output), requantize=self._stage(np.array([2 * factor]), output))
        )

    def activation(self, *, bits: int = 8) -> None:
        source = self._input(self._shape(), bits)
        output = self._tensor(source.shape, bits)
        factors = self.rng.uniform(0.5, 2.0, source.shape[0])
        self.ops.append(
            AffineActivation(**self._fields((source,), output), requantize=self._stage(factors, output, slopes=True))
        )

    def lookup(self, *, bits: int = 8) -> None:
        source = self._input(self._shape(), bits)
        output = self._tensor(source.shape, bits)
        table = self.rng.integers(output.format.qmin, output.format.qmax + 1, 1 << bits)
        self.ops.append(AffineLookup(**self._fields((source,), output), table=table, function="Tanh"))

    def embedding(self, *, bits: int = 8) -> None:
        """Indices of rows, some beyond the table."""
        source = self._named((40,), Affine(8, (1.0,), (0,)))
        self.inputs.append(source.name)
        output = self._tensor((40, 5), bits)
        low, high = output.format.qmin, output.format.qmax
        table = self.rng.integers(low, high + 1, (200, 5)).astype(output.format.dtype)
        self.ops.append(AffineEmbedding(**self._fields((source,), output), table=table))

    def softmax(self, *, bits: int = 8, axis: int = 0, rank: int = 3) -> None:
        """Over one of the axes of a map, or over the last axis of anything else."""
        source = self._input(self._shape() if rank == 3 else self._sizes(rank), bits)
        output = self._tensor(source.shape, bits)
        coarse, fine, numerator = AffineSoftmax.tables(source, output)
        self.ops.append(
            AffineSoftmax(**self._fields((source,), output), axis=axis, coarse=coarse, fine=fine, numerator=numerator)
        )

    def log_softmax(self, *, bits: int = 8, axis: int = 0, rank: int = 3) -> None:
        """Over an axis, as `softmax`."""
        source = self._input(self._shape() if rank == 3 else self._sizes(rank), bits)
        output = self._tensor(source.shape, bits)
        constants = AffineLogSoftmax.constants(source, output, source.shape[axis], "log_softmax")
        self.ops.append(AffineLogSoftmax(**self._fields((source,), output), axis=axis, **constants))

    def matmul(self, *, bits: int = 8, rank: int = 3) -> None:
        """[..., m, k] times [..., k, n]."""
        *outer, rows, depth = self._sizes(rank)
        columns = int(self.rng.integers(1, 11))
        a, b = (self._input((*outer, *each), bits) for each in ((rows, depth), (depth, columns)))
        output = self._tensor((*outer, rows, columns), bits)
        factor = output.format.qmax / (a.reach * b.reach * np.sqrt(depth))
        self.ops.append(
            AffineMatMul(
                **self._fields((a, b), output),
                requantize=self._stage(np.array([factor]), output),
                accumulator=sum_accumulator(depth * a.reach * b.reach),
            )
        )

    def normalize(self, *, bits: int = 8, rank: int = 2) -> None:
        """The last axis."""
        source = self._input(self._sizes(rank), bits)
        output = self._tensor(source.shape, bits)
        gain, offset = (self.rng.normal(0.5, 0.3, source.shape[-1]) for _ in range(2))
        constants = RowConstants.of(gain, offset, 1e-5, source.scale, output.scale, AFFINE_PARTS)
        self.ops.append(
            AffineNormalizeRows(
                **self._fields((source,), output),
                epsilon=constants.epsilon,
                gain=constants.gain,
                offset=constants.offset,
                shift=constants.shift,
                real_gain=gain.astype(np.float32),
                real_offset=offset.astype(np.float32),
                real_epsilon=1e-5,
            )
        )

    def concat(self) -> None:
        height, width = (int(each) for each in self.rng.integers(1, 6, 2))
        sources = [self._input((int(self.rng.integers(1, 6)), height, width), 8) for _ in range(3)]
        output = self._tensor((sum(source.shape[0] for source in sources), height, width), 8)
        stages = tuple(
            None if source.format == output.format else self._stage(self.rng.uniform(0.5, 2, 1), output)
            for source in sources
        )
        self.ops.append(AffineConcat(**self._fields(tuple(sources), output), requantize=stages))

    def move(self, move: Any) -> None:
        source = self._input(self._shape(), 8)
        channels, height, width = source.shape
        shape: tuple[int, ...] = source.shape
        options: dict[str, Any] = {}
        if move == "reshape":
            shape = (channels * height * width,) if self.rng.random() < 0.5 else (width, channels, height)
        elif move == "upsample":
            options, shape = {"scale_hw": (2, 3)}, (channels, 2 * height, 3 * width)
        elif move == "transpose":
            options, shape = {"order": (2, 0, 1)}, (width, channels, height)
        elif move == "slice":
            options, shape = {"starts": (0, height - 1, 0), "steps": (1, -1, 2)}, (channels, height, (width + 1) // 2)
        else:
            options, shape = {"pads": (1, 0, 2, 3), "pad_value": 7}, (channels, height + 3, width + 3)
        output = self._named(shape, source.format)
        self.ops.append(AffineMove(**self._fields((source,), output), move=move, **options))

    def _shape(self) -> tuple[int, int, int]:
        channels, height, width = (int(each) for each in self.rng.integers(1, 9, 3))
        return channels, height, width

    def _sizes(self, rank: int) -> tuple[int, ...]:
        return tuple(int(each) for each in self.rng.integers(1, 9, rank))

    def _input(self, shape: tuple[int, ...], bits: int) -> AffineTensor:
        tensor = self._tensor(shape, bits)
        self.inputs.append(tensor.name)
        return tensor

    def _tensor(self, shape: tuple[int, ...], bits: int) -> AffineTensor:
        scale = float(self.rng.uniform(0.01, 0.2)) / (1 << (bits - 8))
        if bits == 16 and self.rng.random() < 0.5:
            return self._named(shape, Affine(16, (scale,), (0,), signed=True))
        if bits == 16:
            return self._named(shape, Affine(16, (scale,), (int(self.rng.integers(0, 1 << 16)),)))
        if self.rng.random() < 0.5:
            return self._named(shape, Affine(8, (scale,), (int(self.rng.integers(-128, 128)),), signed=True))
        return self._named(shape, Affine(8, (scale,), (int(self.rng.integers(0, 256)),)))

    def _named(self, shape: tuple[int, ...], form: Affine) -> AffineTensor:
        name = f"t{len(self.tensors)}"
        self.tensors[name] = AffineTensor(name, shape, form)
        return self.tensors[name]

    def _fields(self, sources: tuple[AffineTensor, ...], output: AffineTensor) -> dict[str, Any]:
        names = tuple(source.name for source in sources)
        return {"name": f"op{len(self.ops)}", "inputs": names, "output": output.name}

    def _stage(self, factors: Any, output: AffineTensor, *, slopes: bool = False) -> Requantize:
        pairs = [multiplier_and_shift(float(factor)) for factor in factors]
        low, high = output.format.qmin, output.format.qmax
        if self.rng.random() < 0.3:
            low, high = low + 3, high - 9
        multipliers = np.array([pair[0] for pair in pairs], np.int64)
        negative = np.rint(multipliers * self.rng.uniform(-0.5, 0.9, multipliers.size)).astype(np.int64)
        return Requantize(
            multipliers, np.array([pair[1] for pair in pairs], np.int64), low, high, negative if slopes else None
        )
