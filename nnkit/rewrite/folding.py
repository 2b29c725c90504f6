"""Folding a chain of affine maps into the linear layer before it, or into all the linear layers after it.

After a layer:    s * (W x + b) + t = (s W) x + (s b + t).
Before a layer:   W (s x + t) + b = (W s) x + (b + sum_{c,kh,kw} W t).
The second holds where no zero padding is read, or where t = 0. Elsewhere the padded zeros stand in the *mapped*
domain: they are what x = -t/s maps to. When -t/s is one number p for all channels, an explicit Pad of x with p
and a convolution without padding compute the same; when the channels differ, folding declines.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from nnkit.graph.read.window import read_window
from nnkit.graph.refusal import Refused
from nnkit.rewrite.affine import Affine, affine_input, read_affine
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.linear import LINEAR_OPS, Linear, can_hold_bias, read_linear, write_linear
from nnkit.rewrite.reading import data_input, is_op, read, set_pads
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir


@dataclass(frozen=True, eq=False)
class FoldAfter:
    """Fold `affine_node` into `layer`, whose only reader it is."""

    layer: ir.Node
    affine_node: ir.Node
    folded: Linear


@dataclass(frozen=True, eq=False)
class FoldedLayer:
    """A layer after the map, its new constants, and the value its padding must have (None: it pads as before)."""

    layer: ir.Node
    folded: Linear
    pad_value: float | None


@dataclass(frozen=True, eq=False)
class FoldBefore:
    """Fold a chain of affine nodes into all the layers that read its result."""

    chain: Nodes
    layers: tuple[FoldedLayer, ...]


Fold: TypeAlias = FoldAfter | FoldBefore


def affine_rule(name: str, summary: str, *op_types: str) -> Rule[Fold]:
    """A rule that folds affine nodes of `op_types` into the layer before them, else into the layers after them."""
    return Rule(
        name=name,
        exact=True,
        cpu="blocks",
        summary=summary,
        pattern=_pattern_for(op_types),
        check=check_fold,
        rewrite=rewrite_fold,
    )


def _pattern_for(op_types: tuple[str, ...]) -> Callable[[Editor, ir.Node], Nodes | None]:
    def pattern(editor: Editor, node: ir.Node) -> Nodes | None:
        value = affine_input(editor, node) if is_op(node, *op_types) else None
        if value is None:
            return None
        producer = editor.producer(value, *LINEAR_OPS)
        if producer is not None and editor.only_user(value) is node:
            return producer, node
        return (node, *editor.users(node.outputs[0]))

    return pattern


def check_fold(editor: Editor, nodes: Nodes) -> Fold:
    """(layer, affine) folds backward; (affine, readers...) folds forward."""
    if is_op(nodes[0], *LINEAR_OPS):
        return _check_after(editor, nodes[0], nodes[1])
    return check_before(editor, nodes[:1], nodes[1:])


def _check_after(editor: Editor, layer: ir.Node, affine_node: ir.Node) -> FoldAfter:
    affine = read_affine(editor, affine_node)
    linear = _taking_over(editor, layer)
    if affine.scale.size != linear.outputs or not can_hold_bias(editor, layer):
        raise Refused(f"its channels are not the outputs of '{editor.layer(layer)}'")
    return FoldAfter(layer, affine_node, linear.followed_by(affine))


def _taking_over(editor: Editor, layer: ir.Node) -> Linear:
    try:
        return read_linear(editor, layer)
    except Refused as refusal:
        raise Refused(f"'{editor.layer(layer)}' cannot take it over: {refusal.reason}") from refusal


def check_before(editor: Editor, chain: Nodes, readers: Nodes) -> FoldBefore:
    """The affine maps of `chain`, each reading the one before, folded into all of `readers`. Raises Refused."""
    affine: Affine | None = None
    for node in chain:
        step = read_affine(editor, node)
        affine = step if affine is None else affine.then(step)
    result = chain[-1].outputs[0]
    if affine is None or result.is_graph_output():
        raise Refused(f"'{result.name}' is an output of the network")
    layers = tuple(_check_reader(editor, reader, result, affine) for reader in readers)
    if not layers:
        raise Refused("nobody reads its result")
    return FoldBefore(chain, layers)


def _check_reader(editor: Editor, reader: ir.Node, value: ir.Value, affine: Affine) -> FoldedLayer:
    name = editor.layer(reader)
    if not is_op(reader, *LINEAR_OPS):
        before = "it does not follow a layer that it could be folded into alone, and "
        raise Refused(f"{before}'{name}' ({reader.op_type}), which reads it, is not a convolution or fully connected")
    linear = _taking_over(editor, reader)
    if data_input(reader) is not value or affine.scale.size != linear.inputs or not can_hold_bias(editor, reader):
        raise Refused(f"its channels are not the inputs of '{name}'")
    if not np.any(affine.shift):
        return FoldedLayer(reader, linear.preceded_by(affine), None)
    if is_op(reader, "ConvTranspose"):
        raise Refused(f"'{name}' is a transposed convolution: at its borders not every tap sees the shift")
    if not is_op(reader, "Conv") or not read(editor, reader, read_window).reads_padding:
        return FoldedLayer(reader, linear.preceded_by(affine), None)
    pad_value = _common_pad_value(affine)
    if pad_value is None:
        raise Refused(
            f"'{name}' pads with zeros, which stand for a different input value in each channel; "
            "an explicit padding can hold one value only"
        )
    return FoldedLayer(reader, linear.preceded_by(affine), pad_value)


def _common_pad_value(affine: Affine) -> float | None:
    """The x with scale * x + shift = 0, when it is the same in every channel (to float32 rounding)."""
    if not np.all(affine.scale):
        return None
    values = -affine.shift / affine.scale
    return float(values[0]) if np.allclose(values, values[0], rtol=2.0**-22, atol=0.0) else None


def rewrite_fold(editor: Editor, fold: Fold) -> None:
    """Write the folded constants, take the affine nodes out and hand their tags to the layers."""
    if isinstance(fold, FoldAfter):
        write_linear(editor, fold.layer, fold.folded)
        editor.supersede(fold.affine_node.outputs[0], fold.layer.outputs[0])
        editor.remove(fold.affine_node)
        return
    source = affine_input(editor, fold.chain[0])
    if source is None:
        return
    outputs = [folded.layer.outputs[0] for folded in fold.layers]
    for node in fold.chain:
        editor.copy_tags(node, outputs)
        editor.forget_tags(node)
    for folded in fold.layers:
        write_linear(editor, folded.layer, folded.folded)
        folded.layer.replace_input_with(0, source)
        if folded.pad_value is not None:
            _pad_explicitly(editor, folded.layer, source, folded.pad_value)
    editor.remove(*fold.chain)


def _pad_explicitly(editor: Editor, layer: ir.Node, source: ir.Value, pad_value: float) -> None:
    """Put a Pad of `source` with `pad_value` in front of the Conv `layer`, marked as a part of it."""
    padded = insert_pad(editor, layer, source, read(editor, layer, read_window).pads_read, pad_value)
    layer.replace_input_with(0, padded)
    set_pads(layer, (0, 0, 0, 0))


def insert_pad(
    editor: Editor, layer: ir.Node, source: ir.Value, pads: tuple[int, int, int, int], pad_value: float
) -> ir.Value:
    """A constant Pad of H and W in front of `layer`, marked to be fused into it; returns the padded value."""
    top, left, bottom, right = pads
    batch, channels, height, width = editor.shape(source)
    name = f"{editor.layer(layer)}_pad"
    widths = editor.constant(f"{name}.pads", np.array([0, 0, top, left, 0, 0, bottom, right], np.int64))
    value = editor.constant(f"{name}.value", np.array(pad_value, np.float32))
    shape = (batch, channels, top + height + bottom, left + width + right)
    padded = editor.insert(layer, "Pad", [source, widths, value], {"mode": "constant"}, shape=shape, name=name)
    node = padded.producer()
    if node is not None:
        editor.set_mark(node, layer.outputs[0])
    return padded
