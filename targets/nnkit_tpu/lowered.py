"""What the tpu target lowers a network to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from nnkit.target import Lowered

if TYPE_CHECKING:
    from nnkit_tpu.program import TpuGraph


@dataclass(frozen=True, eq=False)
class TpuLowered(Lowered):
    """The network as the compiler's operators, in float.

    keeps_integers: whether the network is quantised already, and `graph` has its formats.
    """

    graph: TpuGraph
    keeps_integers: bool = False

    @property
    def keeps_formats(self) -> bool:
        """Whether `graph` has the network's own."""
        return self.keeps_integers

    def with_sixteen_bits(self, values: Sequence[str]) -> Self:
        """The network with the layers that make these values in F16 (BF16 on the cv18xx)."""
        from nnkit_tpu.higher_precision import in_higher_precision

        return replace(super().with_sixteen_bits(values), graph=in_higher_precision(self.graph, set(values)))
