"""What the C of an operator consists of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from nnkit.c.fixed.layer import Call, Constant
from nnkit.c.fixed.machine import CoreMachine
from nnkit.memory.needs import KernelNeeds
from nnkit.program import OpBase, Program

_KERNEL_PARAMETERS = "const struct nnkit_task *task, nnkit_i32 part, nnkit_i32 parts"


class Function(ABC):
    """A C function that an op needs; its class says in which source file it is, its fields with which types."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Name of the C function, without the network's prefix."""


@dataclass(frozen=True)
class Declaration:
    """A function in the kernels' header. name: without the network's prefix. inner: called by kernels alone."""

    name: str
    comment: str
    parameters: str = _KERNEL_PARAMETERS
    inner: bool = False


@dataclass(frozen=True)
class Source:
    """A C file, `<network>_<name>.c`: its template in this folder, what fills it, and what the header declares."""

    name: str
    template: str
    values: Mapping[str, Any]
    declarations: tuple[Declaration, ...]


OpT = TypeVar("OpT", bound=OpBase)


class OperatorC(ABC, Generic[OpT]):
    """The C of one class of ops. Only ops with weights or scratch say more than functions and calls."""

    @abstractmethod
    def functions(self, op: OpT, program: Program) -> tuple[Function, ...]:
        """The functions that the op needs."""

    @abstractmethod
    def calls(self, op: OpT, program: Program, machine: CoreMachine, name: str) -> tuple[Call, ...]:
        """The calls that execute the op, in order. `name` begins the names of its constants."""

    def needs(self, op: OpT, program: Program, machine: CoreMachine) -> KernelNeeds:
        """Scratch and weight blocks."""
        return KernelNeeds()

    def weight_blocks(self, op: OpT) -> list[bytes]:
        """The weights as the kernel reads them: the blocks whose sizes `needs` states."""
        return []


class OneCallC(OperatorC[OpT]):
    """The C of ops that one call of one function executes, without weights and scratch."""

    @abstractmethod
    def function(self, op: OpT, program: Program) -> Function:
        """The function."""

    @abstractmethod
    def constants(self, op: OpT, program: Program, name: str) -> tuple[Constant, ...]:
        """The layer's constants; the function takes the one of this name."""

    def functions(self, op: OpT, program: Program) -> tuple[Function, ...]:
        """The function alone."""
        return (self.function(op, program),)

    def calls(self, op: OpT, program: Program, machine: CoreMachine, name: str) -> tuple[Call, ...]:
        """One call with all inputs."""
        inputs = tuple(range(len(op.inputs)))
        return (Call(self.function(op, program).name, name, inputs, self.constants(op, program, name)),)
