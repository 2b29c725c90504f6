"""Outputs that no verification input moves: what is the same whatever goes in proves nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nnkit.graph import Model

Side: TypeAlias = Literal["float", "quantized", "both"]
_NAMED = 3
_OTHER_INPUTS = "verify on inputs that move it (`verify.images`)"
_WHERE: Mapping[Side, tuple[str, str]] = {
    "float": ("the float network", _OTHER_INPUTS),
    "quantized": (
        "the quantised network",
        "verify on inputs that move it by more than its smallest step (`verify.images`)",
    ),
    "both": ("both networks", _OTHER_INPUTS),
}


class Constancy:
    """Whether one output is the same for every input, in the float network and in the Program.

    Of several inputs, each element is compared with itself; of one input, all elements with one another. What moves
    by no more than float32 rounds (the similarity of each picture to itself) does not move.
    """

    def __init__(self) -> None:
        self._first: tuple[NDArray[Any], NDArray[Any]] | None = None
        self._moved = [False, False]
        self._inputs = 0

    def add(self, expected: NDArray[Any], got: NDArray[Any]) -> None:
        """Take one input's output, of the float network and of the Program."""
        self._take((expected, got), 1)

    def merge(self, other: Constancy) -> None:
        """Take what another one has taken."""
        if other._first is not None:
            self._take(other._first, other._inputs)
            self._moved = [mine or theirs for mine, theirs in zip(self._moved, other._moved, strict=True)]

    def _take(self, values: tuple[NDArray[Any], NDArray[Any]], inputs: int) -> None:
        self._inputs += inputs
        if self._first is None:
            self._first = values
            return
        for side, (first, value) in enumerate(zip(self._first, values, strict=True)):
            self._moved[side] = self._moved[side] or _moves(first, value)

    @property
    def side(self) -> Side | None:
        """In which network it is constant; None: in neither."""
        if self._first is None:
            return None
        moved = self._moved
        if self._inputs == 1:
            moved = [values.size > 0 and _moves(values.flat[0], values) for values in self._first]
        names: dict[tuple[bool, ...], Side] = {
            (False, False): "both",
            (False, True): "float",
            (True, False): "quantized",
        }
        return names.get(tuple(moved))


def _moves(first: NDArray[Any] | np.generic, value: NDArray[Any]) -> bool:
    """Whether any element differs from the first's by more than eight units in the last place of a float32."""
    if not np.issubdtype(value.dtype, np.floating):
        return not bool((first == value).all())
    return not bool(np.isclose(value, first, rtol=2.0**-20, atol=0.0).all())


def written_constants(model: Model, outputs: Collection[str]) -> frozenset[str]:
    """Those of the outputs that the network computes from no input: constant by what it says, not by its inputs."""
    graph = model.proto().graph
    moving = {spec.name for spec in graph.input} - {tensor.name for tensor in graph.initializer}
    for node in graph.node:  # ONNX files are sorted
        if moving & set(node.input) or any(attribute.HasField("g") for attribute in node.attribute):
            moving.update(node.output)
    return frozenset(outputs) - moving


def doubts_of_outputs(constant: Mapping[str, Side], inputs: int) -> list[str]:
    """A sentence for each network with constant outputs. inputs: how many verification inputs there are."""
    over = "the one verification input" if inputs == 1 else f"all {inputs} verification inputs"
    sentences = []
    for side, (where, remedy) in _WHERE.items():
        names = [repr(name) for name, each in constant.items() if each == side]
        if names:
            what = f"output {names[0]}" if len(names) == 1 else f"outputs {', '.join(names[:_NAMED])}"
            what += f" and {len(names) - _NAMED} more" * (len(names) > _NAMED)
            verb, pronoun = ("is", "its") if len(names) == 1 else ("are", "their")
            sentences.append(
                f"{what} of {where} {verb} constant over {over}, and {pronoun} cosine and SQNR would prove nothing: "
                f"{remedy}"
            )
    return sentences
