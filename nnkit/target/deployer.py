"""What a target offers that can run several networks in one memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

if TYPE_CHECKING:
    from nnkit.deployed import Deployed, FaceMatchStages, NetworkPart
    from nnkit.memory.joint_plan import JointPlan
    from nnkit.memory.plan import MemoryPlan


@dataclass(frozen=True)
class PipelineRun:
    """What a run of the generated pipeline left: its results and trace as bytes, and the store's slots.

    measured: numbers by name. stages: runs and instructions (or cycles) of each stage, by its name.
    """

    results: bytes
    trace: bytes
    store: bytes
    measured: Mapping[str, int] = field(default_factory=dict)
    stages: Mapping[str, tuple[int, int]] = field(default_factory=dict)


class PipelineRunner(Protocol):
    """Compiles the artifact of a deployment and runs commands on it. counts: what `stages` are counted in."""

    @property
    def name(self) -> str:
        """As reports name it."""

    @property
    def emulated(self) -> bool:
        """Whether it is slow: it then gets a short session."""

    @property
    def counts(self) -> str:
        """`instructions`, `cycles`, or empty."""

    def missing(self) -> str | None:
        """None when everything that it needs is there, otherwise what to install."""

    def run(self, artifact: Path, deployed: Deployed, commands: bytes) -> PipelineRun:
        """Run commands, as `nnkit.deployed.session` writes them. Raises ToolError."""


class Deployer(ABC):
    """Plans and writes several networks of one target together.

    shared: options that are the deployment's; those of the networks' own recipes do not count.
    """

    shared: ClassVar[tuple[str, ...]] = ()

    def refusal(self, options: Any) -> str | None:
        """Why a network with these options cannot be deployed with others; None: it can."""
        return None

    @abstractmethod
    def network_options(self, options: Any, stages: FaceMatchStages | None) -> Any:
        """The options of one network with the memory that is left to it beside what lives between the stages."""

    @abstractmethod
    def join(
        self,
        parts: Sequence[NetworkPart],
        plans: Mapping[str, MemoryPlan],
        stages: FaceMatchStages | None,
        options: Any,
    ) -> JointPlan:
        """One plan over all, checked. Raises DoesNotFitError."""

    @abstractmethod
    def check_room(self, deployed: Deployed, options: Any, planned: Callable[[Any], Deployed]) -> None:
        """Raise DoesNotFitError where what the plan of all does not place (code, say) does not fit beside it.

        planned: the same networks under other options that they share. Raises DoesNotFitError.
        """

    @abstractmethod
    def emit(self, deployed: Deployed, options: Any, folder: Path) -> None:
        """Write the artifact's files into an empty folder."""

    @abstractmethod
    def runners(self, options: Any) -> tuple[PipelineRunner, ...]:
        """What can run the artifact, in the order of verification."""
