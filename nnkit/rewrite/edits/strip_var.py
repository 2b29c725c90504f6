"""Take named layers out of the network.

Change: the layers that the globs match go.
  then: rewire   What read a layer that goes reads that layer's own computed input instead, where both have one
                 shape; an output that it gave becomes its input, whatever the shape. Layers must read one computed
                 value each.
  then: cut      Everything that depends on a layer that goes, goes too. Outputs among that give way to the computed
                 values which the named layers read.
Options: `layers`, globs over layer names; `then`.
Refused where a glob matches nothing, where rewiring would join different shapes or has two inputs to choose from,
and where a layer that goes is tagged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from nnkit.graph import Model
from nnkit.recipe.restructure import StripVar
from nnkit.rewrite.edit import Edit, Edited, Expected, Values, copied, same_feeds
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.naming import matching_layers
from nnkit.rewrite.reading import ancestors

if TYPE_CHECKING:
    import onnx_ir as ir


def make(options: StripVar, where: str = "") -> Edit:
    """The edit with its options."""
    return Edit("strip_var", __doc__ or "", lambda model: _apply(model, options, where))


def _apply(model: Model, options: StripVar, where: str) -> Edited:
    editor = Editor(model, where)
    stripped = matching_layers(editor, options.layers)
    if options.then == "rewire":
        return _rewired(editor, stripped)
    return _cut(editor, stripped)


def _computed_inputs(editor: Editor, node: ir.Node) -> list[ir.Value]:
    values = dict.fromkeys(value for value in node.inputs if value is not None)
    return [value for value in values if editor.array(value) is None]


def _cut(editor: Editor, stripped: list[ir.Node]) -> Edited:
    gone = {value for node in stripped for value in node.outputs}
    for node in editor.nodes():
        if gone & set(node.inputs):
            gone |= set(node.outputs)
    ends = [
        value
        for node in stripped
        for value in _computed_inputs(editor, node)
        if value not in gone and not value.is_graph_input()
    ]
    before = list(editor.graph.outputs)
    kept = [output for output in before if output not in gone]
    outputs = list(dict.fromkeys([*kept, *(ends if len(kept) < len(before) else [])]))
    if not outputs:
        raise editor.refused("nothing of the network would be left", "name layers further from the inputs")
    sites = tuple(editor.layer(node) for node in stripped)
    editor.set_outputs(outputs)
    names = tuple(editor.output_names)

    def expected(values: Values) -> Mapping[str, Expected]:
        return {name: copied(values[name]) for name in names}

    effect = f"{len(sites)} named layers and what depends on them went; the outputs are {_listed(names)}"
    return Edited(editor.finish_edit(), sites, effect, names, expected, same_feeds)


def _rewired(editor: Editor, stripped: list[ir.Node]) -> Edited:
    stand_in: dict[ir.Value, ir.Value] = {}
    for node in stripped:  # in topological order: an input that goes itself is already replaced
        inputs = _computed_inputs(editor, node)
        if len(inputs) != 1 or len(node.outputs) != 1:
            raise editor.refused(
                f"layer '{editor.layer(node)}' reads {len(inputs)} computed values and gives {len(node.outputs)}: "
                "there is no telling what its readers should read",
                "write then: cut, or name other layers",
            )
        stand_in[node.outputs[0]] = stand_in.get(inputs[0], inputs[0])
    sites = tuple(editor.layer(node) for node in stripped)
    for value, source in stand_in.items():
        for reader in editor.users(value):
            if reader.outputs[0] in stand_in:
                continue
            if editor.shape(value) != editor.shape(source):
                raise editor.refused(
                    f"'{editor.layer(reader)}' reads '{value.name}' of shape {list(editor.shape(value))}, and would "
                    f"read '{source.name}' of shape {list(editor.shape(source))}",
                    "write then: cut, or name the layers up to where the shapes agree",
                )
            editor.set_inputs(reader, [source if each is value else each for each in reader.inputs])
    outputs = list(dict.fromkeys(stand_in.get(output, output) for output in editor.graph.outputs))
    if any(output.is_graph_input() for output in outputs):
        raise editor.refused("nothing would lie between an input and an output", "name other layers")
    editor.set_outputs(outputs)
    sources = set(stand_in.values())
    reached = {str(value.name) for value in outputs if not _reads_any(value, sources)}
    names = editor.output_names

    def expected(values: Values) -> Mapping[str, Expected]:
        return {name: copied(values[name]) for name in names if name in reached}

    effect = f"{len(sites)} layers went, their readers read their inputs; the outputs are {_listed(names)}"
    if len(reached) < len(outputs):
        effect += "; what depends on the rewired layers has no counterpart in the network before, and is not compared"
    return Edited(editor.finish_edit(), sites, effect, tuple(sorted(reached)), expected, same_feeds)


def _reads_any(output: ir.Value, sources: set[ir.Value]) -> bool:
    """Whether a layer that reads one of `sources` now lies before `output`: its numbers may be new."""
    return bool(sources & (ancestors(output) - {output}))


def _listed(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names)
