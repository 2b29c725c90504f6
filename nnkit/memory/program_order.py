"""A Program as a graph of ops for the search of orders, and a Program whose ops run in another order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from nnkit.errors import InternalError
from nnkit.memory.lifetimes import possible_sharings
from nnkit.memory.op_order import OpGraph, OpNode
from nnkit.program import Program, Reshape


def graph_of(program: Program, scratch_bytes: Mapping[str, int] | None = None) -> OpGraph:
    """The program's ops with the bytes of their tensors.

    An op may overwrite what the arithmetic permits (`possible_sharings`), and a reshape its input. A concatenation
    that is written part by part holds its bytes from the first part on; here it takes them when it runs. The peaks
    are therefore estimates: plan an order before preferring it.

    Args:
        scratch_bytes: by op name, bytes needed while it runs (scratch, the least piece of its weights).
    """
    overwrites: dict[int, list[str]] = {}
    for _, index, position in possible_sharings(program):
        overwrites.setdefault(index, []).append(program.ops[index].inputs[position])
    nodes = []
    for index, op in enumerate(program.ops):
        over = list(op.inputs[:1]) if isinstance(op, Reshape) else overwrites.get(index, [])
        scratch = (scratch_bytes or {}).get(op.name, 0)
        nodes.append(OpNode(op.name, tuple(op.inputs), (op.output,), scratch, tuple(over)))
    names = {*program.inputs, *(op.output for op in program.ops)}
    sizes = {name: program.tensors[name].size_bytes for name in names}
    return OpGraph(tuple(nodes), sizes, tuple(program.inputs), tuple(program.outputs))


def reordered(program: Program, order: Sequence[int]) -> Program:
    """The same program with its ops in `order`; every value stays what it was.

    Raises:
        InternalError: `order` is no permutation of the ops, or runs one before its inputs are there.
    """
    if sorted(order) != list(range(len(program.ops))):
        raise InternalError("the order is no permutation of the ops", where=program.name)
    written = set(program.inputs)
    for index in order:
        op = program.ops[index]
        if not written.issuperset(op.inputs):
            raise InternalError("the order runs it before its inputs are there", where=op.name)
        written.add(op.output)
    return replace(program, ops=tuple(program.ops[index] for index in order))
