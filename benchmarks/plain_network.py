"""A Program as plain C: one call a layer of the functions in `plain/`, every tensor in a buffer of its own.

The generated program runs one input, counts each layer and writes out every tensor, so that its results are compared
with the simulator's before its counts are believed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

from nnkit.program import (
    Activation,
    Add,
    Concat,
    Conv2d,
    ConvTranspose2d,
    Fixed,
    FusedPool,
    Mul,
    Op,
    OutputStage,
    Pad,
    Pool,
    Program,
    Reshape,
    Tensor,
    Upsample,
    Window,
)

Style: TypeAlias = Literal["plain", "careful"]
STYLES: tuple[Style, ...] = ("plain", "careful")


@dataclass(frozen=True)
class PlainNetwork:
    """`main.c`, and `weights.bin` that it reads beside `inputs.bin`. outputs: tensors in the order of tensors.bin."""

    source: str
    weights: bytes
    outputs: tuple[str, ...]


def plain_network(program: Program, style: Style) -> PlainNetwork:
    """The C program of `program`. Raises NotImplementedError for an op that the plain functions do not cover."""
    writer = _Writer(program, style)
    for index, op in enumerate(program.ops):
        writer.op(index, op)
    return PlainNetwork(writer.source(), bytes(writer.weights), tuple(op.output for op in program.ops))


@dataclass
class _Writer:
    program: Program
    style: Style
    weights: bytearray = field(default_factory=bytearray)
    _instances: dict[str, str] = field(default_factory=dict)
    _constants: list[str] = field(default_factory=list)
    _calls: list[str] = field(default_factory=list)
    _scratch: list[int] = field(default_factory=lambda: [8, 8])  # bytes of a padded copy, of what feeds a pool

    def op(self, index: int, op: Op) -> None:
        write: Mapping[type, Callable[[str, Any], list[str]]] = {
            Conv2d: self._conv,
            ConvTranspose2d: self._transposed,
            Pool: self._pool,
            Add: self._elementwise,
            Mul: self._elementwise,
            Activation: self._elementwise,
            Concat: self._concat,
            Upsample: self._move,
            Pad: self._move,
            Reshape: self._copy,
        }
        size = self.program.tensors[op.output].size_bytes
        calls = write[type(op)](f"l{index}", op)
        self._calls += [
            f"    /* {op.name.replace('*/', '* /')} */",
            "    start = harness_count();",
            *(f"    {call};" for call in calls),
            f"    harness_measure({index}, harness_count() - start);",
            f"    harness_tensor({self._place(op.output)}, {size});",
        ]

    def source(self) -> str:
        program = self.program
        names = [*program.inputs, *(op.output for op in program.ops)]
        tensors = [f"static uint64_t t{i}[{program.tensors[n].size_bytes // 8 + 1}];" for i, n in enumerate(names)]
        scratch = [
            f"static uint64_t scratch{i}[{size // 8 + 1}] __attribute__((unused));"
            for i, size in enumerate(self._scratch)
        ]
        inputs = [f'    harness_read("input{i}.bin", t{i}, {program.tensors[n].size_bytes});'
                  for i, n in enumerate(program.inputs)]  # fmt: skip
        weights = f"static uint64_t weights[{len(self.weights) // 8 + 1}];"
        return "\n".join(
            [
                '#include "plain.h"',
                '#include "harness.h"',
                "#include <string.h>",
                *self._instances.values(),
                *tensors,
                *scratch,
                weights,
                *self._constants,
                "int main(void)\n{\n    uint32_t start;\n",
                "    harness_open();",
                f'    harness_read("weights.bin", weights, {len(self.weights)});' if self.weights else "",
                *inputs,
                *self._calls,
                "    harness_close();\n    return 0;\n}\n",
            ]
        )

    def _conv(self, name: str, op: Conv2d) -> list[str]:
        x, y = self.program.tensors[op.inputs[0]], self.program.tensors[op.output]
        channels, in_h, in_w = _chw(x)
        out_h, out_w = op.window.output_hw(in_h, in_w)
        sizes = (channels, in_h, in_w, op.weight.shape[0], out_h, out_w)
        self._conv_constant(name, sizes, op, op.pad_value, y.fixed)
        function = f"conv_{self.style}{'_running' if op.accumulate == 'running' else ''}"
        suffix = self._conv_instance(op, x.fixed, y.fixed)
        rows = (out_h - 1) * op.window.stride_h + (op.window.kernel_h - 1) * op.window.dilation_h + 1
        columns = (out_w - 1) * op.window.stride_w + (op.window.kernel_w - 1) * op.window.dilation_w + 1
        copy = ""
        if self.style == "careful":
            copy = ", (void *)scratch0"
            self._need(0, channels * rows * columns * x.format.bytes)
        to = self._place(op.output)
        if op.pool is not None:
            to = "scratch1"
            self._need(1, op.weight.shape[0] * out_h * out_w * y.format.bytes)
        values = f"{self._weights(op, op.weight_bits)}, (void *){to}"
        calls = [f"{function}{suffix}(&{name}, (const void *){self._place(op.inputs[0])}, {values}{copy})"]
        if op.pool is not None:
            between = Tensor("", (op.weight.shape[0], out_h, out_w), y.format, y.low, y.high)
            calls.append(self._pool_call(f"{name}_pool", op.pool, between, y, to, (y.fixed.qmin, y.fixed.qmax), op))
        return calls

    def _transposed(self, name: str, op: ConvTranspose2d) -> list[str]:
        x, y = self.program.tensors[op.inputs[0]], self.program.tensors[op.output]
        self._conv_constant(name, (*_chw(x), *_chw(y)), op, 0, y.fixed)
        self._need(1, y.elements * (8 if op.accumulator == "int64" else 4))
        suffix = self._conv_instance(op, x.fixed, y.fixed)
        places = f"{self._weights(op, op.weight_bits)}, (void *){self._place(op.output)}, (void *)scratch1"
        return [f"conv_transposed{suffix}(&{name}, (const void *){self._place(op.inputs[0])}, {places})"]

    def _pool(self, name: str, op: Pool) -> list[str]:
        x, y = self.program.tensors[op.inputs[0]], self.program.tensors[op.output]
        clip = (max(op.clip_min, y.fixed.qmin), min(op.clip_max, y.fixed.qmax))
        return [self._pool_call(name, op, x, y, self._place(op.inputs[0]), clip, op)]

    def _pool_call(
        self, name: str, pool: Pool | FusedPool, x: Tensor, y: Tensor, source: str, clip: tuple[int, int], op: Op
    ) -> str:
        kind = pool.pool if isinstance(pool, Pool) else pool.kind
        table = "0"
        counts = pool.multipliers_by_count if isinstance(pool, Pool) else ()
        if counts:
            table = f"{name}_counts"
            self._constants.append(f"static const int32_t {table}[] = {{{', '.join(map(str, counts))}}};")
        channels, in_h, in_w = _chw(x)
        values = f"{channels}, {in_h}, {in_w}, {_chw(y)[1]}, {_chw(y)[2]}, {_window(pool.window)}"
        values += f", {pool.multiplier}, {pool.shift}, {clip[0]}, {clip[1]}, {table}"
        self._constants.append(f"static const struct pool {name} = {{{values}}};")
        suffix = self._other_instance(x.fixed, x.fixed, y.fixed, 32)
        return f"{kind}_pool{suffix}(&{name}, (const void *){source}, (void *){self._place(op.output)})"

    def _elementwise(self, name: str, op: Add | Mul | Activation) -> list[str]:
        tensors = [self.program.tensors[n] for n in op.inputs]
        y = self.program.tensors[op.output]
        shifts = op.shifts if isinstance(op, Add) else (0, 0)
        per_channel = isinstance(op, Mul) and tensors[1].elements != y.elements
        channels, height, width = _chw(y)
        stage = self._stage(name, op.stage, y.fixed)
        values = f"{channels}, {height * width}, {shifts[0]}, {shifts[1]}, {int(per_channel)}, {stage}"
        self._constants.append(f"static const struct elementwise {name} = {{{values}}};")
        bits = 64 if op.accumulator == "int64" else 32
        suffix = self._other_instance(tensors[0].fixed, tensors[-1].fixed, y.fixed, bits)
        function = "add" if isinstance(op, Add) else "mul" if isinstance(op, Mul) else "requantize"
        places = ", ".join(f"(const void *){self._place(n)}" for n in op.inputs)
        return [f"{function}{suffix}(&{name}, {places}, (void *){self._place(op.output)})"]

    def _concat(self, name: str, op: Concat) -> list[str]:
        y = self.program.tensors[op.output]
        calls, offset = [], 0
        for index, (part, shift) in enumerate(zip(op.inputs, op.shifts, strict=True)):
            x = self.program.tensors[part]
            to = f"(void *)((uint8_t *){self._place(op.output)} + {offset})"
            source = self._place(part)
            offset += x.elements * y.format.bytes
            if shift == 0 and x.format == y.format:
                calls.append(f"memcpy({to}, {source}, {x.size_bytes})")
                continue
            stage = self._stage(name, OutputStage(shift, y.fixed.qmin, y.fixed.qmax), y.fixed)
            values = f"{_chw(x)[0]}, {_chw(x)[1] * _chw(x)[2]}, 0, 0, 0, {stage}"
            self._constants.append(f"static const struct elementwise {name}_{index} = {{{values}}};")
            suffix = self._other_instance(x.fixed, x.fixed, y.fixed, 32)
            calls.append(f"requantize{suffix}(&{name}_{index}, (const void *){source}, {to})")
        return calls

    def _move(self, name: str, op: Upsample | Pad) -> list[str]:
        x, y = self.program.tensors[op.inputs[0]], self.program.tensors[op.output]
        own = (op.scale_h, op.scale_w, 0, 0, 0) if isinstance(op, Upsample) else (1, 1, op.top, op.left, op.value)
        sizes = (*_chw(x), *_chw(y)[1:], *own)
        self._constants.append(f"static const struct move {name} = {{{', '.join(map(str, sizes))}}};")
        suffix = self._other_instance(x.fixed, x.fixed, y.fixed, 32)
        places = f"(const void *){self._place(op.inputs[0])}, (void *){self._place(op.output)}"
        return [f"{op.kind}{suffix}(&{name}, {places})"]

    def _copy(self, name: str, op: Reshape) -> list[str]:
        size = self.program.tensors[op.output].size_bytes
        return [f"memcpy({self._place(op.output)}, {self._place(op.inputs[0])}, {size})"]

    def _conv_constant(
        self, name: str, sizes: tuple[int, ...], op: Conv2d | ConvTranspose2d, pad_value: int, storage: Fixed
    ) -> None:
        stage = self._stage(name, op.stage, storage)
        values = f"{', '.join(map(str, sizes))}, {op.groups}, {_window(op.window)}, {pad_value}, {op.bias_shift}"
        self._constants.append(f"static const struct conv {name} = {{{values}, {stage}}};")

    def _stage(self, name: str, stage: OutputStage, storage: Fixed) -> str:
        slopes, count, slope_shift = "0", 0, 0
        if stage.leaky is not None:
            slopes, count, slope_shift = f"{name}_slopes", stage.leaky.slopes.size, stage.leaky.shift
            values = ", ".join(str(int(v)) for v in stage.leaky.slopes)
            self._constants.append(f"static const int16_t {slopes}[] = {{{values}}};")
        limits = f"{storage.qmin}, {storage.qmax}, {stage.clip_min}, {stage.clip_max}"
        return f"{{{stage.shift}, {limits}, {count}, {slope_shift}, {slopes}}}"

    def _weights(self, op: Conv2d | ConvTranspose2d, bits: int) -> str:
        """C pointers to the layer's weights and biases, which are appended to weights.bin."""
        places = []
        for values, dtype in ((op.weight, f"<i{bits // 8}"), (op.bias, "<i4")):
            self.weights += bytes(-len(self.weights) % 8)
            places.append(f"(const void *)((const uint8_t *)weights + {len(self.weights)})")
            self.weights += np.ascontiguousarray(values, dtype=dtype).tobytes()
        return ", ".join(places)

    def _conv_instance(self, op: Conv2d | ConvTranspose2d, x: Fixed, y: Fixed) -> str:
        bits = 64 if op.accumulator == "int64" else 32
        types = {"X_T": _c(x), "W_T": _c(Fixed(op.weight_bits, 0)), "Y_T": _c(y)}
        return self._instance("conv.inc", types, bits)

    def _other_instance(self, a: Fixed, b: Fixed, y: Fixed, bits: int) -> str:
        return self._instance("other.inc", {"A_T": _c(a), "B_T": _c(b), "Y_T": _c(y)}, bits)

    def _instance(self, file: str, types: Mapping[str, str], bits: int) -> str:
        suffix = "_" + "_".join([file.split(".")[0], *(t.removesuffix("_t") for t in types.values()), str(bits)])
        defines = [f"#define {macro} {value}" for macro, value in types.items()]
        defines += [f"#define ACC_T int{bits}_t", f"#define FINISH finish{bits}", f"#define NAME(f) f##{suffix}"]
        self._instances.setdefault(suffix, "\n".join([*defines, f'#include "{file}"']))
        return suffix

    def _need(self, scratch: int, size_bytes: int) -> None:
        self._scratch[scratch] = max(self._scratch[scratch], size_bytes)

    def _place(self, tensor: str) -> str:
        if tensor in self.program.inputs:
            return f"t{self.program.inputs.index(tensor)}"
        outputs = [op.output for op in self.program.ops]
        return f"t{len(self.program.inputs) + outputs.index(tensor)}"


def _chw(tensor: Tensor) -> tuple[int, int, int]:
    channels, height, width = (*tensor.shape, 1, 1)[:3]
    return channels, height, width


def _c(storage: Fixed) -> str:
    return f"{'' if storage.signed else 'u'}int{storage.bits}_t"


def _window(w: Window) -> str:
    sizes = (w.kernel_h, w.kernel_w, w.stride_h, w.stride_w, w.dilation_h, w.dilation_w, w.pad_top, w.pad_left)
    return f"{{{', '.join(map(str, sizes))}}}"
