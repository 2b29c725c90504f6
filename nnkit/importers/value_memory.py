"""How much memory the values of a network take while it runs, and how much they may.

The import, rewrites and comparisons run the network in ONNX Runtime, which holds an input until the end, an output
from its layer on, and any other value from its layer to the last that reads it; less where a layer may write over its
input. A file of a few bytes can stand for terabytes of them.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nnkit.errors import ModelError
from nnkit.importers.tidy import read_names
from nnkit.importers.value_dims import value_dims
from nnkit.trust import VALUES_VARIABLE, user_settings

if TYPE_CHECKING:
    import onnx

_GIB = 2**30


def allowed_bytes() -> int:
    """The user's limit (`NNKIT_VALUES_GIB`, `values_gib`)."""
    return int(user_settings().values_gib * _GIB)


@dataclass(frozen=True, eq=False)
class HeldValues:
    """Values that are in memory together while `node` runs, which are more than at any other."""

    node: onnx.NodeProto | None
    bytes: int


def most_held(graph: onnx.GraphProto) -> HeldValues:
    """Layers run in the graph's order. Weights do not count, values of unknown size neither."""
    values = {value.name: value_bytes(value) for value in (*graph.value_info, *graph.input, *graph.output)}
    last_read = {name: index for index, node in enumerate(graph.node) for name in read_names(node)}
    kept = {value.name for value in (*graph.input, *graph.output)}
    gone: dict[int, int] = {}
    held = sum(values[value.name] for value in graph.input)
    most = HeldValues(None, held)
    for index, node in enumerate(graph.node):
        for name in node.output:
            size = values.get(name, 0)
            held += size
            if name not in kept:
                last = last_read.get(name, index)
                gone[last] = gone.get(last, 0) + size
        if held > most.bytes:
            most = HeldValues(node, held)
        held -= gone.pop(index, 0)
    return most


def check_values_fit(graph: onnx.GraphProto, where: str) -> None:
    """Raises ModelError where the values take more memory than is allowed, naming the layer at which they do."""
    most, allowed = most_held(graph), allowed_bytes()
    if most.bytes > allowed:
        at = "the inputs" if most.node is None else f"layer '{most.node.name}' ({most.node.op_type})"
        raise ModelError(
            f"{at}: the values of the network that are in memory together here take {most.bytes:,} bytes; "
            f"{allowed:,} are allowed",
            where=where,
            remedy=remedy_for(most.bytes),
        )


def remedy_for(needed_bytes: int) -> str:
    """What to do about a network that needs so much: more is allowed only where this machine has it."""
    smaller = "check its sizes, or export it for smaller inputs (sizes that are open: model.inputs)"
    gib = math.ceil(needed_bytes / _GIB)
    if needed_bytes <= _machine_bytes():
        return f"{smaller}; if it is meant so, allow more: {VALUES_VARIABLE}={gib}"
    return f"{smaller}; this machine has less memory than that"


def value_bytes(value: onnx.ValueInfoProto) -> int:
    """Size in memory; 0 where it is not known."""
    from onnx import helper

    sizes = value_dims(value)
    if sizes is None or min(sizes, default=0) < 0:
        return 0
    try:
        each = max(1, helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type).itemsize)
    except (KeyError, TypeError, ValueError):
        each = 4
    return each * math.prod(sizes)


def _machine_bytes() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 16 * _GIB  # a system that does not tell
