"""What the tpu target lowers a network to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nnkit.target import Lowered

if TYPE_CHECKING:
    from nnkit_tpu.program import TpuGraph


@dataclass(frozen=True, eq=False)
class TpuLowered(Lowered):
    """The network as the compiler's operators, in float."""

    graph: TpuGraph
