"""Custom: a layer that only its author knows. Its shapes are stated; it can be placed and written, not run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, ClassVar

from nnkit.custom_ops.base import CustomOp, FloatArray, Shape

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class Custom(CustomOp):
    """Any number of inputs; one output for each stated shape.

    dims: the shapes of all outputs one after another, batch included. ranks: number of dimensions of each output.
    caffe_type: type of the layer where it came from. params: its parameters as prototxt text, kept for export.
    """

    op_type: ClassVar[str] = "Custom"
    inputs: ClassVar[tuple[str, ...]] = ()
    outputs: ClassVar[tuple[str, ...] | None] = None

    dims: tuple[int, ...]
    ranks: tuple[int, ...]
    caffe_type: str = ""
    params: str = ""

    def __post_init__(self) -> None:
        self.require(bool(self.ranks) and min(self.ranks) > 0, "needs a shape for every output")
        self.require(sum(self.ranks) == len(self.dims), "needs as many dims as its ranks add up to")
        self.require(min(self.dims) > 0, "needs dimensions above 0")

    @staticmethod
    def of(shapes: Sequence[Shape], caffe_type: str = "", params: str = "") -> Custom:
        """A Custom operator with outputs of `shapes`."""
        dims = tuple(size for shape in shapes for size in shape)
        return Custom(dims, tuple(len(shape) for shape in shapes), caffe_type, params)

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """Shape of every output."""
        ends = list(accumulate(self.ranks, initial=0))
        return tuple(self.dims[start:end] for start, end in pairwise(ends))

    @classmethod
    def _check_arity(cls, attributes: Mapping[str, Any], inputs: int, outputs: int) -> None:
        ranks = attributes.get("ranks", ())
        cls.require(outputs == len(ranks), f"has {outputs} outputs and {len(ranks)} shapes")

    def output_shapes(self, input_shapes: Sequence[Shape]) -> tuple[Shape, ...]:
        return self.shapes

    def run(self, *arrays: FloatArray) -> tuple[FloatArray, ...]:
        kind = f" '{self.caffe_type}'" if self.caffe_type else ""
        self.refuse(
            f"layer{kind} has shapes, but no definition that could be run",
            "replace the layer by ones that nnkit knows, or cut the network before it",
        )
