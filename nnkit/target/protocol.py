"""What a target is: the base class that a plugin derives from, with a default for everything that is optional."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar

from nnkit.lowered import Lowered

if TYPE_CHECKING:
    from nnkit.boards.serial_line import SerialPort
    from nnkit.calibrate.stats import CalibrationStats
    from nnkit.external_tool import Tool
    from nnkit.graph import Model
    from nnkit.input_range import InputRange
    from nnkit.memory.plan import MemoryPlan, Region
    from nnkit.mixed_precision.diagnosis import Diagnosis
    from nnkit.preprocess import Preprocess
    from nnkit.program import Program
    from nnkit.quantize.tables import TableFormat
    from nnkit.quantize.used_ranges import UsedRanges
    from nnkit.recipe import Calibration, Recipe, TargetOptionsBase
    from nnkit.rewrite import RewriteLog
    from nnkit.runner import Runner
    from nnkit.samples import Sample
    from nnkit.target.comparisons import CompiledComparison, DumpComparison
    from nnkit.target.deployer import Deployer
    from nnkit.target.shown import Shown
    from nnkit.verify.tasks import TaskJudge

API_VERSION = 3

OptionsT = TypeVar("OptionsT", bound="TargetOptionsBase")
LoweredT = TypeVar("LoweredT", bound=Lowered)


@dataclass(frozen=True)
class Machine:
    """The hardware: its memory regions (names in lower case) and what the docs say of it.

    clock_hz: at which counted instructions become an estimate of time, one a cycle; None: no such estimate.
    unit: what runs the layers that are not tagged `_cpu`: "NPU", or "CPU" where there is no such unit.
    """

    name: str
    regions: tuple[Region, ...]
    description: str = ""
    clock_hz: int | None = None
    unit: str = "NPU"

    def region(self, name: str) -> Region:
        """A region by name. Raises KeyError."""
        return {r.name: r for r in self.regions}[name]

    def as_json(self) -> dict[str, str]:
        """What a report says of it."""
        return {"name": self.name, "layers_run_on": self.unit}


@dataclass(frozen=True)
class InstalledTool:
    """A tool that `nnkit doctor --install` has installed, or found installed (`downloaded_bytes` is then 0)."""

    name: str
    version: str
    folder: Path
    bytes: int
    downloaded_bytes: int


@dataclass(frozen=True, eq=False)
class Quantization:
    """What a target's quantiser gets beside the lowered network.

    name: of the program. calibration: the recipe's section as it holds for this target. input_ranges: exact ranges
    of inputs that are made from images. samples: the first so many calibration inputs, preprocessed, for what must
    run the network; empty where the recipe has a table instead of images. images: how the inputs that are made from
    images are preprocessed. searched: whether `hp: auto` chose the layers in 16 bits, by programs of `diagnosis`.
    task_judge: measures the recipe's task on the images of `calibration.judged_on`, to judge corrections by; None
    where the recipe names none. say: tells the user what a long quantisation is about just now.
    """

    name: str
    statistics: CalibrationStats
    calibration: Calibration
    input_ranges: Mapping[str, InputRange]
    samples: Callable[[int], Sequence[Sample]]
    images: Mapping[str, Preprocess] = field(default_factory=dict)
    searched: bool = False
    task_judge: TaskJudge | None = None
    say: Callable[[str], None] = lambda text: None


@dataclass(frozen=True, eq=False)
class Corrected(Generic[LoweredT]):
    """The network with other weights and biases than it was restructured to, and the statistics that hold for it."""

    lowered: LoweredT
    statistics: CalibrationStats


@dataclass(frozen=True, eq=False)
class PrecisionSearch:
    """How `hp: auto` measures the network with any set of layers in 16 bits.

    depends_on: settings that the measurements depend on: as long as they are the same, a search is not repeated.
    diagnosis: makes what measures; called where the search runs. Raises RecipeError where the options leave nothing
    to choose.
    """

    depends_on: Mapping[str, Any]
    diagnosis: Callable[[], Diagnosis]


@dataclass(frozen=True, eq=False)
class Deployment(Generic[LoweredT]):
    """What is known of a build when its artifact is written.

    samples: as in `Quantization`. say: tells the user what a long emission is about just now.
    """

    recipe: Recipe
    lowered: LoweredT
    statistics: CalibrationStats
    program: Program
    plan: MemoryPlan
    samples: Callable[[int], Sequence[Sample]]
    say: Callable[[str], None] = lambda text: None


class Target(ABC, Generic[OptionsT, LoweredT]):
    """A plugin for one kind of hardware, made without arguments; `docs/writing_a_target.md` is the guide.

    api_version: the `API_VERSION` that the plugin was written for.
    name: its key in a recipe's `targets`. summary: one line for lists.
    options: the model of its options in a recipe.
    default_rules: rewrites of a recipe that names none.
    writes_postprocess: whether `emit` writes the C of the recipe's `postprocess`.
    corrections: names that a recipe's `calibration.corrections` may hold. judges_by_task: whether they can be judged
        on the images of `calibration.judged_on`.
    documentation: where its users read more, for remedies; a page in `docs/` or an address.
    """

    api_version: ClassVar[int]
    name: ClassVar[str]
    summary: ClassVar[str]
    options: type[OptionsT]
    default_rules: ClassVar[tuple[str, ...]] = ()
    corrections: ClassVar[tuple[str, ...]] = ()
    judges_by_task: ClassVar[bool] = False
    documentation: ClassVar[str] = ""
    writes_postprocess: ClassVar[bool] = False

    def chips(self) -> Mapping[str, Mapping[str, Any]]:
        """The chips that a command line can name, in lower case, and the options that each stands for."""
        return {}

    @abstractmethod
    def machine(self, options: OptionsT) -> Machine:
        """The hardware as the options describe it."""

    @abstractmethod
    def lower(self, model: Model, log: RewriteLog, options: OptionsT) -> LoweredT:
        """Read the restructured network and divide it between the hardware and the CPU. Called once in a build.

        log: of the restructuring, for the reasons in messages.
        Raises ModelError naming every layer that neither side can run: calibration has not begun, so that a network
        that cannot be deployed is told so in seconds.
        """

    def calibration_method(self, options: OptionsT) -> Literal["auto", "max", "percentile", "mse", "kl"]:
        """The method of a recipe that names none."""
        return "max"

    def needs_ranges(self, options: OptionsT) -> bool:
        """Whether the numbers of a build rest on the ranges that calibration saw.

        Where not, a recipe without images is built too, and verified on inputs that are drawn.
        """
        return True

    def usual_calibration(self, options: OptionsT) -> Literal["max", "percentile", "mse", "kl"] | None:
        """The method that `auto` keeps unless another is clearly better; None: it takes the best."""
        return None

    def float_correction(
        self, lowered: LoweredT, options: OptionsT, calibration: Calibration
    ) -> Callable[[Quantization], Corrected[LoweredT]] | None:
        """What makes the recipe's corrections, where the artifact is written of float weights and has to have them.

        None where none is wanted, or `quantize` makes them. It raises RecipeError.
        """
        return None

    @abstractmethod
    def quantize(self, lowered: LoweredT, quantization: Quantization, options: OptionsT) -> Program:
        """Formats and weights as the hardware has them. Raises ModelError, RecipeError."""

    @abstractmethod
    def plan(self, lowered: LoweredT, program: Program, options: OptionsT) -> MemoryPlan:
        """Place every buffer that nnkit places; `nothing_placed` where that is none. Raises DoesNotFitError."""

    @abstractmethod
    def emit(self, deployment: Deployment[LoweredT], options: OptionsT, folder: Path) -> None:
        """Write the artifact's files into an empty folder."""

    def legalisation(self, options: OptionsT) -> tuple[str, ...]:
        """Rewrite rules that run after the recipe's, because the hardware needs them."""
        return ()

    def options_for_quantised(self) -> Mapping[str, str]:
        """What a recipe sets so that a network which is quantised already keeps its integers; empty: nothing."""
        return {}

    def keeps_integers(self, options: OptionsT) -> bool:
        """Whether a network that is quantised already may keep its integers, with these and `options_for_quantised`.

        Where not, the numbers that they stand for have to be quantised anew (`model.dequantize`).
        """
        return True

    def has_one_input_scale(self) -> bool:
        """Whether the hardware scales all channels of a picture by one factor, and refuses others."""
        return False

    def wider_options(self, options: OptionsT) -> Mapping[str, OptionsT]:
        """Options that may take a network which `options` refuse, by what a recipe writes for them, mildest first.

        A refusal tries them, and proposes the first that does.
        """
        return {}

    def check_recipe(self, recipe: Recipe, lowered: LoweredT, options: OptionsT) -> None:
        """Raise RecipeError where the recipe asks for what `emit` cannot write for this network.

        Called behind `lower`, so that what a dry run accepts is written.
        """

    def beyond_the_chip(self, options: OptionsT) -> tuple[str, ...]:
        """Memories that the options make larger than the chip's, a sentence each.

        They may be meant so (a board with another chip of the family), so they are reported and not refused.
        """
        return ()

    def check(self, program: Program, options: OptionsT) -> None:
        """Raise ModelError listing every op outside the hardware's limits."""

    def check_room(
        self, program: Program, plan: MemoryPlan, options: OptionsT, quantized: Callable[[OptionsT], Program]
    ) -> None:
        """Raise DoesNotFitError where what the plan does not place (code, say) does not fit beside it.

        Not called of a network that shares the memory with others: see `Deployer.check_room`.

        Args:
            quantized: the network as `quantize` makes it under other options, for a remedy that was tried.
        """

    def ranges_used(
        self, lowered: LoweredT, quantization: Quantization, program: Program, options: OptionsT
    ) -> UsedRanges:
        """What the build's calibration table holds: the ranges as the quantiser took them, if not as calibrated.

        program: what `quantize` made of the same.
        """
        from nnkit.quantize.used_ranges import UsedRanges

        return UsedRanges(quantization.statistics, frozenset(quantization.statistics.ranges))

    def diagnosis(
        self, reference: Model, lowered: LoweredT, quantization: Quantization, options: OptionsT
    ) -> PrecisionSearch | None:
        """How `hp: auto` searches; None where the hardware has one precision.

        reference: the float network that a build is compared with. quantization: as `quantize` will get it.
        Raises RecipeError where the options leave nothing to choose.
        """
        return None

    def gains_from_sixteen_bits(self, options: OptionsT) -> bool:
        """Whether to advise `hp: auto` where a build with these options fails its gates."""
        return False

    def corrections_with(self, options: OptionsT) -> tuple[str, ...]:
        """Those of `corrections` that there are with these options; all of them by default."""
        return self.corrections

    def own_corrections(self, options: OptionsT) -> tuple[str, ...]:
        """Those of `corrections` that a recipe gets, where they help, which says nothing of them."""
        return ()

    def program_classes(self) -> tuple[type, ...]:
        """Dataclasses that its programs consist of beside those of `nnkit.program`, to read a build folder back."""
        return ()

    def estimates(self, lowered: LoweredT, program: Program, options: OptionsT) -> Mapping[str, Any]:
        """Size and time before anything is compiled, as JSON data for the dry run.

        `line` is for people; `layers`, numbers by layer, stand beside these under the heading `layers_are`.
        """
        return {}

    def details(self, deployment: Deployment[LoweredT], options: OptionsT, folder: Path) -> Mapping[str, Any]:
        """What the report says of this target alone (its `details`), as JSON data. folder: the artifact."""
        return {}

    def shown(self, details: Mapping[str, Any]) -> Shown:
        """What the build's page shows of this target alone.

        details: as `details` gave them, and `measured`: by the name of a runner, what it measured beside outputs.
        """
        from nnkit.target.shown import Shown

        return Shown()

    def runners(self, options: OptionsT) -> tuple[Runner, ...]:
        """What can execute the artifact, in the order of verification; all are choices of `simulate --on`."""
        return ()

    def boards(self, options: OptionsT) -> tuple[Runner, ...]:
        """Emulated boards beside the runners, which count instructions: choices of `nnkit bench --on` alone."""
        return ()

    def device(self, options: OptionsT, port: SerialPort) -> Runner | None:
        """The runner of a device at a serial port, which has the artifact's validation firmware; None: there is none.

        It is what `nnkit validate` runs.
        """
        return None

    def deployer(self) -> Deployer | None:
        """What puts several networks into one memory; None where the target runs one at a time alone."""
        return None

    def limits(self) -> tuple[str, ...]:
        """The constraints in words, for `nnkit targets show` and the docs."""
        return ()

    def tools(self) -> tuple[Tool, ...]:
        """External programs, for `nnkit doctor`."""
        return ()

    def installer(self) -> Callable[[], InstalledTool] | None:
        """What `nnkit doctor --install` calls; None where nothing can be installed. It raises ToolError."""
        return None

    def calibration_table(self) -> TableFormat | None:
        """The calibration table of the vendor's tool, which `nnkit table convert` then reads and writes."""
        return None

    def dump_comparison(self) -> Callable[[Path, Program, Path], DumpComparison] | None:
        """What compares a build with dumps of the vendor's tool; None where there are none.

        Called with the build's folder, its program and the folder of dumps. It raises UserFileError, ToolError.
        """
        return None

    def compiled_comparison(self) -> Callable[[Path, Program, Path], CompiledComparison] | None:
        """What compares a build with a network that the vendor's compiler made; None where its format is not known.

        Called with the build's folder, its program and the compiled file. It raises UserFileError, among others for
        another network's file, and ToolError for a damaged one.
        """
        return None
