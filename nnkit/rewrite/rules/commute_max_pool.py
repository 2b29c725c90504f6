"""Put the activation before the max pooling, next to its convolution.

Pattern: (Conv | ConvTranspose | Add) -> MaxPool -> Relu, Clip with constant bounds, LeakyRelu or PRelu.
Algebra: f(max(a, b, ...)) = max(f(a), f(b), ...) for an f that never decreases. Relu and Clip are such; LeakyRelu
and PRelu are when no slope is negative. Padding is absent from the maximum on both sides.
Declines when a result between them is read elsewhere, when the pooling gives indices, and for negative slopes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nnkit.graph.read.activation import read_slopes
from nnkit.graph.read.clip import read_clip
from nnkit.graph.refusal import Refused
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import data_input, is_op, read
from nnkit.rewrite.rule import Nodes, Rule
from nnkit.rewrite.rules.fuse_activation import ACTIVATIONS

if TYPE_CHECKING:
    import onnx_ir as ir


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    if not is_op(node, *ACTIVATIONS):
        return None
    pool = editor.producer(data_input(node), "MaxPool")
    start = editor.producer(data_input(pool), "Conv", "ConvTranspose", "Add") if pool is not None else None
    return None if pool is None or start is None else (pool, node)


def _check(editor: Editor, nodes: Nodes) -> Nodes:
    pool, node = nodes
    for value, reader in ((data_input(pool), pool), (pool.outputs[0], node)):
        editor.require_only_reader(value, reader)
    if len(pool.outputs) > 1:
        raise Refused("the pooling gives indices too")
    if is_op(node, "Clip"):
        read(editor, node, read_clip)
    if is_op(node, "LeakyRelu", "PRelu") and read(editor, node, read_slopes).min() < 0:
        raise Refused("a slope is negative, so it does not keep the order of values")
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
    editor.take_layer_name(moved, node, "_output")
    editor.become(node, "MaxPool", [moved], pool_attributes)
    editor.move_tags(pool, result)
    editor.remove(pool)
    node.name = pool_name


RULE = Rule("commute_max_pool", True, "carries", __doc__ or "", _pattern, _check, _rewrite)
