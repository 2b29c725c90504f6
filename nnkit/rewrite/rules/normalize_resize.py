"""Bring nearest-neighbour upsampling by whole factors to one form.

Pattern: Resize of H and W with mode `nearest`, whatever its coordinate and rounding attributes, by scales or sizes.
Algebra: for every output row and column the source that ONNX's formula picks is computed; when it is
  y[oy, ox] = x[oy // sh, ox // sw] with whole factors sh, sw throughout, the op becomes the Resize with
  coordinate_transformation_mode asymmetric, nearest_mode floor and scales [1, 1, sh, sw], which means just that.
Declines for linear and cubic modes, fractional factors, downsampling, and formulas that pick other sources. (The
opset-9 op Upsample becomes Resize when the importer upgrades the model.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import data_input, ints_of, is_op, operand, string_of
from nnkit.rewrite.rule import Declined, Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir


@dataclass(frozen=True)
class _Match:
    node: ir.Node
    scale_h: int
    scale_w: int


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    return (node,) if is_op(node, "Resize") and not _is_normal(editor, node) else None


def _is_normal(editor: Editor, node: ir.Node) -> bool:
    scales = editor.array(operand(node, 2))
    return (
        set(node.attributes) == {"mode", "coordinate_transformation_mode", "nearest_mode"}
        and string_of(node, "mode", "nearest") == "nearest"
        and string_of(node, "coordinate_transformation_mode", "half_pixel") == "asymmetric"
        and string_of(node, "nearest_mode", "round_prefer_floor") == "floor"
        and len(node.inputs) == 3
        and scales is not None
        and scales.shape == (4,)
        and bool(np.all(scales == np.round(scales)) and np.all(scales[:2] == 1))
    )


def _check(editor: Editor, nodes: Nodes) -> _Match | Declined:
    (node,) = nodes
    sources = nearest_sources(editor, node)
    if isinstance(sources, Declined):
        return sources
    shape = editor.shape(data_input(node))
    factors = []
    for axis, picked in enumerate(sources):
        factor, rest = divmod(picked.size, shape[axis])
        if rest or factor < 1:
            return Declined(f"axis {axis} goes from {shape[axis]} to {picked.size}, which is not a whole factor")
        if not np.array_equal(picked, np.arange(picked.size) // factor):
            mode = string_of(node, "coordinate_transformation_mode", "half_pixel")
            rounding = string_of(node, "nearest_mode", "round_prefer_floor")
            return Declined(f"with {mode} coordinates and {rounding} it does not repeat each element {factor} times")
        factors.append(factor)
    if factors[:2] != [1, 1]:
        return Declined("it resizes other axes than H and W")
    return _Match(node, factors[2], factors[3])


def nearest_sources(editor: Editor, node: ir.Node) -> list[NDArray[np.int64]] | Declined:
    """For each of the four axes, the input index that every output index reads (formula: ONNX operator Resize)."""
    mode = string_of(node, "mode", "nearest")
    if mode != "nearest":
        return Declined(f"its mode is {mode}; only nearest repeats elements")
    if string_of(node, "keep_aspect_ratio_policy", "stretch") != "stretch":
        return Declined("it keeps the aspect ratio")
    coordinates = string_of(node, "coordinate_transformation_mode", "half_pixel")
    inputs, outputs = editor.shape(data_input(node)), editor.shape(node.outputs[0])
    if len(inputs) != 4:
        return Declined(f"it has {len(inputs)} axes instead of 4")
    scales = _scales(editor, node, inputs, outputs)
    if scales is None:
        return Declined("its scales are not constant")
    rounding = string_of(node, "nearest_mode", "round_prefer_floor")
    sources = []
    for size, result, scale in zip(inputs, outputs, scales, strict=True):
        position = _positions(coordinates, np.arange(result, dtype=np.float64), size, result, scale)
        if position is None:
            return Declined(f"its coordinates are {coordinates}")
        sources.append(np.clip(_rounded(position, rounding), 0, size - 1))
    return sources


def _scales(editor: Editor, node: ir.Node, inputs: tuple[int, ...], outputs: tuple[int, ...]) -> list[float] | None:
    given = editor.array(operand(node, 2))
    if given is None or given.size == 0:
        by_size = editor.array(operand(node, 3)) is not None
        return [out / size for size, out in zip(inputs, outputs, strict=True)] if by_size else None
    axes = ints_of(node, "axes", range(4))
    scales = [1.0] * 4
    for axis, scale in zip(axes, given.tolist(), strict=True):
        scales[axis % 4] = float(scale)
    return scales


def _positions(
    coordinates: str, index: NDArray[np.float64], size: int, result: int, scale: float
) -> NDArray[np.float64] | None:
    if size == result and scale == 1.0:
        return index
    if coordinates == "asymmetric":
        return index / scale
    if coordinates in ("half_pixel", "half_pixel_symmetric") and result == size * scale:
        return (index + 0.5) / scale - 0.5
    if coordinates == "half_pixel":
        return (index + 0.5) / scale - 0.5
    if coordinates == "pytorch_half_pixel":
        return (index + 0.5) / scale - 0.5 if result > 1 else np.zeros_like(index)
    if coordinates == "align_corners":
        return index * (size - 1) / (result - 1) if result > 1 else np.zeros_like(index)
    return None


def _rounded(position: NDArray[np.float64], rounding: str) -> NDArray[np.int64]:
    if rounding == "floor":
        return np.floor(position).astype(np.int64)
    if rounding == "ceil":
        return np.ceil(position).astype(np.int64)
    if rounding == "round_prefer_ceil":
        return np.floor(position + 0.5).astype(np.int64)
    return np.ceil(position - 0.5).astype(np.int64)


def _rewrite(editor: Editor, match: _Match) -> None:
    node = match.node
    scales = np.array([1, 1, match.scale_h, match.scale_w], np.float32)
    editor.become(
        node,
        "Resize",
        [data_input(node), None, editor.constant(f"{editor.layer(node)}.scales", scales)],
        {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
    )


RULE = Rule("normalize_resize", True, "carries", __doc__ or "", _pattern, _check, _rewrite)
