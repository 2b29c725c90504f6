"""The first axis of every value is that of images, of which a program computes one.

Networks put other things there in between: the three parts of an attention, windows of an image, steps of a sequence.
Such a value [P, ...] becomes [1, P, ...], ops on it work one axis further on, and reshapes stand where it begins and
ends. Convolutions and pools compute all P images as the channels of one, in P times as many groups, with the same
weights for each, as long as these do not become too many.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from nnkit.graph.refusal import Refusal, Refused
from nnkit.graph.view import Shape
from nnkit_tpu.lowering.reading import as_one_number
from nnkit_tpu.program import (
    TpuActivation,
    TpuBinary,
    TpuConcat,
    TpuConv,
    TpuLayerNorm,
    TpuMatMul,
    TpuOp,
    TpuPad,
    TpuPermute,
    TpuPool,
    TpuReduce,
    TpuReshape,
    TpuScale,
    TpuSlice,
    TpuSoftmax,
)

_MOST_WEIGHTS = 1 << 20  # of a convolution for all images; those of an image stand there for each


class ImagesFirst:
    """Rewrites the ops of one network. shape: of a value as the network has it.

    ops: the result. shapes: of the values that have got another shape or are new. refusals: ops that cannot be moved.
    """

    def __init__(self, ops: Sequence[TpuOp], shape: Callable[[str], Shape]) -> None:
        self._shape = shape
        self.ops: list[TpuOp] = []
        self.shapes: dict[str, Shape] = {}
        self.refusals: list[Refusal] = []
        for op in ops:
            try:
                self._add(op)
            except Refused as refused:
                self.refusals.append(Refusal(op.name, op.kind, refused.reason, refused.remedy))

    def is_moved(self, name: str) -> bool:
        """Whether the value has something else than one image in front."""
        return bool(self._shape(name)) and self._shape(name)[0] != 1

    def _add(self, op: TpuOp) -> None:
        if not any(self.is_moved(name) for name in (op.output, *op.inputs)):
            self.ops.append(op)
            return
        if self.is_moved(op.output):
            self.shapes[op.output] = (1, *self._shape(op.output))
        if isinstance(op, TpuReshape):
            self.ops.append(op)
            return
        if isinstance(op, TpuConv | TpuPool):
            self._add_as_channels(op)
            return
        moved = replace(_one_axis_on(op, self._shape(op.inputs[0])), inputs=tuple(map(self._in_front, op.inputs)))
        if self.is_moved(op.output):
            self.ops.append(moved)
            return
        within = f"{op.output}_within"
        self.shapes[within] = (1, *self._shape(op.output))
        self.ops.append(replace(moved, output=within, range_of=op.output))
        self.ops.append(TpuReshape(name=f"{op.name}_shape", inputs=(within,), output=op.output, origins=op.origins))

    def _add_as_channels(self, op: TpuConv | TpuPool) -> None:
        """The op on its images as channels of one. Raises Refused."""
        source, given = op.inputs[0], self._shape(op.output)
        images, channels, *size = self._shape(source)
        joined, made = f"{op.output}_images", f"{op.output}_of_images"
        if isinstance(op, TpuConv):
            if op.weight.size * images > _MOST_WEIGHTS:
                raise _refused(images)
            bias = None if op.bias is None else np.tile(op.bias, images)
            weight = np.tile(op.weight, (images, 1, 1, 1))
            op = replace(op, weight=weight, bias=bias, group=op.group * images)
        self.shapes[joined] = (1, images * channels, *size)
        self.shapes[made] = (1, images * given[1], *given[2:])
        self.ops += [
            TpuReshape(name=joined, inputs=(source,), output=joined, range_of=source),
            replace(op, inputs=(joined,), output=made, range_of=op.output),
            TpuReshape(name=f"{op.name}_shape", inputs=(made,), output=op.output, origins=op.origins),
        ]

    def _in_front(self, name: str) -> str:
        """The value with another axis in front."""
        if self.is_moved(name):
            return name
        made = f"{name}_in_front"
        if made not in self.shapes:
            self.shapes[made] = (1, *self._shape(name))
            self.ops.append(TpuReshape(name=made, inputs=(name,), output=made, range_of=name))
        return made


def _one_axis_on(op: TpuOp, shape: Shape) -> TpuOp:
    """The op on values with one more axis in front; shape: of its first input without. Raises Refused."""
    match op:
        case TpuPermute():
            return replace(op, order=(0, *(axis + 1 for axis in op.order)))
        case TpuSlice():
            return replace(op, offsets=(0, *op.offsets), steps=(1, *op.steps), ends=(1, *op.ends))
        case TpuConcat() | TpuSoftmax() | TpuLayerNorm():
            return replace(op, axis=op.axis + 1)
        case TpuReduce():
            return replace(op, axes=tuple(axis + 1 for axis in op.axes))
        case TpuPad():
            half = len(op.pads) // 2
            return replace(op, pads=(0, *op.pads[:half], 0, *op.pads[half:]))
        case TpuMatMul():
            return op
        case TpuActivation() if op.function != "prelu":
            return op
        case TpuBinary() if op.constant is None or op.constant.size == 1:
            return op
        case TpuBinary() if op.constant is not None:
            return replace(op, constant=op.constant[np.newaxis])
        case TpuScale() if np.all(op.scale == 1) or not np.any(op.bias):
            added = bool(np.all(op.scale == 1))
            constant = (op.bias if added else op.scale).reshape(1, 1, -1, *(1,) * (len(shape) - 2))
            return TpuBinary(
                name=op.name,
                inputs=op.inputs,
                output=op.output,
                tags=op.tags,
                origins=op.origins,
                function="add" if added else "mul",
                constant=as_one_number(constant),
            )
        case _:
            raise _refused(shape[0])


def _refused(images: int) -> Refused:
    return Refused(
        f"its first axis has {images} entries, not one image",
        "compute one image at a time, or move the axis behind the others",
    )
