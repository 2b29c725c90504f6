"""Equality of two graphs up to float rounding, judged by ONNX Runtime on sample inputs.

Rules keep the promise that a value name stands for the same numbers before and after, so every value that both
graphs have is compared, not the outputs alone: the first one that differs names the layer.

How much may it differ? Folding moves factors from one float32 constant to another, so each new constant is rounded
once more, and sums are taken in another order. First, 1e-5 of the value's largest magnitude is always allowed: a
sum of K float32 products errs by about sqrt(K) * 2^-24, which for K = 4608 (a 3x3 kernel on 512 channels) is 4e-6.
A network may amplify rounding beyond that (a batch normalisation that subtracts a large mean). So a value that
exceeds it is judged by backward error: the original graph is run with every constant and input moved by one unit in
the last place in random directions, and a rewrite may move the value by at most 32 times what that does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nnkit.graph import Model
from nnkit.graph.drawing import drawn_float32
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.samples import NetworkInputs

if TYPE_CHECKING:
    import onnx

Values: TypeAlias = dict[str, list[NDArray[np.float32]]]

MAX_WATCHED_ELEMENTS = 64 * 1024 * 1024
"""Values are kept for comparison up to this many float32 elements in all; beyond it, the outputs alone are."""

_SUMS = ("GlobalAveragePool", "AveragePool", "ReduceMean", "ReduceSum")
_PLAIN_TERMS = 4608  # a sum of so many is within the plain bound

_BLOCK = 1 << 20  # elements that are compared at a time: in float64, with what comes of them, they take 40 MiB


@dataclass(frozen=True)
class Tolerance:
    """relative: allowed without further question, of a value's largest magnitude. amplification: see the module."""

    relative: float = 1e-5
    amplification: float = 32.0


FLOAT_ROUNDING = Tolerance()


@dataclass(frozen=True)
class Difference:
    """The largest differences over all values, and the first value beyond tolerance ('' when there is none)."""

    max_error: float
    relative_error: float
    offending_value: str = ""
    offending_error: float = 0.0
    allowed_error: float = 0.0


def sample_inputs(model: Model) -> list[dict[str, NDArray[np.float32]]]:
    """Two deterministic sample inputs: standard normal, and uniform in 0..255 as raw pixels are."""
    rng = np.random.default_rng(20240229)
    normal = {spec.name: drawn_float32(rng.standard_normal, spec.shape) for spec in model.inputs}

    def raw(count: int) -> NDArray[np.float64]:
        return rng.uniform(0.0, 255.0, count)

    pixels = {spec.name: drawn_float32(raw, spec.shape) for spec in model.inputs}
    return [normal, pixels]


def evaluate(model: Model, samples: Sequence[NetworkInputs]) -> Values:
    """Every float32 value of the graph by name in topological order, one array per sample, by ONNX Runtime.

    Raises:
        ModelError: ONNX Runtime cannot run it.
    """
    names = _watched(model.proto(), len(samples))
    session = FloatSession(model, names, feed_weights=True)
    values: Values = {name: [] for name in names}
    for sample in samples:
        for name, array in session.run(sample).items():
            values[name].append(array)
    return values


def _watched(proto: onnx.ModelProto, samples: int) -> list[str]:
    """The names of all float32 values that nodes give, in topological order; of the outputs' where they are too many.

    Values that depend on a layer whose arithmetic is not known (`Custom`) cannot be had and are left out.
    """
    import onnx

    graph = proto.graph
    unknown: set[str] = set()
    for node in graph.node:
        if node.op_type == "Custom" or unknown & set(node.input):
            unknown |= set(node.output)
    outputs = {info.name: info for info in graph.output}
    infos = {info.name: info for info in graph.value_info} | outputs
    produced = [name for node in graph.node for name in node.output if name in infos and name not in unknown]
    floats = [name for name in produced if infos[name].type.tensor_type.elem_type == onnx.TensorProto.FLOAT]
    elements = sum(np.prod([d.dim_value for d in infos[n].type.tensor_type.shape.dim]) for n in floats)
    if elements * samples > MAX_WATCHED_ELEMENTS:
        floats = [name for name in floats if name in outputs]
    return floats


def compare(
    before: Model, before_values: Values, after_values: Values, samples: Sequence[NetworkInputs], tolerance: Tolerance
) -> Difference:
    """Differences of all values that both graphs have; `before` is run again only if one exceeds the plain bound."""
    worst = relative = 0.0
    noise: Mapping[str, float] | None = None
    offence: tuple[str, float, float] = ("", 0.0, 0.0)
    for name in (name for name in before_values if name in after_values):
        error, peak = _error(before_values[name], after_values[name])
        worst, relative = max(worst, error), max(relative, error / peak if peak else error)
        if offence[0] or error <= tolerance.relative * peak:
            continue
        if noise is None:
            noise = rounding_noise(before, before_values, samples)
        allowed = max(tolerance.relative * peak, tolerance.amplification * noise[name])
        if not error <= allowed:
            offence = (name, error, allowed)
    return Difference(worst, relative, *offence)


def _error(before: list[NDArray[np.float32]], after: list[NDArray[np.float32]]) -> tuple[float, float]:
    """(largest absolute difference, largest finite magnitude before); infinite where only one side is not finite."""
    error = peak = 0.0
    for left, right in zip(before, after, strict=True):
        if left.shape != right.shape:
            return float("inf"), 1.0
        error = max(error, largest_error(left, right))
        for block in _blocks(left):
            peak = max(peak, float(np.abs(block[np.isfinite(block)]).max(initial=0.0)))
    return error, peak


def largest_error(before: NDArray[Any], after: NDArray[Any]) -> float:
    """The largest difference of two arrays of one shape; infinite where only one of them is not a number."""
    return max(map(_largest_error, _blocks(before), _blocks(after)), default=0.0)


def largest(values: NDArray[Any]) -> float:
    """The largest magnitude; what is not a number is left out."""
    return max((float(np.abs(block[~np.isnan(block)]).max(initial=0.0)) for block in _blocks(values)), default=0.0)


def _blocks(values: NDArray[Any]) -> Iterator[NDArray[Any]]:
    flat = np.ravel(values)
    return (flat[at : at + _BLOCK] for at in range(0, flat.size, _BLOCK))


def _largest_error(before: NDArray[Any], after: NDArray[Any]) -> float:
    a, b = np.asarray(before, np.float64), np.asarray(after, np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        gap = np.where(same, 0.0, np.abs(a - b))
    return float(np.where(np.isnan(gap), np.inf, gap).max(initial=0.0))


def rounding_noise(
    model: Model, values: Values, samples: Sequence[NetworkInputs], draws: int = 2
) -> dict[str, float]:
    """How far each value moves when all float constants and inputs move by one unit in the last place.

    Scales of a Resize stay: they are sizes, and a little less than 2 makes a smaller map. So do exponents: a negative
    number has a square, and no power of a little more than 2. The weights by which a Resize interpolates are no
    constants of the graph: ONNX Runtime computes them in float32 from coordinates, and a coordinate up to N is off by
    up to N * 2^-24. What it reads is moved by as much, in random directions. So is a mean or sum over more numbers
    than 1e-5 is enough for: over K it errs by about sqrt(K) * 2^-24.
    """
    import onnx

    noise = dict.fromkeys(values, 0.0)
    rng = np.random.default_rng(7)
    shapes = _shapes(model.proto().graph)

    def moved(array: NDArray[Any]) -> NDArray[np.float32]:
        direction = np.where(rng.random(array.shape) < 0.5, -np.inf, np.inf).astype(np.float32)
        return np.asarray(np.nextafter(array, direction), np.float32)

    for _ in range(draws):
        proto = model.proto()
        fixed = {name for node in proto.graph.node if node.op_type in ("Resize", "Pow") for name in node.input[1:]}
        for tensor in proto.graph.initializer:
            if tensor.data_type == onnx.TensorProto.FLOAT and tensor.name not in fixed:
                array = moved(onnx.numpy_helper.to_array(tensor))
                tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
        _move_interpolated(proto.graph, shapes, rng)
        _move_long_sums(proto.graph, shapes, rng)
        moved_samples = [{name: moved(array) for name, array in sample.items()} for sample in samples]
        moved_values = evaluate(replace(model, onnx_bytes=proto.SerializeToString()), moved_samples)
        for name in noise:
            noise[name] = max(noise[name], _error(values[name], moved_values[name])[0])
    return noise


def _move_interpolated(
    graph: onnx.GraphProto, shapes: Mapping[str, tuple[int, ...]], rng: np.random.Generator
) -> None:
    """Multiplies what interpolating Resizes read by 1 plus or minus N * 2^-24, N the largest side that changes."""
    from onnx import helper, numpy_helper

    nodes = []
    for node in graph.node:
        modes = [helper.get_attribute_value(each) for each in node.attribute if each.name == "mode"]
        if (
            node.op_type == "Resize"
            and modes in ([b"linear"], [b"cubic"])
            and {node.input[0], node.output[0]} <= shapes.keys()
        ):
            shape, result = shapes[node.input[0]], shapes[node.output[0]]
            side = max((old for old, new in zip(shape, result, strict=True) if old != new), default=1)
            factor = 1 + side * 2.0**-24 * np.where(rng.random(shape) < 0.5, -1, 1)
            name = f"{node.output[0]}_moved"
            graph.initializer.append(numpy_helper.from_array(factor.astype(np.float32), f"{name}_by"))
            nodes.append(helper.make_node("Mul", [node.input[0], f"{name}_by"], [name], name=name))
            node.input[0] = name
        nodes.append(node)
    del graph.node[:]
    graph.node.extend(nodes)


def _move_long_sums(graph: onnx.GraphProto, shapes: Mapping[str, tuple[int, ...]], rng: np.random.Generator) -> None:
    """Multiplies means and sums over K numbers, where K is large, by a little more or less than 1, such that the
    amplification makes four times sqrt(K) * 2^-24 of it."""
    from onnx import helper, numpy_helper

    nodes = []
    for node in graph.node:
        nodes.append(node)
        if node.op_type not in _SUMS or not {node.input[0], node.output[0]} <= shapes.keys():
            continue
        shape = shapes[node.output[0]]
        terms = prod(shapes[node.input[0]]) // max(1, prod(shape))
        if terms > _PLAIN_TERMS:
            off = 4 / FLOAT_ROUNDING.amplification * terms**0.5 * 2.0**-24
            factor = 1 + off * np.where(rng.random(shape) < 0.5, -1, 1)
            name = f"{node.output[0]}_summed"
            graph.initializer.append(numpy_helper.from_array(factor.astype(np.float32), f"{name}_by"))
            nodes.append(helper.make_node("Mul", [name, f"{name}_by"], [node.output[0]], name=name))
            node.output[0] = name
    del graph.node[:]
    graph.node.extend(nodes)


def _shapes(graph: onnx.GraphProto) -> dict[str, tuple[int, ...]]:
    return {
        info.name: tuple(dim.dim_value for dim in info.type.tensor_type.shape.dim)
        for info in (*graph.value_info, *graph.input, *graph.output)
    }
