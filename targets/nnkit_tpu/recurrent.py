"""GRU and LSTM over all steps of a sequence, as one layer, in floating point.

On the BM chips a GRU is computed in float32, whatever is asked for; an LSTM in BF16 on the bm1684x where that is
asked for, else in float32. On the cv18xx both are in BF16, with sigmoid and tanh from tables, and biases in float32.
In BF16 the sums over inputs and states are rounded one by one, as are gates, cells and states.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nnkit_tpu.casts import rounded
from nnkit_tpu.function_tables import SIGMOID, TANH, logistic
from nnkit_tpu.program import FloatArray, TpuOp

Values: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class TpuRecurrent(TpuOp):
    """[1, T, I] -> [1, T, D, H] from states of 0; of two directions the second runs backwards.

    weight [D, G H, I], recurrent [D, G H, H], bias [D, 2 G H]: gates as ONNX orders them, z r n and i o f c; biases
    of the input first, then of the state. A GRU resets its state behind the product with it.
    by_tables: as the cv18xx compute it.
    """

    kind: ClassVar[str] = "recurrent"
    cell: Literal["gru", "lstm"]
    weight: FloatArray
    recurrent: FloatArray
    bias: FloatArray
    by_tables: bool = False

    def weight_bytes(self) -> int:
        """Weights and biases in the op's precision."""
        bytes_each = 2 if self.mode in ("F16", "BF16") else 4
        return (self.weight.size + self.recurrent.size + self.bias.size) * bytes_each


def tabulated(op: TpuRecurrent) -> TpuRecurrent:
    """The layer as the cv18xx compute it; biases of the state are added to those of the input where that is the same.

    The compiler's code for a GRU reads the lower halves of biases of the state from beside them.
    """
    of_input, of_state = np.split(op.bias, 2, axis=1)
    last = of_state.shape[1] // 3 * 2 if op.cell == "gru" else of_state.shape[1]
    kept = np.zeros_like(of_state)
    kept[:, last:] = rounded(of_state[:, last:], "BF16")
    moved = np.where(np.arange(of_state.shape[1]) < last, of_state, 0.0)
    return replace(op, bias=np.concatenate([of_input + moved, kept], axis=1).astype(np.float32), by_tables=True)


def run_over_steps(op: TpuRecurrent, x: Values) -> Values:
    """The states of all steps."""

    def kept(values: Values) -> Values:
        return rounded(values, op.mode).astype(np.float64)

    if op.by_tables:
        step = _gru_by_tables if op.cell == "gru" else _lstm
    else:
        step = _gru if op.cell == "gru" else _lstm
    runs = [step(op, x[0] if way == 0 else x[0, ::-1], way, kept) for way in range(len(op.weight))]
    return np.stack([run if way == 0 else run[::-1] for way, run in enumerate(runs)], axis=1)[np.newaxis]


def _parts(op: TpuRecurrent, way: int, kept: Callable[[Values], Values]) -> tuple[Values, Values, Values, Values]:
    """Weights and biases of one direction: [I, G H], [H, G H], [G H], [G H]."""
    both = op.bias[way].astype(np.float64) if op.by_tables else kept(op.bias[way].astype(np.float64))
    half = both.size // 2
    weight, recurrent = (kept(each[way].astype(np.float64)).T for each in (op.weight, op.recurrent))
    return weight, recurrent, both[:half], both[half:]


def _gru(op: TpuRecurrent, x: Values, way: int, kept: Callable[[Values], Values]) -> Values:
    weight, recurrent, bias, bias_of_state = _parts(op, way, kept)
    hidden = len(recurrent)
    projected = kept(x @ weight + bias)
    state, states = np.zeros(hidden), []
    for each in projected:
        gates = slice(0, 2 * hidden)
        zr = logistic(each[gates] + state @ recurrent[:, gates] + bias_of_state[gates])
        z, r = zr[:hidden], zr[hidden:]
        rest = slice(2 * hidden, None)
        n = np.tanh(each[rest] + r * (state @ recurrent[:, rest] + bias_of_state[rest]))
        state = kept(n + z * (state - n))
        states.append(state)
    return np.stack(states)


def _gru_by_tables(op: TpuRecurrent, x: Values, way: int, kept: Callable[[Values], Values]) -> Values:
    weight, recurrent, bias, bias_of_state = _parts(op, way, kept)
    state, states = np.zeros(len(recurrent)), []
    for each in kept(x @ weight + bias):
        of_x, of_state = np.split(each, 3), np.split(kept(state @ recurrent + bias_of_state), 3)
        z, r = (SIGMOID.at(kept(of_x[gate] + of_state[gate])) for gate in (0, 1))
        n = TANH.at(kept(kept(r * of_state[2]) + of_x[2]))
        state = kept(kept(kept(z * state) + n) - kept(z * n))
        states.append(state)
    return np.stack(states)


def _lstm(op: TpuRecurrent, x: Values, way: int, kept: Callable[[Values], Values]) -> Values:
    weight, recurrent, bias, bias_of_state = _parts(op, way, kept)
    hidden = len(recurrent)
    projected = kept(x @ weight + bias)
    state, cell, states = np.zeros(hidden), np.zeros(hidden), []
    sigmoid, tanh = (SIGMOID.at, TANH.at) if op.by_tables else (logistic, np.tanh)
    for each in projected:
        sums = kept(each + kept(state @ recurrent + bias_of_state))
        i, o, f = (kept(sigmoid(part)) for part in np.split(sums[: 3 * hidden], 3))
        g = kept(tanh(sums[3 * hidden :]))
        cell = kept(kept(f * cell) + kept(i * g))
        state = kept(o * kept(tanh(cell)))
        states.append(state)
    return np.stack(states)
