"""What every operator of the domain `ai.nnkit` has in common: attributes from a node, output shapes, execution."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Sequence
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
    def from_node(cls, node: onnx.NodeProto) -> Self:
        """The operator of `node`.

        Raises:
            ModelError: an attribute is missing, unknown, of the wrong type or has an impossible value; the node has
                the wrong number of inputs or outputs.
        """
        where = node.name or (node.output[0] if node.output else cls.op_type)
        try:
            cls._check_arity(node)
            return cls(**_attribute_values(cls, node))
        except ModelError as error:
            raise ModelError(error.reason, where=where, remedy=error.remedy) from error

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
    def _check_arity(cls, node: onnx.NodeProto) -> None:
        least = len(cls.inputs) - cls.optional_inputs
        if not least <= len(node.input) <= len(cls.inputs):
            cls.refuse(f"has {len(node.input)} inputs, not {' + '.join(cls.inputs)}")
        if cls.outputs is not None and len(node.output) != len(cls.outputs):
            cls.refuse(f"has {len(node.output)} outputs, not {len(cls.outputs)}")

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


def _attribute_values(cls: type[CustomOp], node: onnx.NodeProto) -> dict[str, Any]:
    from onnx import AttributeProto

    stored = {
        "int": AttributeProto.INT,
        "bool": AttributeProto.INT,
        "float": AttributeProto.FLOAT,
        "str": AttributeProto.STRING,
        "ints": AttributeProto.INTS,
        "floats": AttributeProto.FLOATS,
    }
    kinds = cls.attribute_kinds()
    values: dict[str, Any] = {}
    for attribute in node.attribute:
        kind = kinds.get(attribute.name)
        if kind is None:
            cls.refuse(f"has no attribute '{attribute.name}'", f"its attributes are: {', '.join(kinds)}")
        if attribute.type != stored[kind]:
            cls.refuse(f"needs its attribute '{attribute.name}' as {kind}")
        values[attribute.name] = _value(attribute, kind)
    missing = sorted(cls.required_attributes() - values.keys())
    if missing:
        cls.refuse(f"lacks its attribute '{missing[0]}'")
    return values


def _value(attribute: onnx.AttributeProto, kind: str) -> Any:
    if kind == "int":
        return int(attribute.i)
    if kind == "bool":
        return bool(attribute.i)
    if kind == "float":
        return shortest(attribute.f)
    if kind == "ints":
        return tuple(int(value) for value in attribute.ints)
    if kind == "floats":
        return tuple(shortest(value) for value in attribute.floats)
    return attribute.s.decode("utf-8", errors="replace")


def shortest(value: float) -> float:
    """The number with the fewest decimals that is `value` in float32: 0.1 instead of 0.10000000149."""
    return float(str(np.float32(value)))
