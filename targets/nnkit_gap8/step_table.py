"""The plan's steps as a table of constants that `<name>_run` walks: the same steps in less code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nnkit_gap8.steps import CallView, FetchView, StepView

_WORD = 4
NO_WAIT = -2
"""What the table's field `wait` holds where nothing is waited for; other negative numbers wait for everything."""


@dataclass(frozen=True)
class TableRow:
    """A `struct step`: its fields' values in C, and its comment."""

    values: tuple[str, ...]
    comment: str


@dataclass(frozen=True)
class StepTable:
    """What the template writes. results: by layer, address and bytes. kernels: all that are called, each once.

    on_controller: those that the calling core runs alone. kernels_a_step: of a layer in tiles three, otherwise one.
    """

    rows: tuple[TableRow, ...]
    fetches: tuple[FetchView, ...]
    results: tuple[tuple[int, int], ...]
    kernels: tuple[str, ...]
    on_controller: tuple[str, ...]
    kernels_a_step: int

    def size_bytes(self, *, weights: bool) -> int:
        """Bytes of all rows and fetches on a machine with 32-bit pointers."""
        row = 4 + 3 * _WORD + 4 + self.kernels_a_step  # addresses; the layer, whether it begins and ends
        row += 3 * _WORD if weights else 0
        row += 4 if self.fetches else 0
        row += int(self.kernels_a_step > 1) + int(bool(self.on_controller))
        return len(self.rows) * -(-row // _WORD) * _WORD + len(self.fetches) * 3 * _WORD


def step_table(steps: Sequence[StepView], op_count: int, *, weights: bool) -> StepTable:
    """The table of all steps; a step of several calls has a row for each.

    Args:
        weights: whether the network has weights; without them the rows have no fields of weights.
    """
    in_tiles = any(step.tiles is not None for step in steps)
    kernels = sorted({kernel for step in steps for kernel in _kernels(step)})
    on_controller = sorted({call.kernel for step in steps for call in step.calls if call.cpu})
    fetches = tuple(fetch for step in steps for fetch in (*step.fetches_now, *step.prefetches))
    results = [(0, 0)] * op_count
    for step in steps:
        if step.trace is not None:
            results[step.op] = step.trace.offset, step.trace.bytes
    firsts = {step.op: index for index, step in reversed(list(enumerate(steps)))}
    lasts = {step.op: index for index, step in enumerate(steps)}
    rows = []
    for index, step in enumerate(steps):
        calls = list(_calls(step))
        for number, (layer, call, names) in enumerate(calls):
            first, last = number == 0, number == len(calls) - 1
            values = [layer, *_addresses(call, weights), f"{step.op}"]
            values += [str(int(first and firsts[step.op] == index)), str(int(last and lasts[step.op] == index))]
            if fetches:
                values += [str(len(step.fetches_now) * first), str(len(step.prefetches) * first)]
                values.append(str(step.wait if first and step.wait is not None else NO_WAIT))
            shown = [f"KERNEL_{name}" if name else "NO_KERNEL" for name in names]
            values.append(_braced([*shown, *["NO_KERNEL"] * ((3 if in_tiles else 1) - len(shown))]))
            values += [str(int(step.tiles is not None))] if in_tiles else []
            values += [str(int(call is not None and call.cpu))] if on_controller else []
            rows.append(TableRow(tuple(values), step.comment))
    return StepTable(tuple(rows), fetches, tuple(results), tuple(kernels), tuple(on_controller), 3 if in_tiles else 1)


def _kernels(step: StepView) -> Iterator[str]:
    yield from (call.kernel for call in step.calls)
    if step.tiles is not None:
        yield from ([step.tiles.image] if step.tiles.image else [])
        yield from (kernel for kernel, _ in step.tiles.kernels)


def _calls(step: StepView) -> Iterator[tuple[str, CallView | None, tuple[str, ...]]]:
    """The constant, the addresses and the kernels of each row. A step that calls nothing has a row too."""
    if step.tiles is not None:
        tiles = step.tiles
        yield f"&{tiles.tiling}", tiles.whole, (tiles.image, *(kernel for kernel, _ in tiles.kernels))
    for call in step.calls:
        yield f"&{call.layer}", call, (call.kernel,)
    if step.tiles is None and not step.calls:
        yield "0", None, ()


def _addresses(call: CallView | None, weights: bool) -> list[str]:
    if call is None:
        return [_braced(["0", "0"]), "0", *(["0"] * 4 if weights else [])]
    values = [_braced([str(offset or 0) for offset in call.inputs]), str(call.output)]
    if weights:
        values += [str(call.weights or 0), str(call.scratch or 0), str(call.first_block), str(call.blocks)]
    return values


def _braced(values: Sequence[str]) -> str:
    return "{" + ", ".join(values) + "}"
