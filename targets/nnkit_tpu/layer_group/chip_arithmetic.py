"""The chip's own INT8 arithmetic for the executor: an op computes the rows of its slice as `nnkit_tpu.execute` does.

Which rows an op needs is worked out here once more, from the op's definition. Rows outside the image become padding
of the slice, so that maximum pools and averages see what the whole op sees at the border. Weights are packed into the
bytes that the plan loads, and what an op computes with is read back from the bytes that lie in local memory.

The unsliced reference computes every op whole, with its own window and its own weights. An op that does not run in
INT8, or whose arithmetic is not integer, keeps the data-flow arithmetic of `kernels.py`; `without` says why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nnkit.program.formats import Affine
from nnkit.program.ops import Window
from nnkit.program.program import Tensor
from nnkit_tpu.layer_group.backward import Span
from nnkit_tpu.layer_group.data_flow import DataFlow, Values
from nnkit_tpu.layer_group.kernels import MissingRowsError, Rows
from nnkit_tpu.layer_group.model import GroupGraph, GroupOp
from nnkit_tpu.layer_group.packing import pack, unpack
from nnkit_tpu.program import (
    Cast,
    TpuActivation,
    TpuBinary,
    TpuConcat,
    TpuConv,
    TpuDeconv,
    TpuGraph,
    TpuOp,
    TpuPad,
    TpuPool,
    TpuReshape,
    TpuScale,
    TpuSlice,
    TpuUpsample,
)

Taken: TypeAlias = tuple[TpuOp, list[NDArray[Any]], int]
_SLICED = (
    *(TpuConv, TpuDeconv, TpuPool, TpuBinary, TpuConcat, TpuActivation),
    *(TpuSlice, TpuReshape, TpuUpsample, TpuPad, TpuScale),
)


class ChipArithmetic:
    """Arithmetic of a quantised graph; `graph` is the one that the planner's graph was made of.

    exact: names of the ops that compute as the chip does. without: why the others do not.
    """

    def __init__(self, graph: TpuGraph, planned: GroupGraph) -> None:
        self.source = graph
        self.data_flow = DataFlow()
        self.ops: dict[str, TpuOp] = {}
        self.without: dict[str, str] = {}
        for op in graph.ops:
            reason = _why_not(op, graph, planned)
            if reason:
                self.without[op.name] = reason
            else:
                read = [Cast(each.target, each.target) for each in op.casts]
                self.ops[op.name] = replace(op, casts=tuple(read))

    @property
    def exact(self) -> tuple[str, ...]:
        """Ops with the chip's arithmetic."""
        return tuple(self.ops)

    def values(self, graph: GroupGraph, seed: int) -> tuple[Values, Values]:
        """(inputs, weights): inputs at random over one byte, weights as the graph has them, packed."""
        inputs, weights = self.data_flow.values(graph, seed)
        for op in graph.ops:
            if op.name in self.ops:
                weights.update(pack(self.ops[op.name], op, graph.weights))
        return inputs, weights

    def whole(self, graph: GroupGraph, op: GroupOp, values: Mapping[str, NDArray[Any]], weights: Values) -> Any:
        """The unsliced op, its weights as the graph has them, not as they are packed."""
        if op.name not in self.ops:
            return self.data_flow.whole(graph, op, values, weights)
        mine = self.ops[op.name]
        sources = [self._real(name, how, values[name]) for name, how in zip(op.inputs, mine.casts, strict=True)]
        return self._stored(self._run(mine, sources, graph, values[op.inputs[0]].shape[0]))

    def compute(
        self,
        graph: GroupGraph,
        op: GroupOp,
        sources: Sequence[Rows],
        weights: Sequence[NDArray[Any]],
        rows: Span,
    ) -> NDArray[Any]:
        """`rows` of the op's output. Raises MissingRowsError where the sources do not hold what the op reads."""
        if op.name not in self.ops:
            return self.data_flow.compute(graph, op, sources, weights, rows)
        mine = unpack(self.ops[op.name], op, weights)
        images = sources[0].values.shape[0]
        if rows.length == graph.tensors[op.output].shape[2] and all(s.values.shape[2] == s.height for s in sources):
            held = [
                self._real(name, how, source.values)
                for name, how, source in zip(op.inputs, mine.casts, sources, strict=True)
            ]
            return self._stored(self._run(mine, held, graph, images))
        read = [
            Rows(_typed(source.values, how), source.first, source.height)
            for source, how in zip(sources, mine.casts, strict=True)
        ]
        changed, parts, skipped = _sliced(mine, read, rows)
        parts = [self._shaped(name, part) for name, part in zip(op.inputs, parts, strict=True)]
        result = self._run(changed, parts, graph, images)
        return self._stored(result[:, :, skipped : skipped + rows.length])

    def _run(self, op: TpuOp, sources: Sequence[NDArray[Any]], graph: GroupGraph, images: int) -> NDArray[Any]:
        """[images, c, rows, w] of an op on sources with the shapes of its own; image by image, as a program runs."""
        tensor = self.source.tensors[op.output]
        stored = tensor.format
        if not isinstance(stored, Affine):  # `_why_not` let none through
            raise TypeError(f"{op.name} gives no integers")
        output = Tensor(op.output, tensor.shape[1:], stored, stored.qmin, stored.qmax)
        made = [op.compute([source[i] for source in sources], output) for i in range(images)]
        channels, width = graph.tensors[op.output].shape[1], graph.tensors[op.output].shape[3]
        return np.stack(made).reshape(images, channels, -1, width)

    def _real(self, name: str, how: Cast, values: NDArray[Any]) -> NDArray[Any]:
        return self._shaped(name, _typed(values, how))

    def _shaped(self, name: str, values: NDArray[Any]) -> NDArray[Any]:
        """[n, c, rows, w] in the rank that the op knows; rows may be fewer than the tensor's."""
        shape = self.source.tensors[name].shape
        images, channels, height, _ = values.shape
        return values.reshape((images, channels, height, *shape[3:])[: max(len(shape), 1)])

    @staticmethod
    def _stored(values: NDArray[Any]) -> NDArray[Any]:
        """As the byte that lies in memory, read as signed."""
        return np.ascontiguousarray(values).view(np.int8)


def _typed(values: NDArray[Any], how: Cast) -> NDArray[Any]:
    """Stored bytes as the integers they mean."""
    unsigned = isinstance(how.target, Affine) and not how.target.signed
    return np.ascontiguousarray(values).view(np.uint8) if unsigned else values


def _why_not(op: TpuOp, graph: TpuGraph, planned: GroupGraph) -> str:
    if op.mode != "INT8":
        return f"it runs in {op.mode}"
    if not isinstance(op, _SLICED) and not any(each.name == op.name and each.not_local for each in planned.ops):
        return f"the {op.kind} is not computed in integers"
    if isinstance(op, TpuBinary) and op.constant is not None and op.constant.size > 1:
        return "its constant is not computed in integers"
    tensors = [planned.tensors[name] for name in (*op.inputs, op.output)]
    if any(tensor.dtype_bytes != 1 for tensor in tensors) or not isinstance(graph.tensors[op.output].format, Affine):
        return "it reads values of another precision"
    if not op.casts or not all(isinstance(each.target, Affine) for each in op.casts):
        return "it reads values of another precision"
    if any(tensor.shape[0] != planned.tensors[op.output].shape[0] for tensor in tensors):
        return "it reads every image at once"
    return ""


def _sliced(op: TpuOp, sources: Sequence[Rows], rows: Span) -> Taken:
    """(the op for its slice, what it reads, rows of its result to skip)."""
    first = sources[0]
    match op:
        case TpuConv() | TpuPool():
            window, taken = _windowed(op.window, first, rows)
            return replace(op, window=window), [taken], 0
        case TpuDeconv():
            return _deconvolution(op, first, rows)
        case TpuUpsample():
            start = rows.start // op.scale_h
            taken = _rows(first, start, (rows.stop - 1) // op.scale_h + 1)
            return op, [taken], rows.start - start * op.scale_h
        case TpuSlice() if len(op.offsets) > 2:
            start = op.offsets[2] + rows.start * op.steps[2]
            taken = _rows(first, start, op.offsets[2] + (rows.stop - 1) * op.steps[2] + 1)
            offsets = (*op.offsets[:2], 0, *op.offsets[3:])
            ends = (*op.ends[:2], taken.shape[2], *op.ends[3:])
            return replace(op, offsets=offsets, ends=ends), [taken], 0
        case TpuPad() if len(op.pads) > 4:
            rank = len(op.pads) // 2
            taken, above, below = _inside(first, rows.start - op.pads[2], rows.stop - op.pads[2])
            pads = list(op.pads)
            pads[2], pads[rank + 2] = above, below
            return replace(op, pads=tuple(pads)), [taken], 0
        case TpuBinary() | TpuActivation() | TpuScale():
            return op, [_rows(s, 0, 1) if s.height == 1 else _rows(s, rows.start, rows.stop) for s in sources], 0
        case TpuConcat() if op.axis != 2:
            return op, [_rows(source, rows.start, rows.stop) for source in sources], 0
        case _:  # it needs everything
            return op, [_rows(source, 0, source.height) for source in sources], rows.start


def _rows(source: Rows, start: int, stop: int) -> NDArray[Any]:
    """Rows start .. stop, all within the tensor."""
    taken, above, below = _inside(source, start, stop)
    if above or below:
        raise MissingRowsError(f"rows [{start}, {stop}) are read, of {source.height}")
    return taken


def _inside(source: Rows, start: int, stop: int) -> tuple[NDArray[Any], int, int]:
    """(the rows of start .. stop that lie in the tensor, how many lie above it, how many below)."""
    above, below = max(-start, 0), max(stop - source.height, 0)
    return source.take(start + above, stop - below), above, below


def _windowed(window: Window, source: Rows, rows: Span) -> tuple[Window, NDArray[Any]]:
    """The window with the padding that the slice itself has, and the rows it reads."""
    start = rows.start * window.stride_h - window.pad_top
    reach = (window.kernel_h - 1) * window.dilation_h
    taken, above, below = _inside(source, start, (rows.stop - 1) * window.stride_h - window.pad_top + reach + 1)
    return replace(window, pad_top=above, pad_bottom=below), taken


def _deconvolution(op: TpuDeconv, source: Rows, rows: Span) -> Taken:
    """Input row i reaches the output rows i * stride - pad + k * dilation."""
    window = op.window
    reach = (window.kernel_h - 1) * window.dilation_h
    start = max(-((reach - rows.start - window.pad_top) // window.stride_h), 0)
    stop = min((rows.stop - 1 + window.pad_top) // window.stride_h + 1, source.height)
    # A row between the reaches of two input rows gets the bias alone: a zero row stands for the earlier one.
    anchor = min(start, (rows.start + window.pad_top) // window.stride_h)
    taken = source.take(start, max(stop, start))
    taken = np.pad(taken, ((0, 0), (0, 0), (start - anchor, 0), (0, 0)))
    skipped = rows.start + window.pad_top - anchor * window.stride_h
    made = (taken.shape[2] - 1) * window.stride_h + reach + 1
    lacking = max(skipped + rows.length - made, 0)
    changed = replace(
        op,
        window=replace(window, pad_top=0, pad_bottom=0),
        output_padding=(lacking, op.output_padding[1]),
    )
    return changed, [taken], skipped
