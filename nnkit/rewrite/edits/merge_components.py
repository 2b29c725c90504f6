"""Join several crops of one face, or several sub-networks, in one network.

Change: every component is a network with one input and one output, the recipe's own model or another ONNX file. It
is applied to each of its inputs, a copy each, which share their weights. The features are concatenated in the order
of components and inputs: [x_1, x_2, ...]. Each input has a name, a preprocessing and calibration images of its own
in the recipe (crop, flip, resize). The layers and values of a copy have the input's name before their own.
Options: `components`, each {model: FILE or null, inputs: [NAME, ...]}; `output`, the name of the feature.
Refused where a component has several inputs or outputs, where an input's name comes twice, and where the features
do not have one form, [1, D] or [1, D, 1, 1].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nnkit.graph import InputSpec, LayerTags, Model, OutputSpec
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.recipe.restructure import Component, MergeComponents
from nnkit.rewrite.edit import Edit, Edited, Expected, Sample, Values, copied
from nnkit.rewrite.surgery import Surgery

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
    surgery = Surgery(model, where)
    models = [_component_model(model, component) for component in options.components]
    _check(surgery, models, options)
    copies = [
        _Copy(name, models[index], index)
        for index, component in enumerate(options.components)
        for name in component.inputs
    ]
    merged = merge(copies, options.output)
    source = model.inputs[0].name

    def feeds(sample: Sample) -> Sample:
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
    from nnkit.importers import import_onnx

    return import_onnx(component.model.existing_file("the component's model")).model


def _check(surgery: Surgery, models: Sequence[Model], options: MergeComponents) -> None:
    names = [name for component in options.components for name in component.inputs]
    for name in names:
        if names.count(name) > 1:
            raise surgery.refused(f"input '{name}' is named {names.count(name)} times", "name each input once")
    for model, component in zip(models, options.components, strict=True):
        label = f"'{component.model.text}'" if component.model is not None else "the recipe's model"
        if len(model.inputs) != 1 or len(model.outputs) != 1:
            raise surgery.refused(
                f"{label} has {len(model.inputs)} inputs and {len(model.outputs)} outputs; a component has one each",
                "put keep_output or replace_input before merge_components",
            )
        shape = model.outputs[0].shape
        if len(shape) not in (2, 4) or shape[2:] not in ((), (1, 1)):
            raise surgery.refused(
                f"{label} gives {list(shape)}; a feature is [1, D] or [1, D, 1, 1]",
                "cut it behind the feature with replace_tail",
            )
        if len(shape) != len(models[0].outputs[0].shape):
            raise surgery.refused(
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


def merge(copies: Sequence[_Copy], output: str) -> Model:
    """The joined network: the copies beside one another, their outputs concatenated along axis 1."""
    import onnx
    from onnx import TensorProto, helper

    from nnkit.custom_ops import register_schemas

    register_schemas()
    proto = copies[0].model.proto()
    graph = proto.graph
    for field in (graph.node, graph.input, graph.output, graph.initializer, graph.value_info):
        del field[:]
    tags = {}
    features: list[str] = []
    kept_weights: set[int] = set()
    for copy in copies:
        part = copy.model.proto().graph
        names = _names(part, copy)
        for node in part.node:
            graph.node.append(_renamed(node, names, copy.input))
        for tensor in part.initializer:
            if copy.component not in kept_weights:
                graph.initializer.add().CopyFrom(tensor)
                graph.initializer[-1].name = names[tensor.name]
        kept_weights.add(copy.component)
        graph.input.append(helper.make_tensor_value_info(copy.input, TensorProto.FLOAT, copy.model.inputs[0].shape))
        features.append(names[part.output[0].name])
        for value, tag in copy.model.tags.values.items():
            origins = tuple(f"{copy.input}_{origin}" for origin in tag.origins)
            tags[names.get(value, value)] = replace(tag, origins=origins)
    for opset in (entry for copy in copies[1:] for entry in copy.model.proto().opset_import):
        if opset.domain not in {entry.domain for entry in proto.opset_import}:
            proto.opset_import.append(opset)
    graph.node.append(helper.make_node("Concat", features, [output], name=output, axis=1))
    graph.output.append(helper.make_tensor_value_info(output, TensorProto.FLOAT, None))
    inferred: onnx.ModelProto = onnx.shape_inference.infer_shapes(proto, check_type=True, strict_mode=True)
    onnx.checker.check_model(inferred, full_check=True)
    width = sum(copy.model.outputs[0].shape[1] for copy in copies)
    shape = (1, width, *copies[0].model.outputs[0].shape[2:])
    return Model(
        onnx_bytes=inferred.SerializeToString(deterministic=True),
        tags=LayerTags(tags),
        inputs=tuple(InputSpec(copy.input, copy.model.inputs[0].shape) for copy in copies),
        outputs=(OutputSpec(output, shape),),
        opset=copies[0].model.opset,
    )


def _names(part: onnx.GraphProto, copy: _Copy) -> dict[str, str]:
    """New names of the copy's values; constants are the component's, shared by its copies."""
    names = {tensor.name: f"component{copy.component}_{tensor.name}" for tensor in part.initializer}
    names |= {value: f"{copy.input}_{value}" for node in part.node for value in node.output if value}
    return names | {part.input[0].name: copy.input, "": ""}


def _renamed(node: onnx.NodeProto, names: Mapping[str, str], prefix: str) -> Any:
    renamed = type(node).FromString(node.SerializeToString())
    renamed.name = f"{prefix}_{node.name or node.output[0]}"
    for index, name in enumerate(node.input):
        renamed.input[index] = names[name]
    for index, name in enumerate(node.output):
        renamed.output[index] = names[name]
    for entry in renamed.metadata_props:
        if entry.key == "nnkit.fuse_into":
            entry.value = names[entry.value]
    return renamed
