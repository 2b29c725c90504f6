"""A Model as prototxt and caffemodel, in the order in which the network was written.

Layers that were imported from Caffe and are unchanged are written as they were (origin.py); every other node is
written by the rule for its operator (table.py). What Caffe cannot express is refused, all of it at once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from nnkit.caffe.export.context import NodeContext
from nnkit.caffe.export.origin import OriginalLayer, original_layers
from nnkit.caffe.export.view import GraphView
from nnkit.caffe.export.writer import NetworkWriter, WrittenLayer
from nnkit.caffe.layers.context import LayerProblem
from nnkit.errors import ModelError
from nnkit.graph import Model
from nnkit.importers.name_tags import split_tags

if TYPE_CHECKING:
    import onnx

_REPORT = "_report"


@dataclass(frozen=True)
class CaffeFiles:
    """A written network.

    blobs: blob name by value name, inputs and outputs included. layers: names of the layers that each node became, by
    node name. notes: what differs from the graph, one sentence each.
    """

    prototxt: str
    caffemodel: bytes
    blobs: Mapping[str, str]
    layers: Mapping[str, tuple[str, ...]]
    notes: tuple[str, ...]


def export_caffe(
    model: Model,
    *,
    name: str | None = None,
    as_custom: Collection[str] = (),
    consumed_outputs: Literal["split", "report"] = "split",
    most_name_bytes: int | None = None,
) -> CaffeFiles:
    """Write a network for Caffe.

    Tags become suffixes of layer names (`_hp`, `_cpu`) where the name does not end with them already.

    name: of the network; the graph's own by default.
    as_custom: names of nodes that are written as `Custom` layers with their shapes, whatever they compute.
    consumed_outputs: Caffe gives out only what no layer reads. A network output that is read as well is doubled by a
        Split layer (`split`), or its blob's name gets the suffix `_report`, which tells the NNIE mapper the same.
    most_name_bytes: longer names of layers are shortened, and so are those of values that the export introduces; tags
        stay at the end. Values of the network keep their names.

    Raises:
        ModelError: the network has nodes that Caffe cannot express; all of them are listed.
    """
    from nnkit.caffe.export.table import RULES

    view = GraphView(model)
    inputs = {spec.name: spec.shape for spec in model.inputs}
    writer = NetworkWriter(name or view.name, inputs, tuple(view.outputs), most_name_bytes)
    writer.reserve_values([*inputs, *view.producers, *view.shapes])
    custom = set(as_custom)
    originals = {
        last: original
        for last, original in original_layers(view).items()
        if custom.isdisjoint(view.nodes[index].name for index in original.indices)
    }
    covered = {index: last for last, original in originals.items() for index in original.indices}
    problems: list[tuple[onnx.NodeProto, LayerProblem]] = []
    made: dict[str, tuple[str, ...]] = {}
    for index, node in enumerate(view.nodes):
        before = len(writer.layers)
        original = originals.get(covered.get(index, -1))
        if original is not None:
            if index == original.indices[-1]:
                _write_original(original, view, writer, node)
        else:
            label, suffix = _tagged(model, node, node.name or node.output[0])
            context = NodeContext(node, view, writer, label, suffix)
            try:
                if node.name in custom:
                    _write_custom(context)
                elif node.op_type not in RULES or node.domain not in ("", "ai.onnx", "ai.nnkit"):
                    raise LayerProblem("Caffe has no such layer", "replace it by operators that Caffe has")
                else:
                    RULES[node.op_type](context)
            except LayerProblem as problem:
                del writer.layers[before:]
                problems.append((node, problem))
        made[node.name] = tuple(layer.name for layer in writer.layers[before:])
    if problems:
        raise _refused(problems)
    renamed = _consumed(writer, view, consumed_outputs)
    _silence(writer, view)
    blobs = {value: renamed.get(blob, blob) for value, blob in writer.blobs().items()}
    return CaffeFiles(
        prototxt=writer.prototxt(blobs),
        caffemodel=writer.caffemodel(),
        blobs=MappingProxyType({value: blobs[value] for value in blobs if value in view.shapes}),
        layers=MappingProxyType(made),
        notes=tuple(writer.notes),
    )


def _tagged(model: Model, node: onnx.NodeProto, name: str) -> tuple[str, str]:
    """A layer's name without the tags that it ends with, and those tags and the node's others as a suffix.

    A tag elsewhere in the name (`conv_hp_1`) tags the layer for nnkit; the mapper does not see it there.
    """
    tags = [model.tags.of(value) for value in node.output if value]
    plain, said = split_tags(name)
    wanted = {"_hp": any(t.hp for t in tags), "_cpu": any(t.cpu for t in tags)}
    return plain, said + "".join(tag for tag, on in wanted.items() if on and tag not in said)


def _write_original(original: OriginalLayer, view: GraphView, writer: NetworkWriter, node: onnx.NodeProto) -> None:
    layer = original.layer
    name = writer.layer_name(*_tagged(view.model, node, layer.name))
    bottoms, tops = list(layer.bottoms), list(layer.tops)
    writer.layers.append(
        WrittenLayer(name, layer.type, bottoms, tops, original.message, layer.weights, layer.in_place)
    )


def _write_custom(context: NodeContext) -> None:
    bottoms = [value for value in context.node.input if value and context.view.constant(value) is None]
    tops = [value for value in context.node.output if value]
    shapes = [{"dim": list(context.value_shape(value))} for value in tops]
    context.layer("", "Custom", bottoms, tops, custom_param={"shape": shapes})


def _refused(problems: list[tuple[onnx.NodeProto, LayerProblem]]) -> ModelError:
    lines = "".join(
        f"\n  layer '{node.name or node.output[0]}' ({node.op_type}): {problem.reason}"
        + (f"; {problem.remedy}" if problem.remedy and len(problems) > 1 else "")
        for node, problem in problems
    )
    remedy = problems[0][1].remedy if len(problems) == 1 else ""
    return ModelError(
        f"the network has layers that Caffe cannot express ({len(problems)}):{lines}",
        remedy=remedy or "restructure these layers, or write them as Custom layers that run on the CPU",
    )


def _consumed(writer: NetworkWriter, view: GraphView, how: str) -> dict[str, str]:
    """Make outputs that are read as well visible outside; returns blobs to be renamed, old to new."""
    readers: dict[str, list[WrittenLayer]] = {}
    makers: dict[str, WrittenLayer] = {}
    for layer in writer.layers:
        makers.update(dict.fromkeys(layer.tops, layer))
        for bottom in set(layer.bottoms).intersection(view.outputs):
            readers.setdefault(bottom, []).append(layer)
    renamed = {}
    for output in [name for name in view.outputs if name in readers]:
        if how == "report":
            renamed[output] = output if output.endswith(_REPORT) else output + _REPORT
            continue
        made = makers[output]
        source, copy = writer.value_name(f"{output}_source"), writer.value_name(f"{output}_read")
        made.tops = [source if top == output else top for top in made.tops]
        for layer in readers[output]:
            layer.bottoms = [copy if bottom == output else bottom for bottom in layer.bottoms]
        from nnkit.caffe.schema import messages

        split = WrittenLayer(
            writer.layer_name(f"{output}_split"), "Split", [source], [output, copy], messages.LayerParameter()
        )
        writer.layers.insert(writer.layers.index(made) + 1, split)
        writer.notes.append(f"output '{output}' is read by other layers too: a Split layer gives it out")
    return renamed


def _silence(writer: NetworkWriter, view: GraphView) -> None:
    """Swallow values that nothing reads and that are no outputs, lest they become outputs."""
    from nnkit.caffe.schema import messages

    read = {bottom for layer in writer.layers for bottom in layer.bottoms}
    unread = [top for layer in writer.layers for top in layer.tops if top not in read and top not in view.outputs]
    if unread:
        name = writer.layer_name("silence")
        writer.layers.append(WrittenLayer(name, "Silence", unread, [], messages.LayerParameter()))
        writer.notes.append(f"values that nothing uses are swallowed by the layer '{name}': {', '.join(unread[:5])}")
