"""Replace the end of the network.

Change: the network is cut after a named layer. Every output that depends on that layer goes, with the layers that
nothing else needs; in the place of the first of them comes a new one: the layer's value, through the layers of
`tail`. Outputs that do not depend on the layer stay.
Options: `at`, the layer or value; `tail`, a list of
  {kind: norm, reduce: sum | mean, a: 1.0}   x / sqrt(sum(x^2) + a), or with the mean; written with ONNX's own
                                             operators, which norm_from_concat rebuilds for hardware without them
  {kind: pca, file: FILE, hp: true}          (x - mean) matrix
  {kind: softmax}                            over all values of the feature
An empty `tail` makes the layer's value the output.
Refused where the layer leads to no output, and where a tail stands on a feature map.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nnkit.graph import Model, ValueTags
from nnkit.recipe.restructure import ReplaceTail, TailNorm, TailPca
from nnkit.rewrite.edit import Edit, Edited, Expected, Values, affine_expected, copied, same_feeds
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.edits.projection import append_affine, feature_length, pca_of
from nnkit.rewrite.naming import named_value
from nnkit.rewrite.pca import Pca
from nnkit.rewrite.reading import ancestors

if TYPE_CHECKING:
    import onnx_ir as ir


def make(options: ReplaceTail, where: str = "") -> Edit:
    """The edit with its options."""
    return Edit("replace_tail", __doc__ or "", lambda model: _apply(model, options, where))


def _apply(model: Model, options: ReplaceTail, where: str) -> Edited:
    editor = Editor(model, where)
    cut = named_value(editor, options.at)
    before, cut_name = list(editor.graph.outputs), str(cut.name)
    ended = [output for output in before if cut in ancestors(output)]
    if not ended:
        raise editor.refused(f"no output of the network depends on '{options.at}'", "name a layer before an output")
    pcas = {index: pca_of(layer.file) for index, layer in enumerate(options.tail) if isinstance(layer, TailPca)}
    end = _append_tail(editor, cut, options, pcas)
    editor.set_outputs([end if output is ended[0] else output for output in before if output not in ended[1:]])
    result = str(end.name)
    others = [name for name in editor.output_names if name != result]

    def expected(values: Values) -> Mapping[str, Expected]:
        return {
            **{name: copied(values[name]) for name in others},
            result: _after_tail(values[cut_name], options, pcas),
        }

    tail = " -> ".join(layer.kind for layer in options.tail)
    effect = f"{', '.join(repr(output.name) for output in ended)} gave way to '{result}': '{options.at}'"
    if tail:
        effect += f" -> {tail}"
    return Edited(editor.finish_edit(), (options.at,), effect, (cut_name, *others), expected, same_feeds)


def _append_tail(editor: Editor, cut: ir.Value, options: ReplaceTail, pcas: Mapping[int, Pca]) -> ir.Value:
    value = cut
    if not options.tail:
        return value
    rank, length = len(editor.shape(cut)), feature_length(editor, cut)
    for index, layer in enumerate(options.tail):
        if isinstance(layer, TailPca):
            pca = pcas[index]
            if pca.features != length:
                raise editor.refused(
                    f"'{layer.file.text}' projects features of {pca.features} values, here are {length}",
                    "give the PCA that was trained on this feature",
                )
            tags = ValueTags(hp=layer.hp, origins=(layer.name,))
            value = append_affine(editor, value, pca.weight, pca.bias, layer.name, rank=rank, tags=tags)
            length = pca.components
        elif isinstance(layer, TailNorm):
            value = _append_norm(editor, value, layer, length)
        else:
            value = editor.append("Softmax", [value], {"axis": 1}, name=layer.name)
    return value


def _append_norm(editor: Editor, value: ir.Value, layer: TailNorm, length: int) -> ir.Value:
    name = layer.name
    axes = editor.constant(f"{name}_sum.axes", np.array([1], np.int64))
    square = editor.append("Mul", [value, value], {}, name=f"{name}_sq")
    total = editor.append("ReduceSum", [square, axes], {"keepdims": 1}, name=f"{name}_sum")
    if layer.reduce == "mean":
        share = editor.constant(f"{name}.share", np.array(1.0 / length, np.float32))
        total = editor.append("Mul", [total, share], {}, name=f"{name}_mean")
    if layer.a:
        a = editor.constant(f"{name}.a", np.array(layer.a, np.float32))
        total = editor.append("Add", [total, a], {}, name=f"{name}_add")
    root = editor.append("Sqrt", [total], {}, name=f"{name}_sqrt")
    return editor.append("Div", [value, root], {}, name=name)


def _after_tail(value: NDArray[Any], options: ReplaceTail, pcas: Mapping[int, Pca]) -> Expected:
    x = np.asarray(value, np.float64).reshape(-1) if options.tail else value
    result = copied(x)
    for index, layer in enumerate(options.tail):
        if isinstance(layer, TailPca):
            result = affine_expected(x, pcas[index].weight, pcas[index].bias)
        elif isinstance(layer, TailNorm):
            total = float(np.sum(x**2)) * (1.0 / x.size if layer.reduce == "mean" else 1.0)
            with np.errstate(invalid="ignore", divide="ignore"):
                result = Expected(x / math.sqrt(total + layer.a), max(result.magnitude, 1.0) if index else 1.0)
        else:
            powers = np.exp(x - x.max())
            result = Expected(powers / powers.sum(), 1.0 + float(np.abs(x).max()))
        x = np.asarray(result.value, np.float64)
    return result
