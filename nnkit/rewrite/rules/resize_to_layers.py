"""Make an interpolating Resize of layers that every target has.

Pattern: Resize of H and W with mode `linear` or `cubic`, or `nearest` where elements are not repeated evenly.
Algebra: enlarging by a whole factor f with half-pixel coordinates is the mean of f neighbours of the map with every
  element repeated f times (for an even f of two such means, half an element apart): nearest Resize, AveragePool of
  f x f whose padding does not count, for even factors AveragePool of 2. Any other is a matrix along each axis, a 1x1
  convolution with that axis in the place of the channels: y = M_h x M_w^T.
Declines where the aspect ratio is kept, and for axes other than H and W.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nnkit.graph.read.resize import Resize, read_resize
from nnkit.graph.refusal import Refused
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import data_input, is_op, read, read_or_none
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir

_NEAREST = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}


@dataclass(frozen=True, eq=False)
class _Match:
    node: ir.Node
    resize: Resize
    factors: tuple[int, int] | None  # whole ones, to be made by means
    matrices: tuple[NDArray[np.float32], NDArray[np.float32]] | None


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    if not is_op(node, "Resize") or len(editor.shape(data_input(node))) != 4:
        return None
    resize = read_or_none(editor, node, read_resize)
    even = resize is not None and resize.mode == "nearest" and all(resize.repeats(axis) for axis in range(4))
    return None if resize is None or even else (node,)


def check(editor: Editor, nodes: Nodes) -> _Match:
    (node,) = nodes
    resize = read(editor, node, read_resize)
    if resize.keeps_aspect:
        raise Refused("it keeps the aspect ratio")
    if resize.before[:2] != resize.after[:2]:
        raise Refused("it resizes other axes than H and W")
    factors = resize.whole_factors
    means = resize.mode == "linear" and resize.plain and resize.coordinates in ("half_pixel", "pytorch_half_pixel")
    if factors is not None and means and 1 not in resize.after[2:] and resize.scales[2:] == factors[2:]:
        return _Match(node, resize, (factors[2], factors[3]), None)
    return _Match(node, resize, None, (_matrix(resize, 2), _matrix(resize, 3)))


def _matrix(resize: Resize, axis: int) -> NDArray[np.float32]:
    """[outputs, inputs] along an axis."""
    size, out = resize.before[axis], resize.after[axis]
    matrix = np.zeros((out, size), np.float32)
    rows = np.arange(out)
    if resize.mode == "nearest":
        matrix[rows, resize.nearest(axis)] = 1.0
        return matrix
    return resize.filtered(axis).astype(np.float32)


def rewrite(editor: Editor, match: _Match) -> None:
    if match.factors is not None:
        _means(editor, match.node, match.factors)
    elif match.matrices is not None:
        _products(editor, match.node, match.matrices)


def _means(editor: Editor, node: ir.Node, factors: tuple[int, int]) -> None:
    name, value = editor.layer(node), data_input(node)
    images, channels, height, width = editor.shape(value)
    shape = [images, channels, height * factors[0], width * factors[1]]
    scales = editor.constant(f"{name}.scales", np.array([1, 1, *factors], np.float32))
    value = editor.insert(node, "Resize", [value, None, scales], _NEAREST, shape=shape, name=f"{name}_repeated")
    even = [factor % 2 == 0 for factor in factors]
    made = [value]
    mean = {"kernel_shape": list(factors), "strides": [1, 1], "count_include_pad": 0}
    mean["pads"] = [factor // 2 for factor in factors] * 2
    if any(even):
        shape = [images, channels, shape[2] + even[0], shape[3] + even[1]]
        value = editor.insert(node, "AveragePool", [value], mean, shape=shape, name=f"{name}_mean")
        made.append(value)
        mean = {"kernel_shape": [1 + both for both in even], "strides": [1, 1], "pads": [0] * 4}
    editor.copy_tags(node, made)
    editor.become(node, "AveragePool", [value], mean)


def _products(editor: Editor, node: ir.Node, matrices: tuple[NDArray[np.float32], NDArray[np.float32]]) -> None:
    name, value = editor.layer(node), data_input(node)
    made: list[ir.Value] = []
    for axis, matrix, order in ((2, matrices[0], (0, 2, 1, 3)), (3, matrices[1], (0, 3, 2, 1))):
        shape = editor.shape(value)
        if axis == 2 and matrix.shape[0] == matrix.shape[1] and np.array_equal(matrix, np.eye(len(matrix))):
            continue
        label = f"{name}_{'height' if axis == 2 else 'width'}"
        turned = [shape[i] for i in order]
        value = editor.insert(node, "Transpose", [value], {"perm": list(order)}, shape=turned, name=f"{label}_first")
        weight = editor.constant(f"{label}.weight", matrix[:, :, None, None])
        turned = [shape[0], len(matrix), *turned[2:]]
        ones = {"kernel_shape": [1, 1], "strides": [1, 1], "pads": [0] * 4}
        product = editor.insert(node, "Conv", [value, weight], ones, shape=turned, name=label)
        made += [value, product]
        if axis == 3:
            editor.copy_tags(node, made)
            editor.become(node, "Transpose", [product], {"perm": list(order)})
            return
        shape = tuple(turned[i] for i in order)
        value = editor.insert(node, "Transpose", [product], {"perm": list(order)}, shape=shape, name=f"{label}_back")
        made.append(value)


RULE = Rule("resize_to_layers", True, "blocks", __doc__ or "", _pattern, check, rewrite)
