"""Normalise the output by its root mean square instead of its length.

Change: the output y = x / sqrt(sum(x^2) + a) of n values becomes x / sqrt(mean(x^2) + a/n) = sqrt(n) y: the same
direction, with values near 1 instead of 1/sqrt(n). In fixed point (layer results in steps of 2^-12, say)
that is sqrt(n) times the resolution. Distances grow by sqrt(n), cosines stay. The layers are those that
norm_from_concat writes, with the mean.
Options: `output`; `a`, the constant beside the mean, instead of a/n.
Refused where the output is not a normalisation of the whole feature followed by reshapes alone, or is read inside
the network, too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from nnkit.graph import Model
from nnkit.graph.refusal import Refused
from nnkit.recipe.restructure import MeanNormalize
from nnkit.rewrite.edit import Edit, Edited, Expected, Values, copied, same_feeds
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.naming import named_output
from nnkit.rewrite.normalization import MAX_LENGTH, Norm, norm_nodes, read_norm, replace_norm
from nnkit.rewrite.reading import data_input
from nnkit.rewrite.reshaping import keeps_order

if TYPE_CHECKING:
    import onnx_ir as ir


def make(options: MeanNormalize, where: str = "") -> Edit:
    """The edit with its options."""
    return Edit("mean_normalize", __doc__ or "", lambda model: _apply(model, options, where))


def _apply(model: Model, options: MeanNormalize, where: str) -> Edited:
    editor = Editor(model, where)
    output, before = str(named_output(editor, options.output).name), editor.output_names
    norm = _norm_of(editor, output)
    length = math.prod(editor.shape(norm.source))
    a = norm.a / length if options.a is None else options.a
    source, layer = str(norm.source.name), editor.layer(norm.nodes[-1])
    factor = norm.factor
    # x / sqrt(mean + a) = sqrt(n) x / sqrt(sum + n a)
    replace_norm(editor, norm, a=a * length, factor=factor * math.sqrt(length), reduce="mean")

    def expected(values: Values) -> Mapping[str, Expected]:
        x = np.asarray(values[source], np.float64)
        y = factor * x / math.sqrt(float(np.mean(x**2)) + a)
        others = {name: copied(values[name]) for name in before if name != output}
        return {**others, output: copied(y)}

    effect = f"output '{output}' is x / sqrt(mean(x^2) + {a:g}), sqrt({length}) times what it was"
    if options.a is not None and options.a != norm.a / length:
        effect = f"output '{output}' is x / sqrt(mean(x^2) + {a:g}); it was x / sqrt(sum(x^2) + {norm.a:g})"
    return Edited(editor.finish(), (layer,), effect, (source, *before), expected, same_feeds)


def _norm_of(editor: Editor, output: str) -> Norm:
    node = named_output(editor, output).producer()
    while node is not None and keeps_order(editor, node):
        _only_reader(editor, node)
        node = data_input(node).producer()
    nodes = norm_nodes(editor, node) if node is not None else None
    if node is None or nodes is None:
        raise editor.refused(
            f"output '{output}' is no normalisation",
            "name the output that is one; put this rule before norm_from_concat",
        )
    try:
        norm = read_norm(editor, nodes)
    except Refused as refusal:
        raise editor.refused(f"output '{output}': {refusal.reason}", "leave this rule out") from refusal
    readers = [reader for reader in editor.users(norm.result) if not keeps_order(editor, reader)]
    if readers:
        raise _read_inside(editor, readers[0], output)
    if norm.floor:
        reason = f"output '{output}' keeps the length from falling below {norm.floor:g}"
        raise editor.refused(reason, f"put norm_from_concat: {{a: {norm.floor**2:g}}} before this rule")
    if math.prod(editor.shape(norm.source)) > MAX_LENGTH:
        reason = f"output '{output}' has more than {MAX_LENGTH} values"
        raise editor.refused(reason, "leave this rule out")
    return norm


def _only_reader(editor: Editor, node: ir.Node) -> None:
    for reader in editor.users(data_input(node)):
        if not keeps_order(editor, reader):
            raise _read_inside(editor, reader, str(data_input(node).name))


def _read_inside(editor: Editor, reader: ir.Node, output: str) -> Exception:
    return editor.refused(
        f"'{output}' is also read by '{editor.layer(reader)}', which was trained on the former values",
        "put mean_normalize before the rule that adds this layer, or leave it out",
    )
