"""What targets of the core's quantisers lower a network to: its float layers, with their segments."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from nnkit.graph import Model
from nnkit.lowered import Lowered, Segment
from nnkit.program.op import Placement
from nnkit.quantize.float_program import FloatConv2d, FloatOp, FloatProgram
from nnkit.quantize.lowering import lower
from nnkit.rewrite import RewriteLog


@dataclass(frozen=True, eq=False)
class LoweredLayers(Lowered):
    """The network as the float layers of the core's quantisers."""

    layers: FloatProgram

    @property
    def keeps_formats(self) -> bool:
        """Whether the file brought the format of every value along."""
        made = (*self.layers.inputs, *(layer.output for layer in self.layers.ops))
        return all(name in self.layers.formats for name in made)

    @classmethod
    def of(
        cls,
        model: Model,
        log: RewriteLog | None = None,
        documentation: str = "",
        *,
        keep_float: bool = False,
        without: Collection[str] = (),
    ) -> LoweredLayers:
        """Segments change with the placement of the layers (`_cpu` tags).

        log: of the restructuring, for the reasons in messages. documentation: of the target, for remedies.
        keep_float: whether operators that have no integers stay in float. without: operators that have none.
        Raises ModelError for layers that no side can run (all of them in one message).
        """
        layers = lower(model, log, documentation, keep_float=keep_float, without=without)
        segments: list[Segment] = []
        for layer in layers.ops:
            side: Placement = "cpu" if layer.tags.cpu else "npu"
            if segments and segments[-1].placement == side:
                segments[-1] = Segment(side, (*segments[-1].layers, layer.name))
            else:
                segments.append(Segment(side, (layer.name,)))
        return cls(model, tuple(segments), layers)

    def with_sixteen_bits(self, values: Sequence[str]) -> Self:
        """The network with the layers that make these values in 16 bits, beside those that are tagged so."""
        tagged = super().with_sixteen_bits(values)
        return replace(tagged, layers=self.layers.with_sixteen_bits(values))

    def with_convolutions(self, changed: Mapping[str, FloatConv2d], suffix: str) -> Self:
        """The network with the weights and biases of these convolutions, by layer name, as float32.

        suffix: what the names of the new initializers say; no earlier ones of the model may have it.
        """
        layers = tuple(_stored(changed.get(layer.name, layer)) for layer in self.layers.ops)
        model = _with_weights(self.model, changed, suffix)
        return replace(self, model=model, layers=replace(self.layers, ops=layers))


def _stored(op: FloatOp) -> FloatOp:
    """The op as a model holds it, whose weights are float32."""
    if not isinstance(op, FloatConv2d):
        return op
    weight, bias = (values.astype(np.float32).astype(np.float64) for values in (op.weight, op.bias))
    return replace(op, weight=weight, bias=bias)


def _with_weights(model: Model, changed: Mapping[str, FloatConv2d], suffix: str) -> Model:
    from onnx import numpy_helper

    proto = model.proto()
    for node in proto.graph.node:
        layer = changed.get(node.name or node.output[0])
        if node.op_type != "Conv" or layer is None:
            continue
        names = [f"{node.output[0]}.{suffix}_{part}" for part in ("weight", "bias")]
        for name, values in zip(names, (layer.weight, layer.bias), strict=True):
            proto.graph.initializer.append(numpy_helper.from_array(values.astype(np.float32), name))
        source = node.input[0]
        del node.input[:]
        node.input.extend([source, *names])
    used = {name for node in proto.graph.node for name in node.input}
    kept = [tensor for tensor in proto.graph.initializer if tensor.name in used]
    del proto.graph.initializer[:]
    proto.graph.initializer.extend(kept)
    return replace(model, onnx_bytes=proto.SerializeToString())
