"""What stages take and return."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from nnkit.build_status import Status
from nnkit.cache import StageCache
from nnkit.errors import ToolError
from nnkit.executors import THIS_HOST, ExecutorChoice
from nnkit.graph import Model
from nnkit.graph.refusal import folded_names
from nnkit.memory.plan import MemoryPlan
from nnkit.program import Program
from nnkit.recipe import Recipe, TargetOptionsBase
from nnkit.report.progress import Progress
from nnkit.rewrite import RewriteLog
from nnkit.target import AnyTarget, Deployment, Lowered

if TYPE_CHECKING:
    from nnkit.verify.artifact import ArtifactVerdict
    from nnkit.verify.float_vs_program import FloatVerdict
    from nnkit.verify.gates import GateResult
    from nnkit.verify.status import RequiredRunner
    from nnkit.verify.tasks import TaskScore

T = TypeVar("T")

_NAMED = 5  # outputs that one line names


@dataclass(frozen=True)
class Build:
    """What one run needs beside the stages' results: recipe, target, cache, progress, switches.

    executor: where calibration and evaluation run.
    trusted: whether programs that the recipe names may be run.
    key: of the build in the recipe's `targets`: the target's name, or `NAME@VARIANT`.
    alone: whether the network has the memory for itself.
    """

    recipe: Recipe
    key: str
    target: AnyTarget
    options: TargetOptionsBase
    cache: StageCache
    progress: Progress
    emulate: bool = True
    executor: ExecutorChoice = THIS_HOST
    trusted: bool = False
    alone: bool = True


def returned(build: Build, method: str, value: object, wanted: type[T]) -> T:
    """What a method of the target gave. Raises ToolError where it is of another type: no recipe can mend that."""
    if isinstance(value, wanted):
        return value
    raise ToolError(
        f"the target {build.target.name!r} gives {type(value).__name__} from {method}(), not {wanted.__name__}",
        where=build.key,
        remedy="this is a mistake of the target's plugin: report it to who provides it",
    )


@dataclass(frozen=True)
class Imported:
    """The imported model and what the importer changed or noticed.

    left_out: outputs of the file that the model has not, as they are constants.
    """

    model: Model
    notes: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def left_out_lines(self) -> tuple[str, ...]:
        """What nobody may miss of these outputs."""
        names = folded_names(self.left_out, _NAMED)
        return (f"left out of the outputs, as they are the same for every input: {names}",) if names else ()


@dataclass(frozen=True)
class Restructured:
    """The model after the recipe's and the target's rewrites, and what each did.

    reference: the float network that the model is compared with: the imported one, or what the recipe's edits made
        of it.
    """

    model: Model
    log: RewriteLog
    reference: Model


@dataclass(frozen=True, eq=False)
class Settled:
    """The lowered network with the precision of every layer settled.

    search: of `hp: auto`, what it tried and chose, as the report has it.
    """

    lowered: Lowered
    search: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Artifact:
    """The emitted files, `<build>/artifact/`, and what they were made from."""

    build_folder: Path
    folder: Path
    deployment: Deployment[Any]


@dataclass(frozen=True, eq=False)
class Verdict:
    """Float against Program, Program against artifact, gates, and the runners that the recipe requires.

    seen_by_calibration: how many of the verification inputs. task: both networks' scores by what the recipe says
    they are for. pictures: of the worst inputs, by index: the path below the build folder. drawn: how the inputs were
    drawn, by name; empty where the recipe names images.
    """

    floats: FloatVerdict
    artifacts: tuple[ArtifactVerdict, ...]
    gates: tuple[GateResult, ...]
    required: tuple[RequiredRunner, ...]
    status: Status
    seen_by_calibration: int
    task: TaskScore | None = None
    pictures: Mapping[int, str] = field(default_factory=dict)
    drawn: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Preview:
    """What a dry run finds. calibrated: whether formats are known, by real images or without any."""

    imported: Imported
    restructured: Restructured
    settled: Settled
    program: Program
    plan: MemoryPlan
    calibrated: bool
