"""Write Selu and Celu as Elu, which targets compute, and factors.

Pattern: Selu or Celu.
Algebra: Selu(x) = gamma Elu(x) with Elu's alpha; Celu(x) = alpha Elu(x / alpha) with 1 for Elu's alpha. Factors of 1
  are left out; the others fold into the layers beside them (`fold_scale`).
Declines a Celu whose alpha is not positive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nnkit.graph.refusal import Refused
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import as_node, data_input, is_op
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir

_SELU_ALPHA, _SELU_GAMMA = 1.67326319217681884765625, 1.05070102214813232421875
"""The defaults of ONNX."""


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    return (node,) if is_op(node, "Selu", "Celu") else None


def _check(editor: Editor, nodes: Nodes) -> ir.Node:
    (node,) = nodes
    if is_op(node, "Celu") and as_node(node).number("alpha", 1.0) <= 0.0:
        raise Refused("its alpha is not positive")
    return node


def _rewrite(editor: Editor, node: ir.Node) -> None:
    read, value = as_node(node), data_input(node)
    if is_op(node, "Selu"):
        inner, alpha, outer = 1.0, read.number("alpha", _SELU_ALPHA), read.number("gamma", _SELU_GAMMA)
    else:
        outer = read.number("alpha", 1.0)
        inner, alpha = 1.0 / outer, 1.0
    name, shape = editor.layer(node), editor.shape(value)
    if inner != 1.0:
        factor = editor.constant(f"{name}.inner", np.array(inner, np.float32))
        value = editor.insert(node, "Mul", [value, factor], {}, shape=shape, name=f"{name}_inner")
        editor.copy_tags(node, [value])
    if outer == 1.0:
        editor.become(node, "Elu", [value], {"alpha": alpha})
        return
    result = editor.insert(node, "Elu", [value], {"alpha": alpha}, shape=shape, name=f"{name}_elu")
    editor.copy_tags(node, [result])
    editor.become(node, "Mul", [result, editor.constant(f"{name}.outer", np.array(outer, np.float32))], {})


RULE = Rule("selu_to_elu", True, "carries", __doc__ or "", _pattern, _check, _rewrite)
