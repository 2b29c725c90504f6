"""What every operator of the domain `ai.nnkit` has in common: attributes from a node, output shapes, execution."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self, TypeAlias, get_type_hints

import numpy as np
from numpy.typing import NDArray

from nnkit.errors import ModelError

if TYPE_CHECKING:
    import onnx

DOMAIN = "ai.nnkit"
VERSION = 1

Shape: TypeAlias = tuple[int, ...]
FloatArray: TypeAlias = NDArray[np.float32]

_REMEDY = "correct the layer's parameters in the model"


@dataclass(frozen=True)
class CustomOp(ABC):
    """One operator with its attributes, checked; the fields of a subclass are the attributes of the node.

    op_type: the node's op type. inputs: names of its inputs for messages; the last `optional_inputs` may be missing.
    outputs: names of its outputs; None where the number of outputs depends on the attributes.
    """

    op_type: ClassVar[str]
    inputs: ClassVar[tuple[str, ...]]
    optional_inputs: ClassVar[int] = 0
    outputs: ClassVar[tuple[str, ...] | None] = ("y",)

    @classmethod
    def from_attributes(cls, attributes: Mapping[str, Any], *, inputs: int, outputs: int, layer: str) -> Self:
        """The operator of a node with these attributes, as Python values.

        Args:
            inputs, outputs: how many the node has.
            layer: the node's name, for messages.

        Raises:
            ModelError: an attribute is missing, unknown, of the wrong type or has an impossible value; the node has
                the wrong number of inputs or outputs.
        """
        try:
            cls._check_arity(attributes, inputs, outputs)
            return cls(**_checked(cls, attributes))
        except ModelError as error:
            raise ModelError(error.reason, where=layer or cls.op_type, remedy=error.remedy) from error

    @classmethod
    def attribute_kinds(cls) -> dict[str, str]:
        """Attribute name -> `int`, `bool`, `float`, `str`, `ints` or `floats`."""
        hints = get_type_hints(cls)
        return {field.name: _KINDS[hints[field.name]] for field in dataclasses.fields(cls)}

    @classmethod
    def required_attributes(cls) -> frozenset[str]:
        """The attributes without a default."""
        return frozenset(f.name for f in dataclasses.fields(cls) if f.default is dataclasses.MISSING)

    def attributes(self) -> dict[str, Any]:
        """All attributes as ONNX stores them: booleans as 0 and 1, tuples as lists."""
        values: dict[str, Any] = {}
        for name, kind in self.attribute_kinds().items():
            value = getattr(self, name)
            values[name] = int(value) if kind == "bool" else list(value) if isinstance(value, tuple) else value
        return values

    def node(self, inputs: Sequence[str], outputs: Sequence[str], name: str = "") -> onnx.NodeProto:
        """A node of this operator. Empty lists are left out: ONNX cannot type them."""
        from onnx import helper

        attributes = {key: value for key, value in self.attributes().items() if value != []}
        return helper.make_node(self.op_type, list(inputs), list(outputs), name=name, domain=DOMAIN, **attributes)

    @abstractmethod
    def output_shapes(self, input_shapes: Sequence[Shape]) -> tuple[Shape, ...]:
        """Shapes of the outputs. Raises ModelError where the inputs do not go together."""

    @abstractmethod
    def run(self, *arrays: FloatArray) -> tuple[FloatArray, ...]:
        """The outputs, float32, C-contiguous, of the shapes that `output_shapes` gives.

        Raises:
            ModelError: the shapes do not go together, or the operator cannot be run.
        """

    @classmethod
    def _check_arity(cls, attributes: Mapping[str, Any], inputs: int, outputs: int) -> None:
        least = len(cls.inputs) - cls.optional_inputs
        if not least <= inputs <= len(cls.inputs):
            cls.refuse(f"has {inputs} inputs, not {' + '.join(cls.inputs)}")
        if cls.outputs is not None and outputs != len(cls.outputs):
            cls.refuse(f"has {outputs} outputs, not {len(cls.outputs)}")

    @classmethod
    def refuse(cls, reason: str, remedy: str = _REMEDY) -> NoReturn:
        """Raise ModelError: `<op type> <reason>`."""
        raise ModelError(f"{cls.op_type} {reason}", where=cls.op_type, remedy=remedy)

    @classmethod
    def require(cls, condition: bool, reason: str) -> None:
        """Raise ModelError unless `condition` holds."""
        if not condition:
            cls.refuse(reason)


def four_dimensional(op: type[CustomOp], shape: Shape, what: str = "its input") -> tuple[int, int, int]:
    """(C, H, W) of a shape [1, C, H, W]; ModelError otherwise."""
    op.require(len(shape) == 4 and shape[0] == 1, f"needs {what} as [1, C, H, W], not {list(shape)}")
    return shape[1], shape[2], shape[3]


_KINDS: dict[Any, str] = {
    int: "int",
    bool: "bool",
    float: "float",
    str: "str",
    tuple[int, ...]: "ints",
    tuple[float, ...]: "floats",
}
_STORED = {"int": int, "bool": int, "float": float, "str": str, "ints": int, "floats": float}


def attribute_values(node: onnx.NodeProto) -> dict[str, Any]:
    """The attributes of a node as Python values: texts as str, lists as list."""
    from onnx import helper

    values = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    return {
        name: value.decode("utf-8", errors="replace") if isinstance(value, bytes) else value
        for name, value in values.items()
    }


def _checked(cls: type[CustomOp], attributes: Mapping[str, Any]) -> dict[str, Any]:
    kinds = cls.attribute_kinds()
    values: dict[str, Any] = {}
    for name, value in attributes.items():
        kind = kinds.get(name)
        if kind is None:
            cls.refuse(f"has no attribute '{name}'", f"its attributes are: {', '.join(kinds)}")
        is_list = isinstance(value, Sequence) and not isinstance(value, str)
        entries = value if is_list else [value]
        if is_list != kind.endswith("s") or not all(isinstance(entry, _STORED[kind]) for entry in entries):
            cls.refuse(f"needs its attribute '{name}' as {kind}")
        values[name] = _value(value, kind)
    missing = sorted(cls.required_attributes() - values.keys())
    if missing:
        cls.refuse(f"lacks its attribute '{missing[0]}'")
    return values


def _value(value: Any, kind: str) -> Any:
    if kind == "bool":
        return bool(value)
    if kind == "float":
        return shortest(value)
    if kind == "ints":
        return tuple(value)
    if kind == "floats":
        return tuple(shortest(entry) for entry in value)
    return value


def shortest(value: float) -> float:
    """The number with the fewest decimals that is `value` in float32: 0.1 instead of 0.10000000149."""
    return float(str(np.float32(value)))
