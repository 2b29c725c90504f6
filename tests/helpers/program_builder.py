"""Builds Programs by hand for tests that care about shapes, lifetimes and sizes and not about values."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from nnkit.memory.needs import KernelNeeds
from nnkit.program import (
    Activation,
    Add,
    Concat,
    Conv2d,
    Fixed,
    FusedPool,
    Mul,
    Op,
    OutputStage,
    Pool,
    Program,
    Reshape,
    Tensor,
    Upsample,
    Window,
)

STAGE = OutputStage(0, -(2**15), 2**15 - 1)


class ProgramBuilder:
    """Appends ops; every method returns the name of the value it makes. Weights are zero, biases the op's number."""

    def __init__(self, bits: int = 16) -> None:
        self.bits = bits
        self.tensors: dict[str, Tensor] = {}
        self.ops: list[Op] = []
        self.inputs: list[str] = []

    def _tensor(self, name: str, shape: Sequence[int], bits: int | None = None) -> str:
        form = Fixed(bits or self.bits, 0)
        self.tensors[name] = Tensor(name, tuple(shape), form, form.qmin, form.qmax)
        return name

    def shape(self, name: str) -> tuple[int, ...]:
        return self.tensors[name].shape

    def input(self, *shape: int, name: str | None = None) -> str:
        name = name or f"in{len(self.inputs)}"
        self.inputs.append(name)
        return self._tensor(name, shape)

    def _name(self, name: str | None, kind: str) -> str:
        return name or f"{kind}{len(self.ops)}"

    def conv(
        self,
        x: str,
        channels: int,
        kernel: int = 1,
        *,
        stride: int = 1,
        pad: int = 0,
        pool: tuple[int, int] | None = None,
        groups: int = 1,
        name: str | None = None,
        bits: int | None = None,
    ) -> str:
        """A convolution; pool = (window, stride) of a fused max pool."""
        name = self._name(name, "conv")
        in_channels, height, width = self.shape(x)
        window = Window(kernel, kernel, stride, stride, 1, 1, pad, pad, pad, pad)
        out_h, out_w = window.output_hw(height, width)
        fused = None
        if pool:
            fused = FusedPool("max", Window(pool[0], pool[0], pool[1], pool[1]))
            out_h, out_w = fused.window.output_hw(out_h, out_w)
        self.ops.append(
            Conv2d(
                name=name,
                inputs=(x,),
                output=self._tensor(f"{name}_v", (channels, out_h, out_w), bits),
                weight=np.zeros((channels, in_channels // groups, kernel, kernel), np.int16),
                weight_bits=self.bits,
                weight_frac=0,
                bias=np.full(channels, len(self.ops), np.int32),
                bias_frac=0,
                bias_shift=0,
                window=window,
                stage=STAGE,
                groups=groups,
                pool=fused,
            )
        )
        return f"{name}_v"

    def pool(self, x: str, kernel: int, stride: int, name: str | None = None) -> str:
        name = self._name(name, "pool")
        channels, height, width = self.shape(x)
        window = Window(kernel, kernel, stride, stride)
        output = self._tensor(f"{name}_v", (channels, *window.output_hw(height, width)))
        self.ops.append(
            Pool(name=name, inputs=(x,), output=output, pool="max", window=window, clip_min=-1, clip_max=1)
        )
        return output

    def add(self, a: str, b: str, name: str | None = None) -> str:
        name = self._name(name, "add")
        output = self._tensor(f"{name}_v", self.shape(a))
        self.ops.append(Add(name=name, inputs=(a, b), output=output, shifts=(0, 0), stage=STAGE))
        return output

    def mul(self, a: str, b: str, name: str | None = None) -> str:
        name = self._name(name, "mul")
        output = self._tensor(f"{name}_v", self.shape(a))
        self.ops.append(Mul(name=name, inputs=(a, b), output=output, stage=STAGE))
        return output

    def activation(self, x: str, name: str | None = None, bits: int | None = None) -> str:
        name = self._name(name, "act")
        output = self._tensor(f"{name}_v", self.shape(x), bits)
        self.ops.append(Activation(name=name, inputs=(x,), output=output, stage=STAGE))
        return output

    def concat(self, *parts: str, shifts: Sequence[int] | None = None, name: str | None = None) -> str:
        name = self._name(name, "concat")
        channels = sum(self.shape(part)[0] for part in parts)
        output = self._tensor(f"{name}_v", (channels, *self.shape(parts[0])[1:]))
        self.ops.append(Concat(name=name, inputs=parts, output=output, shifts=tuple(shifts or [0] * len(parts))))
        return output

    def reshape(self, x: str, *shape: int, name: str | None = None) -> str:
        name = self._name(name, "reshape")
        assert prod(shape) == prod(self.shape(x))
        output = self._tensor(f"{name}_v", shape, self.tensors[x].format.bits)
        self.ops.append(Reshape(name=name, inputs=(x,), output=output))
        return output

    def upsample(self, x: str, scale: int, name: str | None = None) -> str:
        name = self._name(name, "upsample")
        channels, height, width = self.shape(x)
        output = self._tensor(f"{name}_v", (channels, height * scale, width * scale))
        self.ops.append(Upsample(name=name, inputs=(x,), output=output, scale_h=scale, scale_w=scale))
        return output

    def fire(self, x: str, squeeze: int, expand: int, name: str, pool: tuple[int, int] | None = None) -> str:
        """A Fire module; a pool after the concatenation is fused into both expand layers."""
        s = self.conv(x, squeeze, name=f"{name}.squeeze")
        a = self.conv(s, expand, name=f"{name}.expand1x1", pool=pool)
        b = self.conv(s, expand, 3, pad=1, name=f"{name}.expand3x3", pool=pool)
        return self.concat(a, b, name=name)

    def build(self, *outputs: str, name: str = "net") -> Program:
        return Program(name, self.tensors, tuple(self.ops), tuple(self.inputs), outputs or (self.ops[-1].output,))


def face_network(bits: int = 16) -> Program:
    """The published GAP8 face descriptor network: SqueezeNet 1.1 on 128x128 gray, pools fused, 26 convolutions."""
    net = ProgramBuilder(bits)
    x = net.input(1, 128, 128, name="image")
    x = net.conv(x, 3, name="conv1")
    x = net.conv(x, 64, 3, stride=2, pool=(3, 2), name="conv2")
    for number, (squeeze, expand, pool) in enumerate(
        [
            (16, 64, None),
            (16, 64, (3, 2)),
            (32, 128, None),
            (32, 128, (3, 2)),
            (48, 192, None),
            (48, 192, None),
            (64, 256, None),
            (64, 256, None),
        ],
        start=1,
    ):
        x = net.fire(x, squeeze, expand, f"fire{number}", pool)
    x = net.pool(x, 7, 1, name="gap")
    return net.build(net.reshape(x, 512, name="descriptor"), name="face")


def published_weight_bytes(op: Op) -> int:
    """Weights and bias of a convolution as the published application stores them: int16 both."""
    return 2 * (op.weight.size + op.bias.size) if isinstance(op, Conv2d) else 0


def block_needs(op: Op) -> KernelNeeds:
    """Needs as a register-blocked kernel has them: 4 channels to a block, im2row scratch in L1 for larger windows."""
    if not isinstance(op, Conv2d):
        return KernelNeeds()
    taps = op.weight[0].size
    block = 4 * 4 + -(-4 * taps * (op.weight_bits // 8) // 4) * 4
    gathers = op.window.kernel_h > 1
    return KernelNeeds(
        scratch_bytes=(("l1", 4 * taps * 2),) if gathers else (),
        weight_block_bytes=(block,) * -(-op.weight.shape[0] // 4),
        min_blocks_per_chunk=4 if gathers else 1,
        repacks_input=gathers,
    )
