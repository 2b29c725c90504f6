"""Custom: a call of the user's own C function, whose file goes with the segment."""

from __future__ import annotations

from nnkit.c.float.calls import Call, Read, Write
from nnkit.custom_ops import Custom
from nnkit.custom_ops.custom import is_trusted, trust_remedy
from nnkit.graph.refusal import Refused
from nnkit.graph.view import GraphView, Node

PREFIX = "custom_"
"""What the names of such kernels begin with, and behind `nnkit_` those of their files."""


def custom(graph: GraphView, node: Node, op: Custom) -> list[Call]:
    """void function(const float *in0, ..., float *out0, ...). Raises Refused where the layer has no C."""
    if not op.c:
        reason = "it has Python, but no C" if op.python else "it has shapes, but no definition that could be run"
        how = "define it in the recipe: model.custom_layers, with `onnx`, or with `python` and `c` (docs/caffe.md)"
        raise Refused(reason, how)
    if not is_trusted(op.c):
        raise Refused(f"the C of '{op.function}' is code, and nobody said that it may run", trust_remedy(op.c))
    reads, writes = [name for name in node.inputs if name], node.results
    parameters = [f"const float *in{i}" for i in range(len(reads))] + [f"float *out{i}" for i in range(len(writes))]
    return [
        Call(
            f"{PREFIX}{op.function}",
            op.function,
            (*(Read(name) for name in reads), *(Write(name) for name in writes)),
            source=op.c,
            prototype=f"void {op.function}({', '.join(parameters)});",
        )
    ]
