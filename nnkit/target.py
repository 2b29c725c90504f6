"""What a target is: the protocol of plugins, and how installed ones are found.

A target registers under the entry-point group `nnkit.targets`; the entry is an object with the attributes of
`Target`. Built-in and third-party targets are found the same way. `docs/writing_a_target.md` is the guide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, runtime_checkable

from nnkit.errors import RecipeError, ToolError, UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nnkit.calibrate.stats import CalibrationStats
    from nnkit.graph import Model
    from nnkit.memory.plan import MemoryPlan, Region
    from nnkit.partition import Segment
    from nnkit.preprocess import Preprocess
    from nnkit.program import Program
    from nnkit.quantize import FixedPointScheme, InputRange
    from nnkit.quantize.diagnose import Diagnosis
    from nnkit.quantize.used_ranges import UsedRanges
    from nnkit.recipe import Calibration, Recipe, TargetOptionsBase
    from nnkit.rewrite import RewriteLog
    from nnkit.verify.samples import Sample

API_VERSION = 2
GROUP = "nnkit.targets"
VARIANT = "@"
"""In a recipe `gap8@small` is a second build for the target `gap8`, with options of its own."""

Contract: TypeAlias = Literal["exact", "bounded", "not_run"]


@dataclass(frozen=True)
class Machine:
    """The hardware: its memory regions (names in lower case) and what the docs say of it."""

    name: str
    regions: tuple[Region, ...]
    description: str = ""

    def region(self, name: str) -> Region:
        """A region by name. Raises KeyError."""
        return {r.name: r for r in self.regions}[name]


@dataclass(frozen=True)
class Tool:
    """An external program: where it was found, its version, or how to get it."""

    name: str
    purpose: str
    found: str | None
    version: str
    install: str


@dataclass(frozen=True, eq=False)
class RunResult:
    """What an artifact computed for one set of inputs.

    outputs: program outputs by name, stored values in the tensor's shape.
    tensors: every traced tensor, where tracing was asked for.
    instructions: whole call, where the runner counts exactly; per layer by op name.
    measured: further exact measurements, e.g. {"l2_painted_bytes": ..., "code_bytes": ...}.
    left_out: program outputs that this runner does not compute; they are not compared.
    """

    outputs: Mapping[str, NDArray[Any]]
    tensors: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    instructions: int | None = None
    instructions_by_layer: Mapping[str, int] = field(default_factory=dict)
    measured: Mapping[str, int] = field(default_factory=dict)
    left_out: frozenset[str] = frozenset()


class Runner(Protocol):
    """Compiles and runs an artifact somewhere: this host, an emulator, a vendor's chip model.

    emulated: slow enough that a run compares few inputs on it, and `--no-qemu` leaves it out.
    """

    @property
    def name(self) -> str:
        """What `--on` and reports call it."""

    @property
    def contract(self) -> Contract:
        """How its results are compared."""

    @property
    def emulated(self) -> bool:
        """Whether `--no-qemu` leaves it out."""

    def missing(self) -> str | None:
        """None when it can run here, otherwise what is missing and how to get it."""

    def bound(self, program: Program, tensor: str) -> float:
        """The largest difference of a stored value that counts as equal; asked where the contract is `bounded`."""

    def run(
        self, artifact: Path, program: Program, inputs: Sequence[Mapping[str, NDArray[Any]]], *, trace: bool
    ) -> list[RunResult]:
        """Run the artifact once per set of inputs. Raises ToolError when a tool fails."""


@runtime_checkable
class LayerRunner(Runner, Protocol):
    """A bounded runner whose layers are each compared on the runner's own inputs of that layer.

    One unit of one layer may become many units behind the next ones, so a bound holds for a layer, not for a network.
    """

    @property
    def layer_by_layer(self) -> Literal[True]:
        """Marks the class; a traced run has to give every tensor."""


@dataclass(frozen=True, eq=False)
class Quantization:
    """What a target's quantiser gets beside the restructured model.

    name: of the program. calibration: the recipe's section as it holds for this target. input_ranges: exact ranges
    of inputs that are made from images. samples: the first so many calibration inputs, preprocessed, for what must
    run the network; empty where the recipe has a table instead of images. images: how the inputs that are made from
    images are preprocessed. say: tells the user what a long quantisation is about just now.
    """

    name: str
    statistics: CalibrationStats
    calibration: Calibration
    input_ranges: Mapping[str, InputRange]
    samples: Callable[[int], Sequence[Sample]]
    images: Mapping[str, Preprocess] = field(default_factory=dict)
    say: Callable[[str], None] = lambda text: None


@dataclass(frozen=True, eq=False)
class Deployment:
    """What is known of a build when its artifact is written.

    imported: the network as imported, or as the recipe's edits made it. model: as restructured. samples: as in
        `Quantization`. say: tells the user what a long emission is about just now.
    """

    recipe: Recipe
    imported: Model
    model: Model
    statistics: CalibrationStats
    segments: tuple[Segment, ...]
    program: Program
    plan: MemoryPlan
    samples: Callable[[int], Sequence[Sample]]
    say: Callable[[str], None] = lambda text: None


class Target(Protocol):
    """A plugin. See the module's docstring for where it is registered.

    program_classes: dataclasses that its programs consist of beside those of `nnkit.program`, so that a build
    folder can be read back.
    """

    api_version: int
    name: str
    summary: str
    options: type[TargetOptionsBase]
    default_rules: tuple[str, ...]
    program_classes: tuple[type, ...]

    def machine(self, options: Any) -> Machine:
        """The hardware as the options describe it."""

    def legalisation(self, options: Any) -> tuple[str, ...]:
        """Rewrite rules that run after the recipe's, because the hardware needs them."""

    def partition(self, model: Model, log: RewriteLog, options: Any) -> tuple[Segment, ...]:
        """Split the restructured model between the hardware and the CPU, in order of execution.

        Raises ModelError naming every layer that neither side can run.
        """

    def quantize(self, model: Model, quantization: Quantization, options: Any) -> Program:
        """Formats and weights as the hardware has them. Raises ModelError, RecipeError."""

    def check(self, program: Program, options: Any) -> None:
        """Raise ModelError listing every op outside the hardware's limits."""

    def plan(self, program: Program, options: Any) -> MemoryPlan:
        """Place every buffer that nnkit places. Raises DoesNotFitError."""

    def emit(self, deployment: Deployment, options: Any, folder: Path) -> None:
        """Write the artifact's files into an empty folder."""

    def details(self, deployment: Deployment, options: Any, folder: Path) -> Mapping[str, Any]:
        """What the report says of this target alone (its `details`), as JSON data. folder: the artifact."""

    def runners(self, options: Any) -> tuple[Runner, ...]:
        """What can execute the artifact, in the order of verification; all are choices of `simulate --on`."""

    def tools(self) -> tuple[Tool, ...]:
        """External programs, for `nnkit doctor`."""

    def limits(self) -> tuple[str, ...]:
        """The constraints in words, for `nnkit targets show` and the docs."""


def installed_targets() -> dict[str, Callable[[], Target]]:
    """Loaders of the installed targets by name; nothing is imported until one is called."""
    return {entry.name: _loader(entry) for entry in sorted(entry_points(group=GROUP), key=lambda e: e.name)}


class FixedPointTarget(Target, Protocol):
    """A target of power-of-two fixed point, for which `hp: auto` can search."""

    def scheme(self, options: Any, headroom: float, input_ranges: Mapping[str, InputRange]) -> FixedPointScheme:
        """How this target quantises."""


class RangeFittingTarget(Target, Protocol):
    """A target whose quantiser fits ranges to formats, so that the ranges it takes are not those of calibration."""

    def ranges_used(self, model: Model, quantization: Quantization, program: Program, options: Any) -> UsedRanges:
        """What the build's calibration table holds. program: what `quantize` made of the same."""


class MixedPrecisionTarget(Target, Protocol):
    """A target of another arithmetic, for which `hp: auto` can search."""

    def diagnosis(self, original: Model, restructured: Model, quantization: Quantization, options: Any) -> Diagnosis:
        """What measures the network with any set of layers in 16 bits.

        original: the float reference. quantization: as `quantize` will get it. Raises RecipeError where the options
        leave nothing to choose.
        """


def plugin_name(key: str) -> str:
    """The target's name in a recipe's key: `gap8` of `gap8@small`."""
    return key.partition(VARIANT)[0]


def load_target(name: str) -> Target:
    """The target of that name. Raises UsageError (unknown) or ToolError (a plugin that does not load)."""
    loaders = installed_targets()
    if name not in loaders:
        near = get_close_matches(name.lower(), list(loaders), n=1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        raise UsageError(
            f"no target {name!r} is installed{hint}", remedy=f"installed targets: {', '.join(loaders) or 'none'}"
        )
    return loaders[name]()


def working_targets() -> tuple[dict[str, Target], dict[str, str]]:
    """The installed targets that load, by name; and of those that do not, the reason."""
    targets: dict[str, Target] = {}
    broken: dict[str, str] = {}
    for name, load in installed_targets().items():
        try:
            targets[name] = load()
        except ToolError as error:
            broken[name] = error.reason
    return targets, broken


class OptionModels(Mapping[str, "type[TargetOptionsBase]"]):
    """The options model of every installed target; a plugin is imported when its model is asked for.

    A plugin that does not load thereby breaks only what names it. A variant (`gap8@small`) has its target's model.
    """

    def __init__(self) -> None:
        self._loaders = installed_targets()

    def __getitem__(self, name: str) -> type[TargetOptionsBase]:
        return self._loaders[plugin_name(name)]().options

    def __iter__(self) -> Iterator[str]:
        return iter(self._loaders)

    def __len__(self) -> int:
        return len(self._loaders)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and plugin_name(name) in self._loaders


def option_models() -> OptionModels:
    """The options models of the installed targets, for the recipe loader and `nnkit schema`."""
    return OptionModels()


def _loader(entry: EntryPoint) -> Callable[[], Target]:
    def load() -> Target:
        try:
            target: Target = entry.load()
        except Exception as error:
            raise ToolError(
                f"the target plugin {entry.name!r} ({entry.value}) does not load: {error}",
                remedy="reinstall or remove the package that provides it",
            ) from error
        if getattr(target, "api_version", None) != API_VERSION:
            raise ToolError(
                f"the target plugin {entry.name!r} has API version {getattr(target, 'api_version', None)}, "
                f"this nnkit has {API_VERSION}",
                remedy="install versions of the plugin and of nnkit that belong together",
            )
        return target

    return load


def check_corrections(recipe: Recipe, key: str, target: Target) -> None:
    """What a recipe asks for and a target does not offer is an error, not silence. Raises RecipeError.

    key: of the build in the recipe's `targets`.
    """
    asked = recipe.calibration_for(key).corrections or ()
    offered: tuple[str, ...] = getattr(target, "corrections", ())
    lacking = [name for name in asked if name not in offered]
    if lacking:
        offer = f"it offers: {', '.join(offered)}" if offered else "it offers none"
        raise RecipeError(
            f"target {target.name!r} does not offer the correction {', '.join(lacking)}",
            where=recipe.where_override(key, "calibration", "corrections"),
            remedy=f"{offer}; remove it, or give this target a `calibration` of its own",
        )
