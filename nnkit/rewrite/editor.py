"""Editor: changes a private copy of a Model's graph together with its tags; the one tool of rules and edits.

Two promises hold after every call, and the rules lean on them:

* A value name that is there before and after a rewrite stands for the same numbers. A value whose numbers
  change gets a new name; an op that takes over the work of the ops after it takes over their result's name.
* Tags follow the arithmetic: they are moved or copied by the calls below and are never dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nnkit.errors import InternalError, RecipeError
from nnkit.graph import InputSpec, LayerTags, Model, OutputSpec, ValueTags
from nnkit.graph.metadata import CAFFE_ORIGIN, FUSE_INTO
from nnkit.graph.refusal import Refused
from nnkit.rewrite.shapes import static_dims, with_inferred_shapes

if TYPE_CHECKING:
    import onnx
    import onnx_ir as ir

MINIMUM_OPSET = 13
"""Rules read and write the operators as of this opset and newer; the importer upgrades older models."""


class Editor:
    """An editable copy of a Model; the Model it was made from never changes.

    `finish` builds the new Model where the network's inputs and outputs stay, `finish_edit` where they change.
    """

    def __init__(self, model: Model, where: str = "") -> None:
        """Copy `model`.

        Args:
            where: the place in the recipe that asks for an edit, for messages.

        Raises:
            InternalError: the graph is below `MINIMUM_OPSET`.
        """
        self._source = model
        self.where = where
        self._model = model.ir()
        self.graph: ir.Graph = self._model.graph
        self.tags: LayerTags = model.tags
        opset = self.graph.opset_imports.get("", 0)
        if opset < MINIMUM_OPSET:
            raise InternalError(f"rewriting needs opset {MINIMUM_OPSET} or newer, the graph has {opset}")
        self._names = self._all_names()
        self._without_origin: set[ir.Node] = set()  # inserted, or their layer's work was handed on
        self._constants_to_initializers()

    def _all_names(self) -> set[str]:
        names = {value.name for value in self.graph.inputs} | set(self.graph.initializers)
        for node in self.graph:
            names |= {node.name, *(value.name for value in node.outputs)}
        return {name for name in names if name}

    def _constants_to_initializers(self) -> None:
        for node in list(self.graph):
            if node.op_type != "Constant" or node.domain or "value" not in node.attributes:
                continue
            old = node.outputs[0]
            if old.is_graph_output():
                continue
            old_name = str(old.name)
            array = node.attributes["value"].as_tensor().numpy()
            old.replace_all_uses_with(self.constant(old_name, array))
            self.graph.remove(node)

    # Reading

    def nodes(self) -> tuple[ir.Node, ...]:
        """All nodes in topological order, as they are now."""
        return tuple(self.graph)

    @property
    def input_names(self) -> list[str]:
        """The network's inputs, in order."""
        return [str(value.name) for value in self.graph.inputs]

    @property
    def output_names(self) -> list[str]:
        """The network's outputs, in order."""
        return [str(value.name) for value in self.graph.outputs]

    def layer(self, node: ir.Node) -> str:
        """The layer's name for people: the node's name, or its first output's where it has none."""
        return node.name or str(node.outputs[0].name)

    def is_cpu(self, node: ir.Node) -> bool:
        """Whether the layer is tagged to stay an op of its own on the CPU."""
        return any(self.tags.of(str(value.name)).cpu for value in node.outputs)

    def is_hp(self, node: ir.Node) -> bool:
        """Whether the layer is tagged to run in high precision."""
        return any(self.tags.of(str(value.name)).hp for value in node.outputs)

    def array(self, value: ir.Value | None) -> NDArray[Any] | None:
        """The constant behind `value`; None for what is computed, fed or absent."""
        if value is None or value.name not in self.graph.initializers or value.const_value is None:
            return None
        return value.const_value.numpy()

    def shape(self, value: ir.Value) -> tuple[int, ...]:
        """The static shape of `value`.

        Raises:
            InternalError: a dimension is not known.
        """
        if value.shape is None or not value.shape.is_static():
            raise InternalError(f"the shape of value '{value.name}' is not static")
        return tuple(int(dim) for dim in value.shape.numpy())

    def producer(self, value: ir.Value | None, *op_types: str) -> ir.Node | None:
        """The node that computes `value`, when it is one of `op_types` of the default domain (any, if none given)."""
        node = value.producer() if value is not None else None
        if node is None or (op_types and (node.op_type not in op_types or node.domain)):
            return None
        return node

    def users(self, value: ir.Value) -> tuple[ir.Node, ...]:
        """The nodes that read `value`, each once, in graph order of use."""
        return tuple(dict.fromkeys(use.node for use in value.uses()))

    def only_user(self, value: ir.Value) -> ir.Node | None:
        """The node that alone reads `value`, once; None where there are others or it is a network output."""
        uses = tuple(value.uses())
        return uses[0].node if len(uses) == 1 and not value.is_graph_output() else None

    def require_only_reader(self, value: ir.Value, reader: ir.Node) -> None:
        """Raises Refused unless `reader` reads `value` alone and once."""
        if value.is_graph_output():
            raise Refused(f"'{value.name}' is also an output of the network")
        others = [use.node for use in value.uses() if use.node is not reader]
        if others:
            raise Refused(f"'{value.name}' is also read by '{self.layer(others[0])}'")
        if len(tuple(value.uses())) > 1:
            raise Refused(f"'{self.layer(reader)}' reads '{value.name}' more than once")

    def is_unread(self, node: ir.Node) -> bool:
        """Whether nothing needs what `node` computes."""
        return not any(value.uses() or value.is_graph_output() for value in node.outputs)

    def mark(self, node: ir.Node) -> str | None:
        """The value that `node` is marked to be fused into."""
        return node.metadata_props.get(FUSE_INTO)

    def refused(self, reason: str, remedy: str) -> RecipeError:
        """The error for options of an edit that do not suit the network, at the recipe's line."""
        return RecipeError(reason, where=self.where, remedy=remedy)

    # Changing

    def unique(self, base: str) -> str:
        """A name that no node and no value has; `base` itself when it is free. It counts as taken from now on."""
        name, number = base, 1
        while name in self._names:
            name, number = f"{base}_{number}", number + 1
        self._names.add(name)
        return name

    def constant(self, base: str, array: NDArray[Any]) -> ir.Value:
        """A new initializer named after `base`."""
        import onnx_ir as ir

        name = self.unique(base)
        tensor = ir.tensor(np.array(array, order="C"), name=name)
        value = ir.Value(name=name, const_value=tensor, type=ir.TensorType(tensor.dtype), shape=ir.Shape(array.shape))
        self.graph.register_initializer(value)
        return value

    def insert(
        self,
        before: ir.Node,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        attributes: Mapping[str, Any],
        *,
        shape: Sequence[int],
        name: str,
    ) -> ir.Value:
        """A new node in front of `before`, named after `name` like its one output of `shape`; returns the output."""
        import onnx_ir as ir

        node_name, value_name = self.unique(name), self.unique(f"{name}_out")
        data = next(value for value in inputs if value is not None)
        output = ir.Value(name=value_name, type=data.type, shape=ir.Shape(shape))
        node = ir.node(op_type, inputs, attributes, outputs=[output], name=node_name)
        self.graph.insert_before(before, node)
        self._without_origin.add(node)
        return output

    def append(
        self, op_type: str, inputs: Sequence[ir.Value], attributes: Mapping[str, Any], *, name: str
    ) -> ir.Value:
        """A new layer behind all others; it and its one output get the name. `finish_edit` infers the shape."""
        import onnx_ir as ir

        unique = self.unique(name)
        output = ir.Value(name=unique, type=inputs[0].type)
        node = ir.node(op_type, inputs, attributes, outputs=[output], name=unique)
        self.graph.append(node)
        self._without_origin.add(node)
        return output

    def become(
        self, node: ir.Node, op_type: str, inputs: Sequence[ir.Value | None], attributes: Mapping[str, Any]
    ) -> None:
        """Make `node` another op of the default domain with the same first output (name, numbers, tags).

        As another op it is no longer what a Caffe layer was imported as, and says so no more.
        """
        import onnx_ir as ir

        if (node.op_type, node.domain) != (op_type, ""):
            for key in CAFFE_ORIGIN:
                node.metadata_props.pop(key, None)
        node.op_type, node.domain = op_type, ""
        node.attributes.clear()
        for name, value in attributes.items():
            node.attributes[name] = ir.convenience.convert_attribute(name, value)
        self.set_inputs(node, inputs)

    def set_inputs(self, node: ir.Node, inputs: Sequence[ir.Value | None]) -> None:
        """Give `node` these inputs."""
        node.resize_inputs(len(inputs))
        for index, value in enumerate(inputs):
            node.replace_input_with(index, value)

    def feed(self, value: ir.Value) -> None:
        """`value` becomes the network's first input, with its name, shape and tags, instead of being computed."""
        import onnx_ir as ir

        name = str(value.name)
        value.name = self.unique(f"{name}_replaced")
        fed = ir.Value(name=name, type=value.type, shape=value.shape)
        value.replace_all_uses_with(fed, replace_graph_outputs=True)
        self.graph.inputs.insert(0, fed)

    def set_outputs(self, values: Sequence[ir.Value]) -> None:
        """These values are the network's outputs now, in this order."""
        self.graph.outputs.clear()
        self.graph.outputs.extend(values)

    def redirect(self, old: ir.Value, new: ir.Value) -> None:
        """Everyone who reads `old` reads `new`, which holds the same numbers.

        Names stay, except where `old` is a network output: then `new` takes its name. `old` keeps its tags.
        """
        was_output = old.is_graph_output()
        old.replace_all_uses_with(new, replace_graph_outputs=True)
        if was_output:
            self._take_name(old, new)

    def supersede(self, old: ir.Value, new: ir.Value) -> None:
        """The op that computes `new` now computes `old`'s numbers: `new` takes its readers, its name and its tags."""
        old_node = old.producer()
        if old_node is not None:
            self.move_tags(old_node, new)
        old.replace_all_uses_with(new, replace_graph_outputs=True)
        self._take_name(old, new)

    def _take_name(self, old: ir.Value, new: ir.Value) -> None:
        name, former = str(old.name), str(new.name)
        swapped = self.unique(f"{name}_replaced")
        old_tags = self.tags.values.get(name)
        old.name, new.name = swapped, name
        values = {key: tags for key, tags in self.tags.values.items() if key not in (name, former)}
        if former in self.tags.values:
            values[name] = self.tags.values[former]
        if old_tags is not None:
            values[swapped] = old_tags
        self.tags = LayerTags(values)
        for node in self.graph:
            if self.mark(node) == former:
                node.metadata_props[FUSE_INTO] = name

    def tag(self, value: ir.Value, tags: ValueTags) -> None:
        """Give the layer of `value` these tags, besides those it has."""
        name = str(value.name)
        self.tags = self.tags.with_tags(name, self.tags.of(name).merged(tags))

    def move_tags(self, node: ir.Node, destination: ir.Value) -> None:
        """`node`'s tags and origins go to the op that computes `destination`; `node` keeps none."""
        self.copy_tags(node, [destination])
        self.forget_tags(node)

    def forget_tags(self, node: ir.Node) -> None:
        """`node` keeps no tags and no origin; to be called when they have been copied to where they belong now."""
        self._without_origin.add(node)
        gone = {str(value.name) for value in node.outputs}
        self.tags = LayerTags({key: tags for key, tags in self.tags.values.items() if key not in gone})

    def copy_tags(self, node: ir.Node, destinations: Sequence[ir.Value]) -> None:
        """`node`'s tags and origins are merged into those of the ops that compute `destinations`."""
        tags = self._tags_with_origins(node)
        for value in destinations:
            owner = value.producer()
            known = self._tags_with_origins(owner) if owner is not None else ValueTags()
            self.tags = self.tags.with_tags(str(value.name), known.merged(tags))

    def _tags_with_origins(self, node: ir.Node) -> ValueTags:
        merged = ValueTags()
        for value in node.outputs:
            merged = merged.merged(self.tags.of(str(value.name)))
        if merged.origins or node in self._without_origin:
            return merged
        return replace(merged, origins=(self.layer(node),))

    def remove(self, *nodes: ir.Node) -> None:
        """Take `nodes` out of the graph; nothing may read their outputs any more, and their tags must have moved.

        Raises:
            InternalError: a tag of one of the nodes would be lost.
        """
        for node in nodes:
            if self.is_cpu(node) or self.is_hp(node):
                raise InternalError(f"removing layer '{self.layer(node)}' would lose its tags")
            self.forget_tags(node)
        self.graph.remove(nodes, safe=True)

    def take_layer_name(self, value: ir.Value, former: ir.Node, suffix: str) -> None:
        """The node of `value` gets the layer name of `former`, whose work it does; `former` adds `suffix` to it."""
        node, name = value.producer(), self.layer(former)
        if node is None:
            raise InternalError("no node computes the value", where=str(value.name))
        former.name = self.unique(f"{name}{suffix}")
        node.name = name

    def set_mark(self, node: ir.Node, start: ir.Value) -> None:
        """Mark `node` as fused into the op that computes `start`; its tags move there."""
        node.metadata_props[FUSE_INTO] = str(start.name)
        self.move_tags(node, start)

    def finish(self) -> Model:
        """The edited graph as a Model with the same inputs and outputs, without constants that nobody reads."""
        self._remove_unread_constants()
        return replace(self._source, onnx_bytes=self._proto().SerializeToString(deterministic=True), tags=self.tags)

    def finish_edit(self, *, tags_may_go: bool = False) -> Model:
        """The network of the inputs and outputs as they are now, without what no output needs; shapes are inferred.

        Args:
            tags_may_go: tags of layers that go are no loss: the layers live on in another part of the network.

        Raises:
            RecipeError: a layer that is tagged `_hp` or `_cpu` would go; a network without inputs would be left.
            InternalError: the edit left a graph that is not valid.
        """
        for node in self._remove_unneeded():
            if not tags_may_go and (self.is_cpu(node) or self.is_hp(node)):
                raise self.refused(
                    f"layer '{self.layer(node)}', which is tagged `{'_cpu' if self.is_cpu(node) else '_hp'}`, "
                    "would be removed",
                    "remove the tag, or keep the layer",
                )
        if not self.graph.inputs:
            raise self.refused("no input of the network would be left", "choose outputs that depend on an input")
        proto = with_inferred_shapes(self._proto(), self.where)
        values = {name for node in proto.graph.node for name in node.output} | set(self.input_names)
        return replace(
            self._source,
            onnx_bytes=proto.SerializeToString(deterministic=True),
            tags=LayerTags({value: tags for value, tags in self.tags.values.items() if value in values}),
            inputs=tuple(InputSpec(info.name, static_dims(info)) for info in proto.graph.input),
            outputs=tuple(OutputSpec(info.name, static_dims(info)) for info in proto.graph.output),
        )

    def _remove_unneeded(self) -> list[ir.Node]:
        """Take out the nodes, inputs and constants that no output needs; returns the nodes, in graph order."""
        needed, removed = set(self.graph.outputs), list[Any]()
        for node in reversed(self.graph):
            if needed & set(node.outputs):
                needed |= {value for value in node.inputs if value is not None}
            else:
                removed.append(node)
        self.graph.remove(removed, safe=True)
        kept = [value for value in self.graph.inputs if value in needed]
        self.graph.inputs.clear()
        self.graph.inputs.extend(kept)
        self._remove_unread_constants()
        return removed[::-1]

    def _remove_unread_constants(self) -> None:
        for name, value in list(self.graph.initializers.items()):
            if not value.uses() and not value.is_graph_output():
                self.graph.initializers.pop(name)

    def _proto(self) -> onnx.ModelProto:
        import onnx_ir as ir

        return ir.serde.serialize_model(self._model)
