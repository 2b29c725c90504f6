"""Inputs for a network that comes without any: drawn by a fixed seed, each in the range that is known of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nnkit.errors import ModelError
from nnkit.graph import Model
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.samples import Sample, SamplesOnDemand

if TYPE_CHECKING:
    import onnx

    from nnkit.preprocess import Preprocess

SEED = 20240229
COUNT = 16
_LARGEST_WHOLE = 127  # of integers whose type says no more: what int8 and uint8 share


@dataclass(frozen=True)
class Draw:
    """How the numbers x of one input are drawn: standard normal, or uniform in low..high, whole where they are so.

    The input is (x - mean) * scale, by channel where there are several.
    """

    words: str
    low: float = 0.0
    high: float = 0.0
    whole: bool = False
    mean: tuple[float, ...] = (0.0,)
    scale: tuple[float, ...] = (1.0,)

    def numbers(self, rng: np.random.Generator, shape: Sequence[int]) -> NDArray[np.float32]:
        """An array of that shape."""
        if self.low == self.high:
            return rng.standard_normal(shape).astype(np.float32)
        drawn = (
            rng.integers(int(self.low), int(self.high), shape, endpoint=True).astype(np.float64)
            if self.whole
            else rng.uniform(self.low, self.high, shape)
        )
        sides = (-1, *[1] * (len(shape) - 2))
        mean, scale = (np.asarray(each, np.float64).reshape(sides) for each in (self.mean, self.scale))
        return np.asarray((drawn - mean) * scale, np.float32)


_NORMAL = Draw("standard normal")
_UNIT = Draw("uniform in 0..1", 0.0, 1.0)


class DrawnSamples(SamplesOnDemand):
    """Samples that are drawn; each depends on its index alone. draws: by input name."""

    images: Sequence[str] = ()

    def __init__(self, model: Model, draws: Mapping[str, Draw], count: int) -> None:
        self.draws = draws
        self._model, self._count = model, count

    def __len__(self) -> int:
        return self._count

    def picture(self, index: int) -> None:
        """None: there is no picture."""

    def sample(self, index: int) -> Sample:
        """Drawn by a seed of its own."""
        rng = np.random.default_rng((SEED, index))
        inputs = {spec.name: self.draws[spec.name].numbers(rng, spec.shape) for spec in self._model.inputs}
        return Sample(f"drawn input {index}", inputs)


def drawn_samples(
    model: Model, pixels: Mapping[str, Preprocess], types: Mapping[str, int], count: int = COUNT
) -> DrawnSamples:
    """Samples for a network.

    pixels: how pictures become those inputs that are made of pictures. types: element types of ONNX that the file
    declares, by input. Other inputs have the range of the quantiser or the table that reads them. Inputs of unknown
    range are standard normal, or uniform in 0..1 where the network computes no finite numbers of those.
    """
    graph = model.proto().graph
    known = {spec.name: _draw(graph, spec.name, pixels.get(spec.name), types) for spec in model.inputs}
    for others in (_NORMAL, _UNIT):
        draws = {name: draw or others for name, draw in known.items()}
        samples = DrawnSamples(model, draws, count)
        if others is _UNIT or all(known.values()) or _finite(model, samples):
            break
    return samples


def _finite(model: Model, samples: DrawnSamples) -> bool:
    """Whether the network's outputs are numbers on the first few of the samples."""
    session = FloatSession(model)
    try:
        return all(np.isfinite(each).all() for sample in samples[:4] for each in session.run(sample.inputs).values())
    except ModelError:
        return False


def _draw(graph: onnx.GraphProto, name: str, preprocess: Preprocess | None, types: Mapping[str, int]) -> Draw | None:
    """How an input is drawn; None where its range is not known."""
    if preprocess is not None:
        return Draw("pixels 0..255", 0.0, 255.0, True, preprocess.mean, preprocess.scale)
    ranges = [*_stored_ranges(graph, name)]
    if ranges:
        low, high = max(low for low, _, _ in ranges), min(high for _, high, _ in ranges)
        whole = all(rows for _, _, rows in ranges)
        words = f"rows {low:g}..{high:g} of a table" if whole else f"uniform in {low:g}..{high:g}"
        return Draw(words, low, high, whole) if low < high else Draw(words, low, low + 0.5, whole=True)
    return _of_type(types.get(name, 0))


def _stored_ranges(graph: onnx.GraphProto, name: str) -> Iterator[tuple[float, float, bool]]:
    """Least and greatest number of an input that its readers tell apart, and whether they are indices of rows."""
    from onnx import numpy_helper

    tensors = {tensor.name: tensor for tensor in graph.initializer}

    def constant(node: onnx.NodeProto, position: int) -> NDArray[np.generic] | None:
        tensor = tensors.get(node.input[position]) if position < len(node.input) else None
        return None if tensor is None else numpy_helper.to_array(tensor)

    for node in graph.node:
        if node.input[:1] != [name]:
            continue
        first, second = constant(node, 1), constant(node, 2)
        if node.op_type == "Embedding" and first is not None:
            yield 0.0, float(len(first) - 1), True
        elif node.op_type == "Clip" and first is not None and second is not None and _numbers_rows(graph, node):
            yield float(np.asarray(first)), float(np.asarray(second)), True
        elif node.op_type == "QuantizeLinear" and first is not None and first.size == 1 and second is not None:
            integers, scale = np.iinfo(str(second.dtype)), float(np.asarray(first).reshape(()))
            zero = int(np.asarray(second).reshape(()))
            yield (integers.min - zero) * scale, (integers.max - zero) * scale, False


def _numbers_rows(graph: onnx.GraphProto, clip: onnx.NodeProto) -> bool:
    """Whether what is kept within bounds becomes integers at once: indices of a table's rows."""
    readers = [node for node in graph.node if clip.output[0] in node.input]
    return bool(readers) and all(node.op_type == "Cast" for node in readers)


def _of_type(element_type: int) -> Draw | None:
    """What an input of integers or truth values holds; None for floats."""
    from onnx import TensorProto, helper

    if element_type == TensorProto.BOOL:
        return Draw("0 or 1", 0.0, 1.0, True)
    kind = helper.tensor_dtype_to_np_dtype(element_type) if element_type else np.dtype(np.float32)
    if kind.kind not in "iu":
        return None
    low, high = (0, _LARGEST_WHOLE) if kind.itemsize > 1 else (np.iinfo(str(kind)).min, np.iinfo(str(kind)).max)
    return Draw(f"whole numbers in {low}..{high}", float(low), float(high), True)
