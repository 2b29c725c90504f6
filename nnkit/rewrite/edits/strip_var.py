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

from collections.abc import Mapping
from typing import Any

from nnkit.graph import Model
from nnkit.recipe.restructure import StripVar
from nnkit.rewrite.edit import Edit, Edited, Expected, Values, copied, same_feeds
from nnkit.rewrite.surgery import Surgery


def make(options: StripVar, where: str = "") -> Edit:
    """The edit with its options."""
    return Edit("strip_var", __doc__ or "", lambda model: _apply(model, options, where))


def _apply(model: Model, options: StripVar, where: str) -> Edited:
    surgery = Surgery(model, where)
    stripped = surgery.matching(options.layers)
    names = tuple(surgery.layer(node) for node in stripped)
    before = surgery.output_names
    if options.then == "rewire":
        return _rewired(surgery, stripped, names, before)
    return _cut(surgery, stripped, names, before)


def _computed_inputs(surgery: Surgery, node: Any) -> list[str]:
    constants = {tensor.name for tensor in surgery.graph.initializer}
    return [name for name in dict.fromkeys(node.input) if name and name not in constants]


def _cut(surgery: Surgery, stripped: list[Any], names: tuple[str, ...], before: list[str]) -> Edited:
    gone = {value for node in stripped for value in node.output}
    for node in surgery.graph.node:  # in topological order
        if gone & set(node.input):
            gone |= set(node.output)
    ends = [
        value
        for node in stripped
        for value in _computed_inputs(surgery, node)
        if value not in gone and value not in surgery.input_names
    ]
    kept = [name for name in before if name not in gone]
    outputs = list(dict.fromkeys([*kept, *(ends if len(kept) < len(before) else [])]))
    if not outputs:
        raise surgery.refused("nothing of the network would be left", "name layers further from the inputs")
    surgery.set_outputs(outputs)

    def expected(values: Values) -> Mapping[str, Expected]:
        return {name: copied(values[name]) for name in outputs}

    effect = f"{len(names)} named layers and what depends on them went; the outputs are {_listed(outputs)}"
    return Edited(surgery.finish(), names, effect, tuple(outputs), expected, same_feeds)


def _rewired(surgery: Surgery, stripped: list[Any], names: tuple[str, ...], before: list[str]) -> Edited:
    stand_in: dict[str, str] = {}
    for node in stripped:  # in topological order: an input that goes itself is already replaced
        inputs = _computed_inputs(surgery, node)
        if len(inputs) != 1 or len(node.output) != 1:
            raise surgery.refused(
                f"layer '{surgery.layer(node)}' reads {len(inputs)} computed values and gives {len(node.output)}: "
                "there is no telling what its readers should read",
                "write then: cut, or name other layers",
            )
        stand_in[node.output[0]] = stand_in.get(inputs[0], inputs[0])
    for value, source in stand_in.items():
        for reader in surgery.readers(value):
            if reader.output[0] in stand_in:
                continue
            if surgery.shape(value) != surgery.shape(source):
                raise surgery.refused(
                    f"'{surgery.layer(reader)}' reads '{value}' of shape {list(surgery.shape(value))}, and would "
                    f"read '{source}' of shape {list(surgery.shape(source))}",
                    "write then: cut, or name the layers up to where the shapes agree",
                )
            for index, name in enumerate(reader.input):
                if name == value:
                    reader.input[index] = source
    outputs = list(dict.fromkeys(stand_in.get(name, name) for name in before))
    if set(outputs) & set(surgery.input_names):
        raise surgery.refused("nothing would lie between an input and an output", "name other layers")
    surgery.set_outputs(outputs)
    reached = {value for value in outputs if not _touched(surgery, value, set(stand_in.values()))}

    def expected(values: Values) -> Mapping[str, Expected]:
        return {name: copied(values[name]) for name in outputs if name in reached}

    effect = f"{len(names)} layers went, their readers read their inputs; the outputs are {_listed(outputs)}"
    if len(reached) < len(outputs):
        effect += "; what depends on the rewired layers has no counterpart in the network before, and is not compared"
    return Edited(surgery.finish(), names, effect, tuple(sorted(reached)), expected, same_feeds)


def _touched(surgery: Surgery, output: str, sources: set[str]) -> bool:
    """Whether a layer that reads one of `sources` now lies before `output`: its numbers may be new."""
    pending, seen = [output], set[str]()
    while pending:
        node = surgery.producer(pending.pop())
        if node is None or node.output[0] in seen:
            continue
        seen.add(node.output[0])
        if sources & set(node.input):
            return True
        pending += node.input
    return False


def _listed(names: list[str]) -> str:
    return ", ".join(repr(name) for name in names)
