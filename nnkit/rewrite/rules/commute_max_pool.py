"""Put the activation before the max pooling, next to its convolution.

Pattern: (Conv | ConvTranspose | Add) -> MaxPool -> Relu, Clip with constant bounds, LeakyRelu or PRelu.
Algebra: f(max(a, b, ...)) = max(f(a), f(b), ...) for an f that never decreases. Relu and Clip are such; LeakyRelu
and PRelu are when no slope is negative. Padding is absent from the maximum on both sides.
Declines when a result between them is read elsewhere, when the pooling gives indices, and for negative slopes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import clip_bounds, data_input, float_of, is_op, operand, per_channel
from nnkit.rewrite.rule import Declined, Nodes, Rule
from nnkit.rewrite.rules.fuse_activation import ACTIVATIONS

if TYPE_CHECKING:
    import onnx_ir as ir


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    if not is_op(node, *ACTIVATIONS):
        return None
    pool = editor.producer(data_input(node), "MaxPool")
    start = editor.producer(data_input(pool), "Conv", "ConvTranspose", "Add") if pool is not None else None
    return None if pool is None or start is None else (pool, node)


def _check(editor: Editor, nodes: Nodes) -> Nodes | Declined:
    pool, node = nodes
    for value, reader in ((data_input(pool), pool), (pool.outputs[0], node)):
        other = editor.other_uses(value, reader)
        if other is not None:
            return Declined(other)
    if len(pool.outputs) > 1:
        return Declined("the pooling gives indices too")
    if is_op(node, "Clip") and clip_bounds(editor, node) is None:
        return Declined("its bounds are not constant")
    if is_op(node, "LeakyRelu") and float_of(node, "alpha", 0.01) < 0:
        return Declined("its slope is negative, so it does not keep the order of values")
    if is_op(node, "PRelu"):
        slope = editor.array(operand(node, 1))
        if slope is None or (slope.size != 1 and per_channel(slope, editor.shape(data_input(node))) is None):
            return Declined("its slopes are not constant per channel")
        if slope.min() < 0:
            return Declined("a slope is negative, so it does not keep the order of values")
    return nodes


def _rewrite(editor: Editor, nodes: Nodes) -> None:
    pool, node = nodes
    value, result = data_input(pool), node.outputs[0]
    pool_name, pool_attributes = editor.layer(pool), dict(pool.attributes)
    moved = editor.insert(
        pool,
        str(node.op_type),
        [value, *node.inputs[1:]],
        dict(node.attributes),
        shape=editor.shape(value),
        name=f"{editor.layer(node)}_moved",
    )
    editor.move_tags(node, moved)
    moved_node = moved.producer()
    if moved_node is not None:
        editor.take_layer_name(moved_node, node, "_output")
    editor.become(node, "MaxPool", [moved], pool_attributes)
    editor.move_tags(pool, result)
    editor.remove(pool)
    node.name = pool_name


RULE = Rule("commute_max_pool", True, "carries", __doc__ or "", _pattern, _check, _rewrite)
