"""Join several crops of one face, or several sub-networks, in one network.

Change: every component is a network with one input and one output: the recipe's own model, another ONNX file, or a
prototxt and its caffemodel. It is applied to each of its inputs, a copy each, which share their weights. The features
are concatenated in the order of components and inputs: [x_1, x_2, ...]. Each input has a name, a preprocessing and
calibration images of its own in the recipe (crop, flip, resize). The layers and values of a copy have the input's
name before their own. Components of several operator sets are brought to the latest of them.
Options: `components`, each {model: FILE or null, weights: FILE for Caffe, inputs: [NAME, ...]}; `output`, the name of
the feature.
Refused where a component has several inputs or outputs, where an input's name comes twice, and where the features
do not have one form, [1, D] or [1, D, 1, 1].
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nnkit.errors import RecipeError
from nnkit.graph import InputSpec, LayerTags, Model, OutputSpec
from nnkit.graph.metadata import CAFFE_BOTTOMS, CAFFE_LAYER, CAFFE_WEIGHTS, FUSE_INTO
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.names import NamePool
from nnkit.recipe.restructure import Component, MergeComponents
from nnkit.rewrite.edit import Edit, Edited, Expected, Values, copied
from nnkit.rewrite.shapes import with_inferred_shapes
from nnkit.samples import NetworkInputs

if TYPE_CHECKING:
    import onnx


@dataclass(frozen=True, eq=False)
class _Copy:
    """One application of a component: the new network's input, and the component with its number."""

    input: str
    model: Model
    component: int


def make(options: MergeComponents, where: str = "") -> Edit:
    """The edit with its options."""
    return Edit("merge_components", __doc__ or "", lambda model: _apply(model, options, where))


def _apply(model: Model, options: MergeComponents, where: str) -> Edited:
    models = [_component_model(model, component) for component in options.components]
    _check(models, options, where)
    copies = [
        _Copy(name, models[index], index)
        for index, component in enumerate(options.components)
        for name in component.inputs
    ]
    merged = merge(copies, options.output, where)
    source = model.inputs[0].name

    def feeds(sample: NetworkInputs) -> NetworkInputs:
        return _inputs_of(copies, sample[source])

    def expected(values: Values) -> Mapping[str, Expected]:
        fed = _inputs_of(copies, values[source])
        features = [
            FloatSession(copy.model).run({copy.model.inputs[0].name: fed[copy.input]})[copy.model.outputs[0].name]
            for copy in copies
        ]
        return {merged.outputs[0].name: copied(np.concatenate(features, axis=1))}

    sizes = " + ".join(str(copy.model.outputs[0].shape[1]) for copy in copies)
    names = tuple(copy.input for copy in copies)
    effect = f"{len(copies)} inputs, {', '.join(names)}; output '{options.output}' has {sizes} values"
    return Edited(merged, names, effect, (source,), expected, feeds)


def _component_model(model: Model, component: Component) -> Model:
    if component.model is None:
        return model
    from nnkit.importers import import_caffe, import_onnx

    path = component.model.existing_file("the component's model")
    if component.weights is None:
        return import_onnx(path).model
    return import_caffe(path, component.weights.existing_file("the component's weights")).model


def _check(models: Sequence[Model], options: MergeComponents, where: str) -> None:
    def refused(reason: str, remedy: str) -> RecipeError:
        return RecipeError(reason, where=where, remedy=remedy)

    names = [name for component in options.components for name in component.inputs]
    for name in names:
        if names.count(name) > 1:
            raise refused(f"input '{name}' is named {names.count(name)} times", "name each input once")
    if options.output in names:
        raise refused(f"'{options.output}' is an input and the output", "give `output` another name")
    for model, component in zip(models, options.components, strict=True):
        label = f"'{component.model.text}'" if component.model is not None else "the recipe's model"
        if len(model.inputs) != 1 or len(model.outputs) != 1:
            raise refused(
                f"{label} has {len(model.inputs)} inputs and {len(model.outputs)} outputs; a component has one each",
                "put keep_output or replace_input before merge_components",
            )
        shape = model.outputs[0].shape
        if len(shape) not in (2, 4) or shape[2:] not in ((), (1, 1)):
            raise refused(
                f"{label} gives {list(shape)}; a feature is [1, D] or [1, D, 1, 1]",
                "cut it behind the feature with replace_tail",
            )
        if len(shape) != len(models[0].outputs[0].shape):
            raise refused(
                f"{label} gives {list(shape)}, the first component {list(models[0].outputs[0].shape)}",
                "bring both to one form",
            )


def _inputs_of(copies: Sequence[_Copy], image: NDArray[Any]) -> dict[str, NDArray[np.float32]]:
    """Another image for every copy, made from the sample: moved along, and cut or repeated to the input's size."""
    flat = np.asarray(image, np.float32).reshape(-1)
    fed = {}
    for index, copy in enumerate(copies):
        shape = copy.model.inputs[0].shape
        fed[copy.input] = np.resize(np.roll(flat, 17 * index), shape).astype(np.float32)
    return fed


def merge(copies: Sequence[_Copy], output: str, where: str = "") -> Model:
    """The joined network: the copies beside one another, their outputs concatenated along axis 1."""
    from onnx import TensorProto, helper

    from nnkit.importers.opset import with_opset

    opset = max(copy.model.opset for copy in copies)
    models = {copy.component: with_opset(copy.model, opset) for copy in copies}
    protos = {component: model.proto() for component, model in models.items()}
    proto = models[copies[0].component].proto()
    proto.ir_version = max(each.ir_version for each in protos.values())
    graph = proto.graph
    for field in (graph.node, graph.input, graph.output, graph.initializer, graph.value_info):
        del field[:]
    taken = NamePool([output, *(copy.input for copy in copies)])
    shared = {component: _constants(each.graph, component, taken) for component, each in protos.items()}
    for component, each in protos.items():
        for tensor in each.graph.initializer:
            graph.initializer.add().CopyFrom(tensor)
            graph.initializer[-1].name = shared[component][tensor.name]
    tags, features, layers = {}, list[str](), NamePool([output])
    for copy in copies:
        part = protos[copy.component].graph
        names = shared[copy.component] | _values(part, copy, taken)
        labels = _labels(part, copy, layers)
        graph.node.extend(_renamed(node, names, labels) for node in part.node)
        graph.input.append(helper.make_tensor_value_info(copy.input, TensorProto.FLOAT, copy.model.inputs[0].shape))
        features.append(names[part.output[0].name])
        for value, tag in copy.model.tags.values.items():
            origins = tuple(f"{copy.input}_{origin}" for origin in tag.origins)
            tags[names.get(value, value)] = replace(tag, origins=origins)
    for entry in (entry for each in protos.values() for entry in each.opset_import):
        if entry.domain not in {known.domain for known in proto.opset_import}:
            proto.opset_import.append(entry)
    graph.node.append(helper.make_node("Concat", features, [output], name=output, axis=1))
    graph.output.append(helper.make_tensor_value_info(output, TensorProto.FLOAT, None))
    inferred = with_inferred_shapes(proto, where)
    width = sum(copy.model.outputs[0].shape[1] for copy in copies)
    shape = (1, width, *copies[0].model.outputs[0].shape[2:])
    return Model(
        onnx_bytes=inferred.SerializeToString(deterministic=True),
        tags=LayerTags(tags),
        inputs=tuple(InputSpec(copy.input, copy.model.inputs[0].shape) for copy in copies),
        outputs=(OutputSpec(output, shape),),
        opset=opset,
    )


def _constants(part: onnx.GraphProto, component: int, taken: NamePool) -> dict[str, str]:
    """New names of a component's constants, which its copies share."""
    return {tensor.name: taken.free(f"component{component}_{tensor.name}") for tensor in part.initializer}


def _values(part: onnx.GraphProto, copy: _Copy, taken: NamePool) -> dict[str, str]:
    """New names of what a copy reads and computes."""
    names = {value: taken.free(f"{copy.input}_{value}") for node in part.node for value in node.output if value}
    return names | {part.input[0].name: copy.input, "": ""}


def _labels(part: onnx.GraphProto, copy: _Copy, taken: NamePool) -> dict[str, str]:
    """New names of a copy's nodes, and of the Caffe layers that they come from."""
    origins = (entry.value for node in part.node for entry in node.metadata_props if entry.key == CAFFE_LAYER)
    listed = dict.fromkeys([*(_label(node) for node in part.node), *origins])
    return {name: taken.free(f"{copy.input}_{name}") for name in listed}


def _label(node: onnx.NodeProto) -> str:
    return str(node.name or node.output[0])


def _renamed(node: onnx.NodeProto, names: Mapping[str, str], labels: Mapping[str, str]) -> onnx.NodeProto:
    """The node of a copy; what it was imported with (`nnkit.caffe.layers.context`) speaks of the new names."""
    renamed: onnx.NodeProto = type(node).FromString(node.SerializeToString())
    renamed.name = labels[_label(node)]
    for index, name in enumerate(node.input):
        renamed.input[index] = names[name]
    for index, name in enumerate(node.output):
        renamed.output[index] = names[name]
    for entry in renamed.metadata_props:
        if entry.key == FUSE_INTO:
            entry.value = names[entry.value]
        elif entry.key == CAFFE_LAYER:
            entry.value = labels[entry.value]
        elif entry.key in (CAFFE_BOTTOMS, CAFFE_WEIGHTS):  # names of values, or numbers that stand for themselves
            listed = [names.get(each, each) if isinstance(each, str) else each for each in json.loads(entry.value)]
            entry.value = json.dumps(listed, ensure_ascii=False)
    return renamed
