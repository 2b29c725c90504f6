"""Thresholds of averages, sums and concatenations on the cv18xx, with which their multipliers lose nothing.

These multipliers have 7 bits and are cut off: all averages of all images, and what is added up, may come out 1.6 %
too small, twice what one step of 8 bits is; of a sum's operands, which share a shift, that of the smaller scale by
more. Thresholds are free: a result's that is wider by as much makes the multiplier of an average, or that of one
operand of a sum, whole; an operand's makes its own. Means and sums over axes have such multipliers, too.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeGuard

import numpy as np

from nnkit_tpu.arithmetic import joint_multipliers
from nnkit_tpu.compiler_thresholds import Threshold, scaled_by
from nnkit_tpu.program import TpuActivation, TpuBinary, TpuConcat, TpuGraph, TpuOp, TpuPool, TpuReduce
from nnkit_tpu.unlike_sums import adds_unlike_ranges

_STATED = 1e7  # thresholds are stated with seven decimals
_ABOVE = 1.0 + 2.0**-21  # times the whole number: the compiler computes in float32, and cuts off
_WIDER = 1.0 + 1.0 / 32  # what else reads an operand gets no coarser steps than this times
_UP_TO_ONE = ("sigmoid", "hard_sigmoid")


def with_whole_multipliers(
    graph: TpuGraph, chosen: Mapping[str, Threshold], formats: Mapping[str, str]
) -> dict[str, Threshold]:
    """The thresholds, some as much wider as makes multipliers of 7 bits whole.

    formats: by tensor, a name of the format that it shares with others. A result that shares it with more than
    what is moved from it, as with other parts of a concatenation, keeps its threshold, as does an operand that an op
    gives whose multiplier is whole already.
    """
    return _Widened(graph, chosen, formats).thresholds()


class _Widened:
    def __init__(self, graph: TpuGraph, chosen: Mapping[str, Threshold], formats: Mapping[str, str]) -> None:
        self.graph, self.result, self.formats = graph, dict(chosen), formats
        self.makers = Counter(formats[op.output] for op in graph.ops if formats[op.output] != formats[op.inputs[0]])
        self.kept = {formats[name] for name in graph.inputs}  # formats that nothing may change any more
        for op in graph.ops:
            if scaled_by(op) is not None:
                self.kept |= {formats[op.inputs[0]], formats[op.output]}
            if isinstance(op, TpuActivation) and op.function in _UP_TO_ONE:
                self.kept.add(formats[op.output])

    def thresholds(self) -> dict[str, Threshold]:
        for op in self.graph.ops:
            values = _values(op, self.graph.tensors[op.inputs[0]].shape)
            if values is not None and self.makers[self.formats[op.output]] == 1:
                self._widen_result(op, op.inputs[0], values)
                self.kept |= {self.formats[name] for name in (*op.inputs, op.output)}
            elif _adds(op) and not adds_unlike_ranges(op, self.result):
                self._widen_sum(op)
                self.kept |= {self.formats[name] for name in (*op.inputs, op.output)}
            elif isinstance(op, TpuConcat):
                for name in op.inputs:
                    self._widen_operand(name, op, *self._multiplier(name, op.output))
                self.kept |= {self.formats[name] for name in (*op.inputs, op.output)}
        return self.result

    def _multiplier(self, source: str, made: str, values: float = 1.0) -> tuple[int, int]:
        (multiplier,), shift = joint_multipliers(
            np.array([self.result[source].value / (values * self.result[made].value)])
        )
        return multiplier, shift

    def _widen_sum(self, op: TpuOp) -> None:
        """The result for an operand whose threshold is kept, or that of the larger scale; then the other one."""
        first = max(op.inputs, key=lambda name: (not self._is_free(name), self.result[name].value))
        if self._is_free(op.output):
            self._widen_result(op, first)
        larger = max(op.inputs, key=lambda name: self.result[name].value)
        _, shift = self._multiplier(larger, op.output)
        for name in dict.fromkeys(op.inputs):
            real = self.result[name].value / self.result[op.output].value * 2.0**shift
            self._widen_operand(name, op, math.floor(real), shift)

    def _widen_result(self, op: TpuOp, source: str, values: float = 1.0) -> None:
        multiplier, shift = self._multiplier(source, op.output, values)
        if multiplier:
            whole = self.result[source].value * 2.0**shift / (values * multiplier * _ABOVE)
            self._set(op.output, math.floor(whole * _STATED) / _STATED)

    def _widen_operand(self, name: str, reader: TpuOp, multiplier: int, shift: int) -> None:
        """The operand, so that its multiplier is the next whole number, where it is free and readers lose little."""
        made, own = self.result[reader.output].value, self.result[name].value
        real = own / made * 2.0**shift
        if self.formats[name] == self.formats[reader.output] or not self._is_free(name) or real < 1:
            return
        if real - multiplier < 2.0**-20 * multiplier:
            return
        wider = math.ceil(made * (multiplier + 1) * _ABOVE / 2.0**shift * _STATED) / _STATED
        if wider < made and (self._serves_alone(name, reader) or wider <= own * _WIDER):
            self._set(name, wider)

    def _serves_alone(self, name: str, reader: TpuOp) -> bool:
        """Whether nothing but the reader reads integers of the operand's format, wherever they are moved to."""
        held = [each for each in self.graph.tensors if self.formats[each] == self.formats[name]]
        readers = [op for each in held for op in self.graph.consumers(each) if op.output not in held]
        return all(op is reader for op in readers) and not set(held).intersection(self.graph.outputs)

    def _is_free(self, name: str) -> bool:
        root = self.formats[name]
        return root not in self.kept and self.makers[root] == 1

    def _set(self, name: str, value: float) -> None:
        root = self.formats[name]
        for each in (each for each in self.graph.tensors if self.formats[each] == root):
            self.result[each] = replace(self.result[each], value=value)


def _adds(op: TpuOp) -> TypeGuard[TpuBinary]:
    return isinstance(op, TpuBinary) and op.function in ("add", "sub") and len(op.inputs) == 2


def _values(op: TpuOp, shape: Sequence[int]) -> int | None:
    """What the op divides a sum by that its multiplier rescales; None: it has no such multiplier."""
    if isinstance(op, TpuPool) and op.function == "average":
        return op.window.kernel_h * op.window.kernel_w
    return op.divisor(shape) if isinstance(op, TpuReduce) and op.function in ("mean", "sum") else None
