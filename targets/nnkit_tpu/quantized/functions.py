"""Activations, tables and softmax of a quantised network."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from nnkit.graph.refusal import Refused
from nnkit.program.affine import AffineActivation, AffineLogSoftmax, AffineLookup, AffineSoftmax
from nnkit_tpu.lowering.elementwise import PLAIN
from nnkit_tpu.program import ActivationFunction, TpuActivation, TpuSoftmax
from nnkit_tpu.quantized.building import IMAGE_RANK, UNBOUNDED, Building, bounds_of, clip, limited

_PARAMETRIC: Mapping[str, ActivationFunction] = MappingProxyType({"Elu": "elu", "HardSigmoid": "hard_sigmoid"})
_SETTLED = ("sigmoid",)
"""Functions whose format the compiler settles, whatever the calibration table says."""


def activation(built: Building, op: AffineActivation) -> None:
    """Another format in integers; bounds and slopes in float32."""
    result, stage = built.formats[op.output], op.requantize
    bounds = bounds_of(stage, result)
    if stage.negative_multiplier is not None:
        slopes = (stage.negative_multiplier / stage.multiplier).astype(np.float32).reshape(-1)
        function: ActivationFunction = "leaky_relu" if slopes.size == 1 else "prelu"
        limited(built, op, partial(TpuActivation, function=function, slopes=slopes), bounds)
    elif bounds == UNBOUNDED and len(built.shapes[op.inputs[0]]) == IMAGE_RANK:
        built.stored_as(op.inputs[0], op.output, op.name)
    else:
        clip(built, op.name, op.inputs[0], op.output, bounds)


def lookup(built: Building, op: AffineLookup) -> None:
    """A table, which the compiler makes."""
    function = "gelu" if op.function == "Gelu" else _PARAMETRIC.get(op.function, PLAIN.get(op.function))
    if function is None or function == "abs":  # the compiler settles the format of Abs, and that of what it reads
        raise Refused(f"{op.function} has no counterpart in this mode")
    parameters: dict[str, Any] = dict(zip(("alpha", "beta"), op.parameters, strict=False))
    if function == "gelu":
        function, parameters = ("gelu_by_tanh" if op.parameters == (1.0,) else "gelu"), {}
    if function in _SETTLED:
        limited(built, op, partial(TpuActivation, function=function))
    else:
        built.ops.append(TpuActivation(**built.common(op), **parameters, mode="INT8", function=function))


def softmax(built: Building, op: AffineSoftmax) -> None:
    """In float32, with limits."""
    limited(built, op, partial(TpuSoftmax, axis=op.axis + 1))


def log_softmax(built: Building, op: AffineLogSoftmax) -> None:
    """In float32, with limits."""
    limited(built, op, partial(TpuSoftmax, axis=op.axis + 1, log=True))
