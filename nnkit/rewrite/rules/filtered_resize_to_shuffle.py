"""Make a Resize of few channels by a whole factor, whose filter is wider than two elements, one convolution.

Pattern: Resize of H and W with mode `cubic`, or an antialiased one, that enlarges both by the same whole factor f.
Algebra: each of the f x f results at an element is a sum over its neighbourhood, where the border's element stands
  for what lies outside: Pad (edge), Conv of each channel into f x f, DepthToSpace.
Declines where that makes more than 64 channels, and where the filter is another at the border.
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

_MOST_CHANNELS = 64
_EXACT = 1e-6  # that shares of an element may differ by, worked out in float32


@dataclass(frozen=True, eq=False)
class _Match:
    """reach: how many elements on each side count. shares: [f, 2 reach + 1] along H, and along W."""

    node: ir.Node
    factor: int
    reach: int
    shares: tuple[NDArray[np.float64], NDArray[np.float64]]


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    if not is_op(node, "Resize") or len(editor.shape(data_input(node))) != 4:
        return None
    resize = read_or_none(editor, node, read_resize)
    return (node,) if resize is not None and (resize.mode == "cubic" or resize.antialias) else None


def _check(editor: Editor, nodes: Nodes) -> _Match:
    (node,) = nodes
    resize = read(editor, node, read_resize)
    factors = resize.whole_factors
    if factors is None or resize.keeps_aspect or factors[:2] != (1, 1) or not 1 < factors[2] == factors[3]:
        raise Refused("it does not enlarge H and W by the same whole factor")
    factor = factors[2]
    if resize.before[1] * factor * factor > _MOST_CHANNELS:
        raise Refused(f"that makes more than {_MOST_CHANNELS} channels")
    reach = 2 if resize.mode == "cubic" else 1
    return _Match(node, factor, reach, (_shares(resize, 2, factor, reach), _shares(resize, 3, factor, reach)))


def _shares(resize: Resize, axis: int, factor: int, reach: int) -> NDArray[np.float64]:
    """[f, 2 reach + 1]: what the neighbours of an element give to each of its f results."""
    matrix, size, taps = resize.filtered(axis), resize.before[axis], 2 * reach + 1
    if size < taps:
        raise Refused("an axis is shorter than the filter")
    inside = size // 2  # an element whose neighbours all are
    near = matrix[inside * factor : (inside + 1) * factor, inside - reach : inside + reach + 1]
    whole = np.zeros_like(matrix)
    for each in range(size):
        for tap in range(taps):
            at = min(max(each + tap - reach, 0), size - 1)
            whole[each * factor : (each + 1) * factor, at] += near[:, tap]
    if np.abs(whole - matrix).max() > _EXACT:
        raise Refused("its filter is another at the border")
    return near


def _rewrite(editor: Editor, match: _Match) -> None:
    node, factor, reach = match.node, match.factor, match.reach
    name, value = editor.layer(node), data_input(node)
    images, channels, height, width = editor.shape(value)
    pads = editor.constant(f"{name}.pads", np.array([0, 0, reach, reach] * 2, np.int64))
    padded = (images, channels, height + 2 * reach, width + 2 * reach)
    bordered = editor.insert(node, "Pad", [value, pads], {"mode": "edge"}, shape=padded, name=f"{name}_padded")
    taps = 2 * reach + 1
    of_one = np.einsum("py,qx->pqyx", *match.shares).reshape(factor * factor, 1, taps, taps)
    weight = editor.constant(f"{name}.weight", np.tile(of_one, (channels, 1, 1, 1)).astype(np.float32))
    window = {"kernel_shape": [taps, taps], "strides": [1, 1], "pads": [0] * 4, "group": channels}
    shape = (images, channels * factor * factor, height, width)
    sums = editor.insert(node, "Conv", [bordered, weight], window, shape=shape, name=f"{name}_sums")
    editor.copy_tags(node, [bordered, sums])
    editor.become(node, "DepthToSpace", [sums], {"blocksize": factor, "mode": "CRD"})


RULE = Rule("filtered_resize_to_shuffle", True, "blocks", __doc__ or "", _pattern, _check, _rewrite)
