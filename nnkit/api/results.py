"""What `nnkit.run`, `nnkit.plan` and `nnkit.load_build` give: frozen and typed, with the whole report beside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnkit.build_status import RELEASED, Status
from nnkit.errors import UserFileError
from nnkit.runner import Contract
from nnkit.verify.gates import GateResult

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class MemoryUse:
    """One memory region. lower_bound_bytes: no plan whatever can do with less.

    limited: whether the capacity is a limit, of the chip or the recipe; else it is what the region holds.
    """

    capacity_bytes: int
    peak_bytes: int
    lower_bound_bytes: int
    proven_optimal: bool
    limited: bool = True


@dataclass(frozen=True)
class Accuracy:
    """The quantised network against the float one, over all values of all verification inputs.

    cosine: None where no output was moved by any input. sqnr_db: None there, and where both are equal. max_abs: None
    as cosine. seen_by_calibration: how many of the inputs are calibration inputs too.
    """

    cosine: float | None
    sqnr_db: float | None
    max_abs: float | None
    inputs: int
    seen_by_calibration: int


@dataclass(frozen=True)
class Metric:
    """One figure of the recipe's task. program: of the quantised network; float: of the float one."""

    name: str
    program: float | None
    float: float | None


@dataclass(frozen=True)
class ArtifactRun:
    """One runner's comparison of the artifact with the Program.

    instructions: of one call, where the runner counts. reason: why nothing was run, for `not_run`.
    """

    how: str
    contract: Contract
    values: int
    mismatches: int
    instructions: int | None
    reason: str


@dataclass(frozen=True)
class Layer:
    """A layer as built. shape: of its output, without the batch. sqnr_db: None where not measured, or exact."""

    name: str
    op: str
    placement: str
    shape: tuple[int, ...]
    output_format: str
    macs: int
    weight_bytes: int
    sqnr_db: float | None
    peak_bytes: int | None
    instructions: int | None


@dataclass(frozen=True, eq=False)
class BuildResult:
    """One build, as a run left it.

    name: the recipe's. target: the build's key, `NAME` or `NAME@VARIANT`. report: all of report.json.
    """

    name: str
    target: str
    status: Status
    folder: Path
    accuracy: Accuracy
    memory: Mapping[str, MemoryUse]
    layers: tuple[Layer, ...] = field(repr=False)
    artifacts: tuple[ArtifactRun, ...]
    gates: tuple[GateResult, ...]
    metrics: tuple[Metric, ...]
    macs: int
    weight_bytes: int
    report: Mapping[str, Any] = field(repr=False)

    @property
    def passed(self) -> bool:
        """Whether everything that was asked for holds and was proven."""
        return self.status == "ok"

    @property
    def released(self) -> bool:
        """Whether it was packed: it passed, or nothing could run it."""
        return self.status in RELEASED

    @property
    def package(self) -> Path | None:
        """The release package; None for a build that failed."""
        packages = sorted(self.folder.glob("*.nnpkg"))
        return packages[0] if packages else None

    @property
    def page(self) -> Path:
        """`report.html`, for people."""
        return self.folder / "report.html"

    def simulate(
        self,
        inputs: Mapping[str, str | Path | NDArray[Any]],
        *,
        on: str = "program",
        tensor: str | None = None,
        raw: bool = False,
        trust: bool = False,
    ) -> NDArray[Any]:
        """Run one set of inputs through the build.

        inputs: by name: an array (the network's input in real units, [1, ...]) or a file (a picture is preprocessed
            as the recipe says, an `.npy` is taken as it is).
        on: `float`, `program` (the simulator), or one of the target's runners.
        tensor: the value that is wanted; None: the only output.
        raw: integers as the hardware has them, instead of real units in float32. trust: as `--trust`.

        Raises UsageError, UserFileError, ToolError.
        """
        from nnkit.api.simulating import simulated

        return simulated(self.folder, inputs, on=on, tensor=tensor, raw=raw, trust=trust)


@dataclass(frozen=True)
class PlannedLayer:
    """A layer as it would be built. output_format: empty without calibration images."""

    name: str
    op: str
    placement: str
    shape: tuple[int, ...]
    output_format: str
    output_bits: int
    tags: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Plan:
    """What `run` would build, for one target.

    calibrated: whether formats are known, by real images or without any. weight_bytes: what the planner places.
    data: what `nnkit plan --json` prints: rewrites, segments, formats, layers, the whole memory plan, estimates.
    """

    name: str
    target: str
    calibrated: bool
    memory: Mapping[str, MemoryUse]
    layers: tuple[PlannedLayer, ...] = field(repr=False)
    weight_bytes: int
    data: Mapping[str, Any] = field(repr=False)


def result_of(folder: Path, report: Mapping[str, Any]) -> BuildResult:
    """The typed result of a report. Raises UserFileError where it lacks what this version reads."""
    try:
        return _result_of(folder, report)
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise of_another_version(folder, error) from error


def of_another_version(build: Path, error: Exception) -> UserFileError:
    """What a build is told whose report lacks what this version reads. error: how that showed."""
    return UserFileError(
        f"its report is not one of this version of nnkit ({type(error).__name__}: {error})",
        where=str(build),
        remedy="build it again with `nnkit run`",
    )


def _result_of(folder: Path, report: Mapping[str, Any]) -> BuildResult:
    verify = report["verify"]
    distance = verify["float_vs_program"]
    return BuildResult(
        report["recipe"],
        report["target"],
        report["status"],
        folder,
        Accuracy(
            distance["cosine"],
            distance["sqnr_db"],
            distance["max_abs"],
            distance["inputs"],
            distance["seen_by_calibration"],
        ),
        {name: MemoryUse(**use) for name, use in report["memory"].items()},
        tuple(_layer(row) for row in report["layers"]),
        tuple(_artifact(entry) for entry in verify["program_vs_artifact"]),
        tuple(GateResult.from_json(entry) for entry in verify["gates"]),
        tuple(Metric(m["name"], m["program"], m["float"]) for m in _metrics(verify)),
        report["macs"],
        report["planner"]["weight_bytes"],
        report,
    )


def _metrics(verify: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    metrics: Sequence[Mapping[str, Any]] = verify.get("task", {}).get("metrics", ())
    return metrics


def _layer(row: Mapping[str, Any]) -> Layer:
    return Layer(
        row["name"],
        row["op"],
        row["placement"],
        tuple(row["shape"]),
        row["formats"]["output"],
        row["macs"],
        row["weight_bytes"],
        row["sqnr_db"],
        row["peak_bytes"],
        row["instructions"],
    )


def _artifact(entry: Mapping[str, Any]) -> ArtifactRun:
    return ArtifactRun(
        entry["how"],
        entry["contract"],
        entry["values"],
        entry["mismatches"],
        entry.get("instructions"),
        entry.get("reason", ""),
    )
