"""Write HardSigmoid with a clamp.

Pattern: HardSigmoid.
Algebra: max(0, min(1, a x + b)) = a clip(x + b / a, 0, 1 / a).
Why: clip_to_relus then makes ReLUs of it, for hardware that has neither HardSigmoid nor a clamp. The sum comes first,
  so that hardware with a fixed point behind the comma has most bits for what is clamped.
Declines for a that is not positive, and for integers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nnkit.graph.read.activation import activation_parameters
from nnkit.graph.refusal import Refused
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import as_node, data_input, is_op
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir


@dataclass(frozen=True)
class _Match:
    node: ir.Node
    alpha: float
    beta: float


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    return (node,) if is_op(node, "HardSigmoid") else None


def _check(editor: Editor, nodes: Nodes) -> _Match:
    (node,) = nodes
    alpha, beta = activation_parameters(as_node(node))
    if alpha <= 0:
        raise Refused(f"its alpha is {alpha:g}")
    return _Match(node, alpha, beta)


def _rewrite(editor: Editor, match: _Match) -> None:
    node, value = match.node, data_input(match.node)
    name, shape = editor.layer(node), editor.shape(value)
    dtype = value.dtype.numpy() if value.dtype is not None else np.dtype(np.float32)

    def number(label: str, of: float) -> ir.Value:
        return editor.constant(f"{name}.{label}", np.array(of, dtype))

    made = []
    if match.beta != 0:
        offset = number("offset", match.beta / match.alpha)
        value = editor.insert(node, "Add", [value, offset], {}, shape=shape, name=f"{name}_shifted")
        made.append(value)
    bounds = [number("min", 0.0), number("max", 1.0 / match.alpha)]
    clamped = editor.insert(node, "Clip", [value, *bounds], {}, shape=shape, name=f"{name}_clamped")
    editor.copy_tags(node, [*made, clamped])
    editor.become(node, "Mul", [clamped, number("alpha", match.alpha)], {})


RULE = Rule("hard_sigmoid_to_clip", True, "blocks", __doc__ or "", _pattern, _check, _rewrite)
