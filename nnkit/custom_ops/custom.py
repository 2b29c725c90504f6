"""Custom: a layer that only its author knows. Its shapes are stated; it can be run where a function is given."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any, ClassVar

import numpy as np

from nnkit.custom_ops.base import CustomOp, FloatArray, Shape
from nnkit.errors import ModelError

TRUSTED = "NNKIT_TRUSTED_SOURCES"
"""The environment's list of SHA-256 of the sources, Python and C, that may run, commas between them."""


@dataclass(frozen=True)
class Custom(CustomOp):
    """Any number of inputs; one output for each stated shape.

    dims: the shapes of all outputs one after another, batch included. ranks: number of dimensions of each output.
    caffe_type: type of the layer where it came from. params: its parameters as prototxt text, kept for export.
    function: name of what computes it, in `python` and in `c`. Both are texts of source files: Python that takes the
    inputs as float32 arrays and returns the output, or a tuple of them; C90 of
    `void function(const float *in0, ..., float *out0, ...)`.
    """

    op_type: ClassVar[str] = "Custom"
    inputs: ClassVar[tuple[str, ...]] = ()
    outputs: ClassVar[tuple[str, ...] | None] = None

    dims: tuple[int, ...]
    ranks: tuple[int, ...]
    caffe_type: str = ""
    params: str = ""
    function: str = ""
    python: str = ""
    c: str = ""

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
        if self.python:
            return self._run_python(arrays)
        kind = f" '{self.caffe_type}'" if self.caffe_type else ""
        self.refuse(
            f"layer{kind} has shapes, but no definition that could be run",
            "replace the layer by ones that nnkit knows, or cut the network before it",
        )

    def _run_python(self, arrays: Sequence[FloatArray]) -> tuple[FloatArray, ...]:
        """Raises ModelError for a source that nobody trusts, where the function fails, and for other shapes."""
        if not is_trusted(self.python):
            raise ModelError(
                f"the Python of '{self.function}' is code, and nobody said that it may run",
                remedy=trust_remedy(self.python),
            )
        remedy = "correct the layer's Python file; it gets float32 arrays with the batch axis, and returns such"
        try:
            given = python_function(self.python, self.function)(*arrays)
        except Exception as error:  # whatever the user's code throws
            raise ModelError(
                f"its function '{self.function}' fails: {type(error).__name__}: {error}", remedy=remedy
            ) from error
        results = given if isinstance(given, tuple | list) else (given,)
        outputs = [np.ascontiguousarray(each, np.float32) for each in results]
        if tuple(each.shape for each in outputs) != self.shapes:
            told = ", ".join(str(list(each.shape)) for each in outputs)
            wanted = ", ".join(str(list(shape)) for shape in self.shapes)
            raise ModelError(f"its function '{self.function}' gives {told}, its shapes are {wanted}", remedy=remedy)
        return tuple(outputs)


def trust_source(source: str) -> None:
    """From now on this process, and those that it starts, run this source: its recipe is trusted."""
    if not is_trusted(source):
        known = os.environ.get(TRUSTED, "")
        os.environ[TRUSTED] = f"{known},{_digest(source)}".lstrip(",")


def is_trusted(source: str) -> bool:
    """Whether a recipe that the user trusts, or the user's environment, names the source. A file may hold any."""
    return _digest(source) in os.environ.get(TRUSTED, "").split(",")


def trust_remedy(source: str) -> str:
    """How a user trusts a source."""
    commands = "`nnkit run` or `nnkit plan`"
    return f"if you know it, add --trust to {commands}, or, for all commands, set {TRUSTED}={_digest(source)}"


def _digest(source: str) -> str:
    return hashlib.sha256(source.encode("utf-8")).hexdigest()


@lru_cache(maxsize=64)
def python_function(source: str, name: str) -> Callable[..., Any]:
    """The function `name` of a Python source. Raises whatever the source does, KeyError where it has no such name."""
    namespace: dict[str, Any] = {"__name__": f"nnkit_custom_{name}"}
    exec(compile(source, f"<{name}>", "exec"), namespace)
    function: Callable[..., Any] = namespace[name]
    return function
