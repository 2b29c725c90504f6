"""What runs an artifact, and what comes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from nnkit.program import OpBase, Program

Contract: TypeAlias = Literal["exact", "bounded", "not_run"]


@dataclass(frozen=True, eq=False)
class RunResult:
    """What an artifact computed for one set of inputs.

    outputs: program outputs by name, stored values in the tensor's shape.
    tensors: every traced tensor, where tracing was asked for.
    instructions: whole call, where the runner counts exactly; per layer by op name.
    measured: further exact measurements, e.g. {"l2_painted_bytes": ..., "code_bytes": ...}.
    left_out: program outputs that this runner does not compute; they are not compared.
    absorbed: inner tensors that the artifact does not hold, since a compiler made their layers part of others.
    """

    outputs: Mapping[str, NDArray[Any]]
    tensors: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    instructions: int | None = None
    instructions_by_layer: Mapping[str, int] = field(default_factory=dict)
    measured: Mapping[str, int] = field(default_factory=dict)
    left_out: frozenset[str] = frozenset()
    absorbed: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Speed:
    """One figure of time. kind: whether it was measured. how: on what it rests, with the clock where it has one."""

    what: str
    value: float
    unit: str
    kind: Literal["measurement", "estimate"]
    how: str

    def as_json(self) -> dict[str, Any]:
        """The entry of `speed` in a report."""
        return asdict(self)


@dataclass(frozen=True)
class LayerTime:
    """What a layer is estimated to take in one inference. cycles: None where the estimate does not count them."""

    milliseconds: float
    cycles: int | None = None


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
class MeasuresCode(Protocol):
    """A board whose compiler measures the size of the code, which does not have to run."""

    @property
    def name(self) -> str:
        """The board's."""

    def without_compiler(self) -> str | None:
        """None where the compiler is installed, otherwise what is missing and how to get it."""

    def code_bytes(self, artifact: Path) -> int:
        """Bytes of instructions and constants, without weights. Raises ToolError where the compiler fails."""


@runtime_checkable
class LayerRunner(Runner, Protocol):
    """A bounded runner whose layers are each compared on the runner's own inputs of that layer.

    One unit of one layer may become many units behind the next ones, so a bound holds for a layer, not for a network.
    """

    @property
    def layer_by_layer(self) -> Literal[True]:
        """Marks the class; a traced run has to give every tensor, or to say that it is absorbed."""


@runtime_checkable
class GaugedRunner(LayerRunner, Protocol):
    """A layer runner some of whose bounds follow from what a layer reads and gives."""

    def gauged(
        self, program: Program, op: OpBase, inputs: Sequence[NDArray[Any]], result: NDArray[Any]
    ) -> float | NDArray[np.float64]:
        """As `bound` of the op's output, for these inputs and what the simulation makes of them: one difference, or
        one for each value."""
