"""Program: what the hardware executes, with explicit formats and integer weights."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np

from nnkit.program.op import OpBase
from nnkit.program.tensor import Tensor


@dataclass(frozen=True, eq=False)
class Program:
    """Ops in execution order over named tensors: one container for every arithmetic.

    numerics: the module whose docstring defines the arithmetic, e.g. `nnkit.program.fixed`.
    notes: what the quantiser has to say (corrections undone, ...).
    """

    name: str
    tensors: Mapping[str, Tensor]
    ops: tuple[OpBase, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    numerics: str = "nnkit.program.fixed"
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "tensors", MappingProxyType(dict(self.tensors)))
        for op in self.ops:
            for value in _arrays(op):
                value.setflags(write=False)

    def __reduce__(self) -> tuple[object, ...]:
        """For processes: a read-only view cannot be sent, its content can."""
        given = {item.name: getattr(self, item.name) for item in fields(self)} | {"tensors": dict(self.tensors)}
        return type(self), tuple(given.values())

    @property
    def digest(self) -> str:
        """SHA-256 over every field, arrays included: equal digests mean the same program."""
        state = hashlib.sha256()
        _hash_into(state, self)
        return state.hexdigest()

    def producer(self, tensor: str) -> OpBase | None:
        """The op that writes `tensor`; None for a program input."""
        return next((op for op in self.ops if op.output == tensor), None)

    def consumers(self, tensor: str) -> tuple[OpBase, ...]:
        """The ops that read `tensor`, in order."""
        return tuple(op for op in self.ops if tensor in op.inputs)


ProgramT = TypeVar("ProgramT", bound=Program)


def with_names(program: ProgramT, names: Mapping[str, str]) -> ProgramT:
    """The program with values called otherwise: new names by old ones; values that are not listed keep theirs."""

    def new(name: str) -> str:
        return names.get(name, name)

    return replace(
        program,
        tensors={new(name): replace(tensor, name=new(name)) for name, tensor in program.tensors.items()},
        ops=tuple(
            replace(op, inputs=tuple(new(name) for name in op.inputs), output=new(op.output)) for op in program.ops
        ),
        inputs=tuple(new(name) for name in program.inputs),
        outputs=tuple(new(name) for name in program.outputs),
    )


def macs(op: OpBase, program: Program) -> int:
    """Multiply-accumulates of one op; 0 for ops without weights. A fused pool does not change the count."""
    return op.multiply_accumulates(program.tensors)


def _arrays(value: Any) -> Iterator[np.ndarray[Any, Any]]:
    if isinstance(value, np.ndarray):
        yield value
    elif is_dataclass(value):
        for item in fields(value):
            yield from _arrays(getattr(value, item.name))


def _hash_into(state: Any, value: Any) -> None:
    if isinstance(value, np.ndarray):
        state.update(f"{value.dtype.str}{value.shape}".encode())
        state.update(np.ascontiguousarray(value).tobytes())
    elif is_dataclass(value):
        state.update(type(value).__name__.encode())
        for item in fields(value):
            state.update(item.name.encode())
            _hash_into(state, getattr(value, item.name))
    elif isinstance(value, Mapping):
        for key in sorted(value):
            state.update(str(key).encode())
            _hash_into(state, value[key])
    elif isinstance(value, tuple | list):
        state.update(f"({len(value)}".encode())
        for entry in value:
            _hash_into(state, entry)
    else:
        state.update(repr(value).encode() + b";")
