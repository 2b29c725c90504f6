"""The networks of a deployment, and the whole as a target writes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nnkit.deployed.face_match import FaceMatchStages
from nnkit.memory.joint_plan import JointPlan, Stage, Survivor
from nnkit.program import Program

if TYPE_CHECKING:
    from nnkit.memory.plan import MemoryPlan
    from nnkit.preprocess import Preprocess


@dataclass(frozen=True, eq=False)
class NetworkPart:
    """One network. name: in C. options: of its target, as its own recipe and the deployment say.

    preprocess: of its inputs that are made of pictures.
    """

    name: str
    program: Program
    options: Any
    preprocess: Mapping[str, Preprocess]


@dataclass(frozen=True, eq=False)
class Deployed:
    """Several networks in one memory plan. stages: what lies between them; None: nothing."""

    name: str
    parts: Sequence[NetworkPart]
    stages: FaceMatchStages | None
    joint: JointPlan

    def part(self, name: str) -> NetworkPart:
        """A network by name."""
        return {part.name: part for part in self.parts}[name]

    def plan_of(self, name: str) -> MemoryPlan:
        """A network's own plan, with its weights where they lie among all."""
        return self.joint.networks[name]


def order_of(parts: Sequence[NetworkPart], stages: FaceMatchStages | None) -> tuple[str | Stage, ...]:
    """Networks and stages as they run."""
    return tuple(part.name for part in parts) if stages is None else stages.order()


def survivors_of(stages: FaceMatchStages | None, *, context_bytes: int, stack_bytes: int) -> tuple[Survivor, ...]:
    """The buffers that no network owns."""
    own = () if stages is None else stages.survivors()
    resident = (Survivor("context", "context", context_bytes), Survivor("stack", "stack", stack_bytes))
    return (*own, *resident)


def sizes(parts: Sequence[NetworkPart]) -> Mapping[str, tuple[int, int]]:
    """Bytes of all inputs and of all outputs of each network."""
    return {
        part.name: (
            sum(part.program.tensors[name].size_bytes for name in part.program.inputs),
            sum(part.program.tensors[name].size_bytes for name in part.program.outputs),
        )
        for part in parts
    }
