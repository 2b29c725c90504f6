"""Resize and Upsample: which input positions an output position is made of.

The source coordinate of output position i, with s the scale, by coordinate_transformation_mode: half_pixel
(i + 0.5) / s - 0.5; pytorch_half_pixel the same, 0 for an output of one; asymmetric i / s; align_corners
i * (input - 1) / (output - 1). Worked out in float32, as ONNX Runtime does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nnkit.graph.read.operands import axis_from_front, optional_constant
from nnkit.graph.refusal import Refused
from nnkit.graph.view import Node, ReadableGraph, Shape

COORDINATES = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "asymmetric", "align_corners")
EVEN_COORDINATES = ("half_pixel", "pytorch_half_pixel", "align_corners")
"""Those that are the same from either end, and that compilers commonly know."""


@dataclass(frozen=True)
class Resize:
    """mode: nearest, linear or cubic. coordinates, rounding: ONNX's coordinate_transformation_mode, nearest_mode.

    scales: of every axis, as ONNX uses them: those given, or the ratio of the sizes. before, after: the shapes.
    plain: neither antialiased nor with the aspect ratio kept. antialias: the filter is as wide as what an output
        stands for. keeps_aspect: one scale for all axes. cubic: the coefficient a of the cubic filter. inside_alone:
        what the filter has outside of the input counts for nothing; else the border's element stands there.
    """

    data: str
    mode: str
    coordinates: str
    rounding: str
    scales: tuple[float, ...]
    before: Shape
    after: Shape
    antialias: bool
    keeps_aspect: bool
    cubic: float
    inside_alone: bool

    @property
    def plain(self) -> bool:
        return not self.antialias and not self.keeps_aspect

    @property
    def whole_factors(self) -> tuple[int, ...] | None:
        """How many times each axis is enlarged; None where one is not by a whole number."""
        if any(new % old for new, old in zip(self.after, self.before, strict=True)):
            return None
        return tuple(new // old for new, old in zip(self.after, self.before, strict=True))

    def positions(self, axis: int) -> NDArray[np.float32]:
        """The source coordinate of every output position along an axis. Raises Refused for unknown coordinates.

        An output of the input's shape is its copy, whatever the scales: so has ONNX Runtime it.
        """
        size, out, scale = self.before[axis], self.after[axis], np.float32(self.scales[axis])
        index = np.arange(out, dtype=np.float32)
        if scale == 1 or self.before == self.after:
            return index
        if self.coordinates == "asymmetric":
            return index / scale
        if self.coordinates == "align_corners":
            return index * np.float32((size - 1) / (out - 1) if out > 1 else 0)
        if self.coordinates == "pytorch_half_pixel" and out == 1:
            return np.zeros(1, np.float32)
        half = np.float32(0.5)
        if self.coordinates in ("half_pixel", "pytorch_half_pixel"):
            return (index + half) / scale - half
        if self.coordinates == "half_pixel_symmetric" and out == size * scale:
            return (index + half) / scale - half
        raise Refused(f"its coordinates are {self.coordinates} ({', '.join(COORDINATES)} are known)")

    def nearest(self, axis: int) -> NDArray[np.int32]:
        """The input position that every output position takes along an axis, with mode nearest."""
        where, half = self.positions(axis), np.float32(0.5)
        rounded = {
            "floor": np.floor(where),
            "ceil": np.ceil(where),
            "round_prefer_floor": np.ceil(where - half),
            "round_prefer_ceil": np.floor(where + half),
        }
        inside = np.clip(rounded[self.rounding], 0, self.before[axis] - 1)
        return np.asarray(inside, np.int32)

    def filtered(self, axis: int) -> NDArray[np.float64]:
        """[outputs, inputs]: the shares of the input in every output along an axis, with mode linear or cubic.

        The filter is a triangle, or a cubic of Keys (1981); an antialiased one is as many times wider as the axis
        shrinks, and is brought to a sum of 1.
        """
        size, where = self.before[axis], self.positions(axis).astype(np.float64)
        wider = max(1.0, 1.0 / self.scales[axis]) if self.antialias else 1.0
        reach = (2.0 if self.mode == "cubic" else 1.0) * wider
        shares = np.zeros((where.size, size))
        for row, center in zip(shares, where, strict=True):
            taps = np.arange(np.floor(center - reach), np.ceil(center + reach) + 1)
            weights = self._filter(np.abs(taps - center) / wider)
            inside = (taps >= 0) & (taps < size)
            if self.inside_alone:
                weights = np.where(inside, weights, 0.0)
            np.add.at(row, np.clip(taps, 0, size - 1).astype(np.int64), weights)
        return shares / shares.sum(axis=1, keepdims=True) if self.antialias or self.inside_alone else shares

    def _filter(self, distance: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.mode != "cubic":
            return np.maximum(0.0, 1.0 - distance)
        d, a = distance, self.cubic
        near = ((a + 2) * d - (a + 3)) * d**2 + 1
        far = ((d - 5) * d + 8) * d * a - 4 * a
        return np.where(d < 1, near, np.where(d < 2, far, 0.0))

    def repeats(self, axis: int) -> bool:
        """Whether it takes every position of an axis equally often, in order: index // factor."""
        factor, rest = divmod(self.after[axis], self.before[axis])
        return rest == 0 and bool(np.array_equal(self.nearest(axis), np.arange(self.after[axis]) // factor))


def read_resize(graph: ReadableGraph, node: Node) -> Resize:
    """Read a Resize or an Upsample. Raises Refused where its scales are computed."""
    before, after = graph.shape(node.inputs[0]), graph.shape(node.output)
    upsample = node.op_type == "Upsample"
    return Resize(
        data=node.inputs[0],
        mode=node.text("mode", "nearest"),
        coordinates="asymmetric" if upsample else node.text("coordinate_transformation_mode", "half_pixel"),
        rounding="floor" if upsample else node.text("nearest_mode", "round_prefer_floor"),
        scales=_scales(graph, node, before, after),
        before=before,
        after=after,
        antialias=bool(node.integer("antialias", 0)),
        keeps_aspect=node.text("keep_aspect_ratio_policy", "stretch") != "stretch",
        cubic=node.number("cubic_coeff_a", -0.75),
        inside_alone=bool(node.integer("exclude_outside", 0)),
    )


def _scales(graph: ReadableGraph, node: Node, before: Shape, after: Shape) -> tuple[float, ...]:
    given = optional_constant(graph, node, 1 if node.op_type == "Upsample" else 2, "scales are")
    if given is None or given.size == 0:
        return tuple(new / old for new, old in zip(after, before, strict=True))
    rank = len(before)
    scales = [1.0] * rank
    for axis, scale in zip(node.ints("axes", tuple(range(rank))), given.reshape(-1).tolist(), strict=True):
        scales[axis_from_front(axis, rank)] = float(scale)
    return tuple(scales)
