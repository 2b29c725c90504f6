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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.graph import Model, ValueTags
from nnkit.recipe.restructure import ReplaceTail, TailLayer, TailNorm, TailPca
from nnkit.rewrite.edit import Edit, Edited, Expected, Values, affine_expected, copied, same_feeds
from nnkit.rewrite.edits.projection import append_affine, feature_length, pca_of
from nnkit.rewrite.pca import Pca
from nnkit.rewrite.surgery import Surgery


def make(options: ReplaceTail, where: str = "") -> Edit:
    """The edit with its options."""
    return Edit("replace_tail", __doc__ or "", lambda model: _apply(model, options, where))


def _apply(model: Model, options: ReplaceTail, where: str) -> Edited:
    surgery = Surgery(model, where)
    before = surgery.output_names
    cut = surgery.value(options.at)
    ended = [name for name in before if depends(surgery, name, cut)]
    if not ended:
        raise surgery.refused(f"no output of the network depends on '{options.at}'", "name a layer before an output")
    pcas = {index: pca_of(layer.file) for index, layer in enumerate(options.tail) if isinstance(layer, TailPca)}
    value = _append_tail(surgery, cut, options, pcas)
    outputs = [value if name == ended[0] else name for name in before if name == ended[0] or name not in ended]
    surgery.set_outputs(outputs)

    def expected(values: Values) -> Mapping[str, Expected]:
        found = {name: copied(values[name]) for name in outputs if name != value}
        return {**found, value: _tail_of(values[cut], options.tail, pcas)}

    tail = " -> ".join(layer.kind for layer in options.tail)
    effect = f"{', '.join(repr(name) for name in ended)} gave way to '{value}': '{options.at}'"
    fetch = (cut, *(name for name in outputs if name != value))
    return Edited(
        surgery.finish(), (options.at,), effect + (f" -> {tail}" if tail else ""), fetch, expected, same_feeds
    )


def depends(surgery: Surgery, output: str, value: str) -> bool:
    """Whether `output` is computed from `value`, or is it."""
    pending, seen = [output], set[str]()
    while pending:
        name = pending.pop()
        if name == value:
            return True
        node = surgery.producer(name)
        if node is not None and name not in seen:
            pending += node.input
        seen.add(name)
    return False


def _append_tail(surgery: Surgery, cut: str, options: ReplaceTail, pcas: Mapping[int, Pca]) -> str:
    value = cut
    if not options.tail:
        return value
    rank, length = len(surgery.shape(cut)), feature_length(surgery, cut)
    for index, layer in enumerate(options.tail):
        if isinstance(layer, TailPca):
            pca = pcas[index]
            if pca.features != length:
                raise surgery.refused(
                    f"'{layer.file.text}' projects features of {pca.features} values, here are {length}",
                    "give the PCA that was trained on this feature",
                )
            tags = ValueTags(hp=layer.hp, origins=(layer.name,))
            value = append_affine(surgery, value, pca.weight, pca.bias, layer.name, rank=rank, tags=tags)
            length = pca.components
        elif isinstance(layer, TailNorm):
            value = _append_norm(surgery, value, layer, length)
        else:
            value = surgery.append("Softmax", [value], layer.name, axis=1)
    return value


def _append_norm(surgery: Surgery, value: str, layer: TailNorm, length: int) -> str:
    name = layer.name
    axes = surgery.add_constant(f"{name}_sum.axes", np.array([1], np.int64))
    square = surgery.append("Mul", [value, value], f"{name}_sq")
    total = surgery.append("ReduceSum", [square, axes], f"{name}_sum", keepdims=1)
    if layer.reduce == "mean":
        total = surgery.append(
            "Mul", [total, surgery.add_constant(f"{name}.share", np.array(1.0 / length, np.float32))], f"{name}_mean"
        )
    if layer.a:
        total = surgery.append(
            "Add", [total, surgery.add_constant(f"{name}.a", np.array(layer.a, np.float32))], f"{name}_add"
        )
    return surgery.append("Div", [value, surgery.append("Sqrt", [total], f"{name}_sqrt")], name)


def _tail_of(value: NDArray[Any], tail: tuple[TailLayer, ...], pcas: Mapping[int, Pca]) -> Expected:
    x = np.asarray(value, np.float64).reshape(-1) if tail else value
    result = copied(x)
    for index, layer in enumerate(tail):
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
