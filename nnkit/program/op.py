"""What every op of a Program has, whatever its arithmetic."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeAlias

from nnkit.errors import InternalError
from nnkit.program.formats import Format
from nnkit.program.tensor import Array, Arrays, Tensors
from nnkit.program.watch import Watch

Accumulate: TypeAlias = Literal["wide", "running"]
Accumulator: TypeAlias = Literal["int32", "int64", "running16", "float32", "float64"]
Proof: TypeAlias = Literal["proven", "pinned_unproven", "not_applicable"]
Placement: TypeAlias = Literal["npu", "cpu"]
PoolKind: TypeAlias = Literal["max", "average"]


@dataclass(frozen=True, eq=False, kw_only=True)
class OpBase:
    """What all ops share. `name` is the layer's name in reports (the imported name where there is one)."""

    kind: ClassVar[str]
    name: str
    inputs: tuple[str, ...]
    output: str
    placement: Placement = "npu"
    tags: tuple[str, ...] = ()
    accumulator: Accumulator = "int32"
    proof: Proof = "not_applicable"
    proof_note: str = ""
    bits_lost: float = 0.0  # bits of weight resolution given up for the proof
    origins: tuple[str, ...] = field(default=())

    def compute(self, inputs: Arrays, tensors: Tensors, watch: Watch | None = None) -> Array:
        """Stored values in, stored values out (of the output's format), neither with a batch axis.

        Args:
            inputs: in the order of `inputs`, each in its tensor's shape.
            tensors: the program's, by name: at least those of the op.
            watch: is told what accumulators and storage do not hold, where the arithmetic knows such.

        Raises InternalError where an op has not said what it does.
        """
        raise InternalError(f"the op {self.kind!r} has no arithmetic", where=self.name)

    def read_formats(self, tensors: Tensors) -> tuple[Format, ...]:
        """In which formats it reads its inputs: their own, unless the arithmetic casts first."""
        return tuple(tensors[name].format for name in self.inputs)

    def multiply_accumulates(self, tensors: Tensors) -> int:
        """Multiply-accumulates of one inference; 0 for ops without weights."""
        return 0

    def weight_bytes(self) -> int:
        """Bytes of its weights and biases as stored, before any packing; 0 for ops without."""
        return 0

    def weight_formats(self) -> dict[str, str]:
        """Formats of what the op carries along, by what reports call it: `weight`, `bias`."""
        return {}
