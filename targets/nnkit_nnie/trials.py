"""Running a network many times with other layers in 16 bits, as the search behind `hp: auto` does.

A layer's precision changes what the layer computes and nothing else of the Program: every tensor is stored in the
same format, and a layer reads its inputs by its own precision. So two Programs, of 8 and of 16 bits, hold the ops of
all others, and an op's result depends on the precision of the op and of those before it alone. Results are kept by
that, up to `_ROOM_BYTES`, and a trial computes only what no earlier trial did. The numbers are those of `simulate`.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nnkit.mixed_precision.search import LayerSet
from nnkit.program import OpBase, Program
from nnkit.simulate import simulate_op
from nnkit_nnie.gfpq.ops import layer_of

_ROOM_BYTES = 512 << 20
_KEPT_CHOICES = 4
Key: TypeAlias = tuple[bytes, str, LayerSet]
"""Digest of the inputs, tensor, and the layers in 16 bits among those that it depends on."""


@dataclass(frozen=True, eq=False)
class Choices:
    """The Programs between all layers in 8 bits (`low`) and all in 16 (`high`)."""

    low: Program
    high: Program

    def program(self, layers: LayerSet) -> Program:
        """The Program with these layers in 16 bits."""
        pairs = zip(self.low.ops, self.high.ops, strict=True)
        return replace(self.low, ops=tuple(high if layer_of(low) in layers else low for low, high in pairs))


class AlignedChoices:
    """Choices of a network whose calibration depends on the precision of the layers `aligning`, before its warp.

    Everything behind the warp depends on all of them, so that a result is still told apart by the layers in 16 bits
    among those that it depends on. make: the Choices for one set of `aligning` in 16 bits; the latest are kept.
    """

    def __init__(self, make: Callable[[LayerSet], Choices], aligning: LayerSet) -> None:
        self._aligning = aligning
        self._made = lru_cache(maxsize=_KEPT_CHOICES)(make)
        self.low = self._made(frozenset()).low

    def program(self, layers: LayerSet) -> Program:
        """The Program with these layers in 16 bits."""
        return self._made(layers & self._aligning).program(layers)


class TrialRunner:
    """Executes the Programs of `choices`. computed: how many ops were executed so far."""

    def __init__(self, choices: Choices | AlignedChoices, room_bytes: int = _ROOM_BYTES) -> None:
        self._choices = choices
        self._before = _layers_before(choices.low)
        self._kept: OrderedDict[Key, NDArray[Any]] = OrderedDict()
        self._kept_bytes, self._room_bytes = 0, room_bytes
        self.computed = 0

    def run(self, layers: LayerSet, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """The Program's outputs for these stored inputs, with `layers` in 16 bits."""
        program, sample = self._choices.program(layers), _digest(inputs)
        keys = {op.output: (sample, op.output, layers & self._before[op.output]) for op in program.ops}
        values = dict(inputs)
        wanted, missing = set(program.outputs), list[OpBase]()
        for op in reversed(program.ops):  # only what leads to an output, and only back to what is kept
            if op.output not in wanted:
                continue
            kept = self._kept.get(keys[op.output])
            if kept is None:
                missing.append(op)
                wanted.update(op.inputs)
            else:
                self._kept.move_to_end(keys[op.output])
                values[op.output] = kept
        last_read: dict[str, str] = {}
        for op in missing:  # from the last op to the first
            last_read |= {name: op.output for name in op.inputs if name not in {*last_read, *program.outputs}}
        for op in reversed(missing):
            values[op.output] = simulate_op(program, op, [values[name] for name in op.inputs])
            self._keep(keys[op.output], values[op.output])
            for name in set(op.inputs):
                if last_read.get(name) == op.output:
                    del values[name]
        self.computed += len(missing)
        return {name: values[name] for name in program.outputs}

    def _keep(self, key: Key, values: NDArray[Any]) -> None:
        self._kept[key] = values
        self._kept_bytes += values.nbytes
        while self._kept_bytes > self._room_bytes:
            _, gone = self._kept.popitem(last=False)
            self._kept_bytes -= gone.nbytes


def _digest(inputs: Mapping[str, NDArray[Any]]) -> bytes:
    state = hashlib.sha256()
    for name in sorted(inputs):
        state.update(name.encode() + b"\0")
        state.update(np.ascontiguousarray(inputs[name]).tobytes())
    return state.digest()


def _layers_before(program: Program) -> dict[str, LayerSet]:
    """By tensor, the layers that its values depend on, its own among them."""
    before: dict[str, LayerSet] = {name: frozenset() for name in program.inputs}
    for op in program.ops:
        before[op.output] = frozenset({layer_of(op)}).union(*(before[name] for name in op.inputs))
    return before
