"""Model: the graph between stages, as immutable ONNX bytes plus what ONNX cannot carry safely."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from nnkit.graph.light_onnx_ir import import_onnx_ir
from nnkit.graph.tags import LayerTags

if TYPE_CHECKING:
    import onnx
    import onnx_ir


@dataclass(frozen=True)
class InputSpec:
    """A network input: ONNX name, shape with batch 1 ([1, C, H, W] or [1, F]), float32."""

    name: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class OutputSpec:
    """A network output: ONNX name and shape with batch 1."""

    name: str
    shape: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Model:
    """A network between stages.

    onnx_bytes: the serialised ModelProto, weights inside; bytes cannot be changed, so a stage that wants to edit
        takes its own copy with `ir()` or `proto()` and builds a new Model.
    tags: the user's tags by value name.
    opset: version of the default domain as imported.
    """

    onnx_bytes: bytes = field(repr=False)
    tags: LayerTags
    inputs: tuple[InputSpec, ...]
    outputs: tuple[OutputSpec, ...]
    opset: int

    def ir(self) -> onnx_ir.Model:
        """A fresh onnx-ir model; editing it changes nothing here."""
        serde = import_onnx_ir().serde
        copy: onnx_ir.Model = serde.deserialize_model(self.proto())
        return copy

    def proto(self) -> onnx.ModelProto:
        """A fresh ModelProto; editing it changes nothing here."""
        import onnx

        return onnx.load_model_from_string(self.onnx_bytes)

    @cached_property
    def digest(self) -> str:
        """SHA-256 over the graph, the tags and the input specs."""
        state = hashlib.sha256(self.onnx_bytes)
        for value in sorted(self.tags.values):
            state.update(f"{value}:{self.tags.values[value]!r}".encode())
        state.update(repr((self.inputs, self.outputs)).encode())
        return state.hexdigest()
