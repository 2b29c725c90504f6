"""Merge a fully connected layer with the projection (PCA) that follows it.

Pattern: a feature layer (Gemm, MatMul, or a convolution whose result is one pixel) -> reshapes and affine maps with
constants, which may be none -> a projection (Gemm, MatMul, or a convolution of that one pixel).
Algebra: P (s (W x + b) + t) + q = (P s W) x + (P (s b + t) + q): one layer of the projection's outputs.
Declines when a result between the two is read elsewhere, when the merged layer would have more weights than the
two, and when a normalisation (or another non-linear layer) stands between them: it is part of what was trained.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from nnkit.graph.refusal import Refused
from nnkit.rewrite.affine import Affine, affine_input, read_affine
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.linear import Linear, read_linear
from nnkit.rewrite.normalization import norm_nodes
from nnkit.rewrite.reading import data_input, is_op
from nnkit.rewrite.reshaping import compute_then_reshape, keeps_order
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir

_LAYERS = ("Gemm", "MatMul", "Conv")


@dataclass(frozen=True, eq=False)
class _Match:
    nodes: Nodes
    merged: Linear  # [K, I] or [K, I, kh, kw], to be written like the first layer


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    if not is_op(node, *_LAYERS):
        return None
    between: list[ir.Node] = []
    value = data_input(node)
    while True:
        before = value.producer()
        if before is None:
            return None
        if is_op(before, *_LAYERS):
            return (before, *between, node)
        norm = norm_nodes(editor, before)
        if norm is not None:
            return _beyond(editor, norm, node)
        between.insert(0, before)
        if keeps_order(editor, before):
            value = data_input(before)
            continue
        following = affine_input(editor, before)
        if following is None:
            return None
        value = following


def _beyond(editor: Editor, norm: Nodes, node: ir.Node) -> Nodes | None:
    """(layer, normalisation, projection) where a layer feeds the normalisation, for a decline that says so."""
    value = data_input(norm[0])
    before = value.producer()
    while before is not None and keeps_order(editor, before):
        before = data_input(before).producer()
    return (before, norm[-1], node) if before is not None and is_op(before, *_LAYERS) else None


def _check(editor: Editor, nodes: Nodes) -> _Match:
    first, *between, last = nodes
    for node in between:
        if norm_nodes(editor, node) is not None:
            raise Refused(f"the normalisation '{editor.layer(node)}' stands between the two")
    for node in (first, last):
        if is_op(node, "Conv") and math.prod(editor.shape(node.outputs[0])[2:]) != 1:
            raise Refused(f"'{editor.layer(node)}' is a convolution with more than one position")
    for before, after in itertools.pairwise(nodes):
        editor.require_only_reader(before.outputs[0], after)
    linears = []
    for node in (first, last):
        try:
            linear = read_linear(editor, node)
        except Refused as refusal:
            raise Refused(f"'{editor.layer(node)}': {refusal.reason}") from refusal
        if linear.groups != 1:
            raise Refused(f"'{editor.layer(node)}' is a grouped convolution")
        linears.append(linear)
    affine = _affine_between(editor, between)
    return _merged(nodes, linears[0] if affine is None else linears[0].followed_by(affine), linears[1])


def _affine_between(editor: Editor, between: list[ir.Node]) -> Affine | None:
    affine: Affine | None = None
    for node in between:
        if keeps_order(editor, node):
            continue
        try:
            step = read_affine(editor, node)
        except Refused as refusal:
            raise Refused(f"'{editor.layer(node)}': {refusal.reason}") from refusal
        affine = step if affine is None else affine.then(step)
    return affine


def _merged(nodes: Nodes, first: Linear, last: Linear) -> _Match:
    projection = last.weight.reshape(last.outputs, -1)  # [K, F]
    if projection.shape[1] != first.outputs:
        raise Refused("the projection takes another number of values than the layer gives")
    weight = np.einsum("kf,fi->ki", projection, first.weight.reshape(first.outputs, -1))
    apart = first.weight.size + last.weight.size
    if weight.size > apart:
        raise Refused(f"the merged layer would have {weight.size:,} weights, the two have {apart:,}")
    bias = projection @ first.bias + last.bias
    shape = (last.outputs, *first.weight.shape[1:])
    return _Match(nodes, replace(first, weight=weight.reshape(shape), bias=bias))


def _rewrite(editor: Editor, match: _Match) -> None:
    first, last, merged = match.nodes[0], match.nodes[-1], match.merged
    name, shape = editor.layer(last), editor.shape(last.outputs[0])
    inputs = [
        data_input(first),
        editor.constant(f"{name}.weight", merged.weight.astype(np.float32)),
        editor.constant(f"{name}.bias", merged.bias.astype(np.float32)),
    ]
    op_type = "Gemm"
    given: tuple[int, ...] = (1, merged.outputs)
    attributes: dict[str, Any] = {"transA": int(merged.data_transposed), "transB": 1}
    if is_op(first, "Conv"):
        op_type, given, attributes = "Conv", (*given, 1, 1), dict(first.attributes)
    if given == shape:
        editor.become(last, op_type, inputs, attributes)
        result = last.outputs[0]
    else:
        result = compute_then_reshape(editor, last, op_type, inputs, attributes, shape=given, label="merged")
    for node in reversed(match.nodes[:-1]):
        editor.move_tags(node, result)
        editor.remove(node)


RULE = Rule("merge_fc_pca", True, "blocks", __doc__ or "", _pattern, _check, _rewrite)
