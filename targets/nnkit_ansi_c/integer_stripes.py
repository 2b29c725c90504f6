"""The first layers of an integer program in stripes of rows, as `stripes` says. Every integer stays the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from nnkit.program.affine import (
    AffineActivation,
    AffineAdd,
    AffineConcat,
    AffineConv,
    AffineLookup,
    AffineMove,
    AffineMul,
    AffineOp,
    AffinePool,
    AffineProgram,
    AffineTensor,
)
from nnkit_ansi_c.integer_network import IntegerNetwork
from nnkit_ansi_c.row_plan import Head, RowLayer, Rows, RowWindow, StripedLayer, rest_bytes
from nnkit_ansi_c.stripe_values import MARK, StripeValues, origin
from nnkit_ansi_c.stripes import Stripes


def fitted(program: AffineProgram, stripes: Stripes) -> AffineProgram:
    """The program with its first layers in stripes, where that is asked for or its memory needs it."""
    head = head_of(program)
    return stripes.fitted(
        program,
        head,
        lambda end, count: 0 if head is None else estimated_bytes(program, head, end, count),
        lambda end, count: in_stripes(program, end, count),
        lambda made: stripes.working_bytes(
            lambda: IntegerNetwork.of(made).arena_bytes,
            lambda regions: IntegerNetwork.of(made, regions).arena_bytes,
        ),
    )


def striped_arena_bytes(program: AffineProgram) -> int:
    """Bytes of the smallest arena that stripes were found to need."""
    return IntegerNetwork.of(fitted(program, Stripes(limit_bytes=0))).arena_bytes


def without_stripes(program: AffineProgram) -> AffineProgram:
    """The program with the tensors alone that it has in one piece."""
    return replace(program, tensors={name: each for name, each in program.tensors.items() if origin(name) == name})


def head_of(program: AffineProgram) -> Head | None:
    """The first layers that can be computed in stripes; None: the program has several inputs, or no map as input."""
    if len(program.inputs) != 1 or len(program.tensors[program.inputs[0]].shape) != 3:
        return None
    (source,) = program.inputs
    values, layers, others = {source}, [], set(program.outputs)
    for op in program.ops:
        layer = _layer(op, program) if values.issuperset(op.inputs) else None
        if layer is None:
            others.update(op.inputs)
        else:
            layers.append(layer)
            values.add(op.output)
    tensors = {name: program.tensors[name] for name in values}
    return Head(
        source,
        tuple(layers),
        {name: each.shape[1] for name, each in tensors.items()},
        {name: _bytes(each) // each.shape[1] for name, each in tensors.items()},
        frozenset(others),
    )


def estimated_bytes(program: AffineProgram, head: Head, end: str, count: int) -> int:
    """About how much working memory the program takes with its first layers in so many stripes that end there."""
    gone = {layer.output for layer in head.upto(end)}
    rest = [(op.inputs, (op.output,)) for op in program.ops if op.output not in gone]
    ports = {*program.inputs, *program.outputs}
    size = {name: _bytes(each) for name, each in program.tensors.items() if name not in ports}
    return max(head.live_bytes(end, count), rest_bytes(rest, size))


def in_stripes(program: AffineProgram, end: str, count: int) -> AffineProgram:
    """The program with its first layers, up to the tensor `end`, in `count` stripes."""
    head = head_of(program)
    if head is None or end not in head.ends:
        return program
    tensors = dict(program.tensors)
    ops: list[AffineOp] = []
    for number, steps in enumerate(head.stripes(end, count)):
        stripe = _Stripe(program, head.source, number, tensors)
        stripe.add(steps)
        ops += stripe.ops
    gone = {layer.output for layer in head.upto(end)}
    last = next(op for op in program.ops if op.output == end)
    joined = AffineConcat(
        name=f"{last.name}{MARK}",
        inputs=tuple(f"{end}{MARK}{number}" for number in range(count)),
        output=end,
        requantize=(None,) * count,
        rows=True,
        origins=last.origins,
    )
    kept = tuple(op for op in program.ops if op.output not in gone)
    for name in gone - {end}:
        del tensors[name]
    return replace(program, tensors=tensors, ops=(*ops, joined, *kept))


def _layer(op: AffineOp, program: AffineProgram) -> RowLayer | None:
    """The op as a layer of rows; None: its rows need more than some rows of its inputs."""
    shape = program.tensors[op.output].shape
    sources = [program.tensors[name].shape for name in op.inputs]
    if len(shape) != 3 or not sources or any(len(each) != 3 for each in sources):
        return None
    work = prod(shape) // shape[1]
    if isinstance(op, AffinePool) or (isinstance(op, AffineConv) and not op.transposed):
        window = op.window
        taps = prod(op.weight.shape[1:]) if isinstance(op, AffineConv) else window.kernel_h * window.kernel_w
        rows = RowWindow(window.span_h, window.stride_h, window.pad_top)
        return RowLayer(op.inputs, op.output, rows, work * taps)
    rowwise = isinstance(op, AffineActivation | AffineLookup | AffineAdd | AffineMul)
    joined = isinstance(op, AffineConcat) and not op.rows
    if (rowwise and all(each == shape for each in sources)) or joined:
        return RowLayer(op.inputs, op.output, None, work)
    return None


class _Stripe:
    """One stripe's ops; adds its tensors to `tensors`."""

    def __init__(self, program: AffineProgram, source: str, number: int, tensors: dict[str, AffineTensor]) -> None:
        self._tensors = tensors
        self._values = StripeValues(source, program.tensors[source].shape[1], number)
        self._producers = {op.output: op for op in program.ops}
        self.ops: list[AffineOp] = []

    def add(self, steps: Sequence[StripedLayer]) -> None:
        for step in steps:
            op = self._producers[step.layer.output]
            inputs = tuple(self._rows_of(name, step.read) for name in op.inputs)
            made = self._values.add(op.output, step.made)
            self._add_tensor(op.output, made, step.made)
            striped = replace(op, name=self._values.named(op.name), inputs=inputs, output=made)
            if isinstance(striped, AffineConv | AffinePool):
                window = replace(striped.window, pad_top=step.pad_above, pad_bottom=step.pad_below)
                striped = replace(striped, window=window)
            self.ops.append(striped)

    def _rows_of(self, name: str, rows: Rows) -> str:
        part = self._values.part(name, rows)
        if part.whole is not None:
            self._add_tensor(name, part.name, rows)
            starts, steps = (0, part.rows[0], 0), (1, 1, 1)
            self.ops.append(
                AffineMove(
                    name=part.name, inputs=(part.whole,), output=part.name, move="slice", starts=starts, steps=steps
                )
            )
        return part.name

    def _add_tensor(self, whole: str, name: str, rows: Rows) -> None:
        tensor = self._tensors[whole]
        self._tensors[name] = replace(tensor, name=name, shape=(tensor.shape[0], rows[1] - rows[0], tensor.shape[2]))


def _bytes(tensor: AffineTensor) -> int:
    return tensor.elements * tensor.format.bytes
