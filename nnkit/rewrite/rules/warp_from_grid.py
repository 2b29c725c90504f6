"""Make a sampling grid of an affine matrix a warp, which the CPU can do between two networks.

Pattern: (AffineGrid, or a constant grid of coordinates multiplied with the transposed matrix) -> GridSample, of
[1, C, H, W] with a computed matrix theta [1, 2, 3].
Algebra: AffineGrid gives output pixel (j, i) the normalised point theta (x, y, 1), where S (j, i, 1) = (x, y, 1);
GridSample reads the input at P of that point. S and P depend on the sizes and on align_corners alone:
  aligned      x = 2 j / (w - 1) - 1     and back  p = (x + 1) (W - 1) / 2
  otherwise    x = (2 j + 1) / w - 1     and back  p = ((x + 1) W - 1) / 2
So the warp's matrix from output to input pixels is P [theta; 0 0 1] S, linear in theta: one fully connected layer
of 6 inputs and 9 outputs in front of ai.nnkit's WarpPerspective, direction `inverse`. Padding `zeros` is the border
`constant` 0, `border` is `replicate`.
Declines for nearest and cubic sampling (nearest jumps where rounding differs), for padding by reflection, and for
grids that are not those of a matrix.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nnkit.graph.refusal import Refused
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import as_node, data_input, is_op, operand
from nnkit.rewrite.reshaping import keeps_order, reshaped
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir

_BORDERS = {"zeros": "constant", "border": "replicate"}


@dataclass(frozen=True, eq=False)
class _Match:
    nodes: Nodes
    theta: ir.Value
    weight: NDArray[np.float64]  # [9, 6]
    bias: NDArray[np.float64]  # [9]
    border: str


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    if not is_op(node, "GridSample"):
        return None
    chain: list[ir.Node] = [node]
    value = operand(node, 1)
    while value is not None:
        before = value.producer()
        if before is None:
            return None
        chain.insert(0, before)
        if is_op(before, "AffineGrid"):
            return tuple(chain)
        if is_op(before, "MatMul"):
            turned = operand(before, 1)
            transpose = turned.producer() if turned is not None else None
            return (transpose, *chain) if transpose is not None and is_op(transpose, "Transpose") else None
        if not keeps_order(editor, before):
            return None
        value = before.inputs[0]
    return None


def _check(editor: Editor, nodes: Nodes) -> _Match:
    first, sample = nodes[0], nodes[-1]
    sampling = as_node(sample)
    mode, padding = sampling.text("mode", "linear"), sampling.text("padding_mode", "zeros")
    if mode not in ("linear", "bilinear"):
        raise Refused(f"it samples with mode {mode}; only linear sampling is the same however it is computed")
    if padding not in _BORDERS:
        raise Refused(f"it pads with {padding}, which the warp has not")
    image, out = editor.shape(data_input(sample)), editor.shape(sample.outputs[0])
    theta = data_input(first)
    if len(image) != 4 or image[0] != 1 or editor.shape(theta) != (1, 2, 3):
        raise Refused("it is not one image sampled with one matrix of 2 x 3")
    if editor.array(theta) is not None:
        raise Refused("its matrix is constant")
    for before, after in itertools.pairwise(nodes):
        editor.require_only_reader(before.outputs[0], after)
    to_grid = _to_grid(editor, nodes, out[2], out[3])
    to_pixels = _to_pixels(image[2], image[3], aligned=bool(sampling.integer("align_corners", 0)))
    weight, bias = _linear(to_pixels, to_grid)
    return _Match(nodes, theta, weight, bias, _BORDERS[padding])


def _to_grid(editor: Editor, nodes: Nodes, height: int, width: int) -> NDArray[np.float64]:
    """S, [3, 3]: from output pixels (j, i, 1) to the point that theta is applied to."""
    first = nodes[0]
    if is_op(first, "AffineGrid"):
        return _normalised(height, width, aligned=bool(as_node(first).integer("align_corners", 0)))
    product = next(node for node in nodes if is_op(node, "MatMul"))
    points = editor.array(operand(product, 0))
    if as_node(first).ints("perm") != (0, 2, 1) or points is None or points.size != 3 * height * width:
        raise Refused("its grid is not a constant grid of points times the transposed matrix")
    rows, columns = np.meshgrid(np.arange(height), np.arange(width), indexing="ij")
    pixels = np.stack([columns, rows, np.ones_like(rows)], axis=-1).reshape(-1, 3).astype(np.float64)
    for aligned in (True, False):
        matrix = _normalised(height, width, aligned=aligned)
        if np.allclose(points.reshape(-1, 3), pixels @ matrix.T, rtol=0.0, atol=1e-6):
            return matrix
    raise Refused("its constant grid is not the grid of the output's pixels")


def _normalised(height: int, width: int, *, aligned: bool) -> NDArray[np.float64]:
    def axis(size: int) -> tuple[float, float]:
        if aligned:
            return (2.0 / (size - 1), -1.0) if size > 1 else (0.0, 0.0)
        return 2.0 / size, 1.0 / size - 1.0

    (sx, tx), (sy, ty) = axis(width), axis(height)
    return np.array([[sx, 0.0, tx], [0.0, sy, ty], [0.0, 0.0, 1.0]])


def _to_pixels(height: int, width: int, *, aligned: bool) -> NDArray[np.float64]:
    """P, [3, 3]: from a normalised point to input pixels."""

    def axis(size: int) -> tuple[float, float]:
        scale = (size - 1 if aligned else size) / 2.0
        return scale, scale if aligned else scale - 0.5

    (sx, tx), (sy, ty) = axis(width), axis(height)
    return np.array([[sx, 0.0, tx], [0.0, sy, ty], [0.0, 0.0, 1.0]])


def _linear(
    to_pixels: NDArray[np.float64], to_grid: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """P [theta; 0 0 1] S as weight [9, 6] and bias [9] over theta's six numbers by rows."""

    def matrix(theta: NDArray[np.float64]) -> NDArray[np.float64]:
        full = np.concatenate([theta, np.array([[0.0, 0.0, 1.0]])])
        return np.asarray(to_pixels @ full @ to_grid, np.float64).reshape(-1)

    bias = matrix(np.zeros((2, 3)))
    columns = [matrix(unit.reshape(2, 3)) - bias for unit in np.eye(6)]
    return np.stack(columns, axis=1), bias


def _rewrite(editor: Editor, match: _Match) -> None:
    sample = match.nodes[-1]
    name = editor.layer(sample)
    flat = reshaped(editor, sample, match.theta, (1, 6), f"{name}_theta")
    constants = [
        editor.constant(f"{name}_matrix.weight", match.weight.astype(np.float32)),
        editor.constant(f"{name}_matrix.bias", match.bias.astype(np.float32)),
    ]
    matrix = editor.insert(sample, "Gemm", [flat, *constants], {"transB": 1}, shape=(1, 9), name=f"{name}_matrix")
    shape = editor.shape(sample.outputs[0])
    attributes = {
        "direction": "inverse",
        "interpolation": "bilinear",
        "border": match.border,
        "border_value": 0.0,
        "out_h": shape[2],
        "out_w": shape[3],
    }
    editor.become(sample, "WarpPerspective", [data_input(sample), matrix], attributes)
    sample.domain = "ai.nnkit"
    editor.graph.opset_imports["ai.nnkit"] = 1
    for node in reversed(match.nodes[:-1]):
        editor.move_tags(node, matrix)
        editor.remove(node)


RULE = Rule("warp_from_grid", True, "carries", __doc__ or "", _pattern, _check, _rewrite)
