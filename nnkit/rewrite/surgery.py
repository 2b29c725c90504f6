"""Surgery: a private copy of a network whose layers, inputs and outputs can be changed; the edits' tool.

Names given by users are those of layers or of values; a layer stands for its first output.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nnkit.errors import InternalError, RecipeError
from nnkit.graph import InputSpec, LayerTags, Model, OutputSpec, ValueTags

if TYPE_CHECKING:
    import onnx


class Surgery:
    """An editable copy of a Model; `finish` builds the new one. The Model that it was made from never changes.

    where: the place in the recipe, for messages.
    """

    def __init__(self, model: Model, where: str = "") -> None:
        self._source = model
        self.where = where
        self.proto = model.proto()
        self.graph: onnx.GraphProto = self.proto.graph
        self._tags = dict(model.tags.values)
        self._names = {name for node in self.graph.node for name in (node.name, *node.output)}
        self._names |= {value.name for value in (*self.graph.input, *self.graph.initializer)}
        self._tags_may_go = False

    # Reading

    @property
    def output_names(self) -> list[str]:
        """The network's outputs, in order."""
        return [value.name for value in self.graph.output]

    @property
    def input_names(self) -> list[str]:
        """The network's inputs, in order."""
        return [value.name for value in self.graph.input]

    def layer(self, node: onnx.NodeProto) -> str:
        """The layer's name for people."""
        return str(node.name or node.output[0])

    def shape(self, value: str) -> tuple[int, ...]:
        """The static shape of a value.

        Raises:
            InternalError: it is not known (a value that this edit has added, for one).
        """
        for info in (*self.graph.value_info, *self.graph.input, *self.graph.output):
            if info.name == value:
                return tuple(int(dim.dim_value) for dim in info.type.tensor_type.shape.dim)
        raise InternalError("the shape of a value is not known", where=value)

    def constant(self, name: str) -> NDArray[Any] | None:
        """The array of an initializer; None for any other value."""
        from onnx import numpy_helper

        for tensor in self.graph.initializer:
            if tensor.name == name:
                return numpy_helper.to_array(tensor)
        return None

    def producer(self, value: str) -> onnx.NodeProto | None:
        """The layer that computes `value`."""
        return next((node for node in self.graph.node if value in node.output), None)

    def readers(self, value: str) -> list[onnx.NodeProto]:
        """The layers that read `value`."""
        return [node for node in self.graph.node if value in node.input]

    def value(self, name: str) -> str:
        """The value that a user's name stands for: a layer's first output, or a value itself.

        Raises:
            RecipeError: there is no such layer or value; the nearest name is suggested.
        """
        for node in self.graph.node:
            if node.name == name:
                return str(node.output[0])
        values = [*self.input_names, *(output for node in self.graph.node for output in node.output)]
        if name in values:
            return name
        raise self._unknown(name, [*(node.name for node in self.graph.node if node.name), *values], "layer or value")

    def one_output(self, name: str | None) -> str:
        """The output that an option names; the only one where it names none.

        Raises:
            RecipeError: there is no such output, or there are several and none is named.
        """
        outputs = self.output_names
        if name is None and len(outputs) == 1:
            return outputs[0]
        if name is None:
            raise self.refused(f"the network has {len(outputs)} outputs", f"add output: one of {', '.join(outputs)}")
        if name in outputs:
            return name
        raise self._unknown(name, outputs, "output")

    def matching(self, globs: Sequence[str]) -> list[onnx.NodeProto]:
        """The layers whose name, or whose first output's name, one of the globs matches; in graph order.

        Raises:
            RecipeError: a glob matches no layer.
        """
        found: set[str] = set()
        for pattern in globs:
            hits = [
                self.layer(node)
                for node in self.graph.node
                if fnmatch.fnmatchcase(self.layer(node), pattern) or fnmatch.fnmatchcase(node.output[0], pattern)
            ]
            if not hits:
                raise self._unknown(pattern, [self.layer(node) for node in self.graph.node], "layer that matches")
            found |= set(hits)
        return [node for node in self.graph.node if self.layer(node) in found]

    def refused(self, reason: str, remedy: str) -> RecipeError:
        """The error for options that do not suit the network, at the recipe's line."""
        return RecipeError(reason, where=self.where, remedy=remedy)

    def _unknown(self, name: str, known: Sequence[str], what: str) -> RecipeError:
        from nnkit.recipe.problems import nearest

        names = list(dict.fromkeys(known))
        near = nearest(name, names)
        shown = ", ".join(names[:12]) + (f", ... ({len(names)} in all)" if len(names) > 12 else "")
        hint = f"did you mean '{near}'? " if near else ""
        return self.refused(f"the network has no {what} '{name}'", f"{hint}it has: {shown}")

    # Changing

    def unique(self, base: str) -> str:
        """A name that no layer and no value has; it counts as taken from now on."""
        name, number = base, 1
        while name in self._names:
            name, number = f"{base}_{number}", number + 1
        self._names.add(name)
        return name

    def add_constant(self, base: str, array: NDArray[Any]) -> str:
        """A new initializer named after `base`; returns its name."""
        from onnx import numpy_helper

        name = self.unique(base)
        self.graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def append(self, op_type: str, inputs: Sequence[str], name: str, **attributes: Any) -> str:
        """A new layer behind all others; layer and value get the name. Returns the value's name."""
        from onnx import helper

        unique = self.unique(name)
        self.graph.node.append(helper.make_node(op_type, list(inputs), [unique], name=unique, **attributes))
        return unique

    def tag(self, value: str, tags: ValueTags) -> None:
        """Give the layer of `value` these tags, besides those it has."""
        self._tags[value] = self._tags.get(value, ValueTags()).merged(tags)

    def rename_tags(self, former: str, name: str) -> None:
        """The layer of the value `former` computes `name` now: its tags go along."""
        if former in self._tags:
            self.tag(name, self._tags.pop(former))

    def set_outputs(self, values: Iterable[str]) -> None:
        """These values are the network's outputs now, in this order."""
        from onnx import TensorProto, helper

        del self.graph.output[:]
        for value in values:
            self.graph.output.append(helper.make_tensor_value_info(value, TensorProto.FLOAT, None))

    def forget_removed_tags(self) -> None:
        """Tags of layers that go are no loss here: the layers live on in another part of the network."""
        self._tags_may_go = True

    def finish(self) -> Model:
        """The edited network, without the layers, inputs and constants that no output needs any more.

        Raises:
            RecipeError: a layer that is tagged `_hp` or `_cpu` would go; a network without inputs would be left.
            InternalError: the edit left a graph that is not valid.
        """
        removed = self._prune()
        if not self._tags_may_go:
            self._check_tags(removed)
        if not self.graph.input:
            raise self.refused("no input of the network would be left", "choose outputs that depend on an input")
        proto = self._inferred()
        values = {name for node in proto.graph.node for name in node.output} | set(self.input_names)
        return replace(
            self._source,
            onnx_bytes=proto.SerializeToString(deterministic=True),
            tags=LayerTags({value: tags for value, tags in self._tags.items() if value in values}),
            inputs=tuple(InputSpec(info.name, _dims(info)) for info in proto.graph.input),
            outputs=tuple(OutputSpec(info.name, _dims(info)) for info in proto.graph.output),
        )

    def _prune(self) -> list[onnx.NodeProto]:
        needed = set(self.output_names)
        kept, removed = [], []
        for node in reversed(self.graph.node):
            if needed & set(node.output):
                needed |= set(node.input)
                kept.append(node)
            else:
                removed.append(node)
        kept.reverse()
        nodes = [type(node).FromString(node.SerializeToString()) for node in kept]
        del self.graph.node[:]
        self.graph.node.extend(nodes)
        for field in (self.graph.input, self.graph.initializer):
            for item in [item for item in field if item.name not in needed]:
                field.remove(item)
        return removed[::-1]

    def _check_tags(self, removed: Sequence[onnx.NodeProto]) -> None:
        for node in removed:
            tags = [self._tags.get(value, ValueTags()) for value in node.output]
            kind = "_cpu" if any(tag.cpu for tag in tags) else "_hp" if any(tag.hp for tag in tags) else ""
            if kind:
                raise self.refused(
                    f"layer '{self.layer(node)}', which is tagged `{kind}`, would be removed",
                    "remove the tag, or keep the layer",
                )

    def _inferred(self) -> onnx.ModelProto:
        import onnx

        from nnkit.custom_ops import register_schemas

        register_schemas()
        del self.graph.value_info[:]
        try:
            proto = onnx.shape_inference.infer_shapes(self.proto, check_type=True, strict_mode=True, data_prop=True)
            onnx.checker.check_model(proto, full_check=True)
        except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
            raise InternalError(f"an edit left a graph that is not valid: {error}", where=self.where) from error
        return proto


def _dims(info: Any) -> tuple[int, ...]:
    return tuple(int(dim.dim_value) for dim in info.type.tensor_type.shape.dim)
