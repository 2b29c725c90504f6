"""Tags lifted from layer names and from the recipe's globs, and followed through the import's tools."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nnkit.did_you_mean import close_to
from nnkit.errors import ModelError, RecipeError
from nnkit.graph import LayerTags, ValueTags
from nnkit.graph.tag_words import Tag, tags_in_name
from nnkit.importers.tidy import graphs

if TYPE_CHECKING:
    import onnx


@dataclass(frozen=True)
class TagGlobs:
    """The recipe's globs (fnmatch, case-sensitive) over the names of imported layers.

    where: gives the position of glob number `index` of a tag in the recipe, for messages.
    """

    hp: tuple[str, ...] = ()
    cpu: tuple[str, ...] = ()
    where: Callable[[Tag, int], str] | None = None


NO_GLOBS = TagGlobs()


class TagGlobError(RecipeError):
    """A glob of the recipe that matches no imported layer. reason: where more can be said than that."""

    code = "NK203"

    def __init__(self, tag: Tag, glob: str, *, where: str, remedy: str, reason: str = "") -> None:
        told = reason or f"tags.{tag}: '{glob}' matches no layer of the network"
        super().__init__(told, where=where, remedy=remedy)
        self.tag = tag
        self.glob = glob


@dataclass(frozen=True)
class TaggedLayer:
    """A tagged layer as imported.

    values: names of its outputs. reasons: what tagged it, e.g. "hp by name '/fc_hp'", "cpu by glob 'conv*'".
    """

    name: str
    values: tuple[str, ...]
    tags: ValueTags
    reasons: tuple[str, ...]


def lift_tags(graph: onnx.GraphProto, globs: TagGlobs) -> tuple[TaggedLayer, ...]:
    """The tagged layers of a graph whose nodes all have names, in graph order; also those in branches, which may be
    taken.

    Raises:
        TagGlobError: a glob matches no layer; the nearest names are in the remedy.
    """
    nodes = [node for each in graphs(graph) for node in each.node if node.name]
    names = [node.name for node in nodes]
    inputs = [value.name for value in graph.input]
    matches = {tag: _glob_matches(tag, globs, names, inputs) for tag in _TAGS}
    lifted = []
    for node in nodes:
        reasons = [f"{tag} by name '{part}'" for tag, part in tags_in_name(node.name).items()]
        reasons += [f"{tag} by glob '{glob}'" for tag in _TAGS for glob in matches[tag].get(node.name, ())]
        if reasons:
            tagged = {reason.split()[0] for reason in reasons}
            tags = ValueTags(hp="hp" in tagged, cpu="cpu" in tagged, origins=(node.name,))
            values = tuple(value for value in node.output if value)
            lifted.append(TaggedLayer(node.name, values, tags, tuple(reasons)))
    return tuple(lifted)


def follow_tags(
    layers: Iterable[TaggedLayer], graph: onnx.GraphProto, where: str
) -> tuple[LayerTags, tuple[str, ...]]:
    """The tags by value name in `graph`, which the tools have been through, and notes on layers that are no more.

    A layer is found again by its name, else by its value. It may be gone (folded into a constant, or computing
    nothing that is used) where everything that tagged it still tags another layer: a module's shape arithmetic,
    for instance, folds away while its convolution stays.

    Raises:
        ModelError: a tag would vanish; the message names the layer.
    """
    by_name = {node.name: node for node in graph.node}
    by_value = {value: node for node in graph.node for value in node.output if value}
    tags = LayerTags()
    notes: list[str] = []
    gone: list[TaggedLayer] = []
    kept_reasons: set[str] = set()
    for layer in layers:
        node = by_name.get(layer.name) or next((by_value[v] for v in layer.values if v in by_value), None)
        if node is None:
            gone.append(layer)
            continue
        if node.name != layer.name:
            notes.append(f"the tag of layer '{layer.name}' holds for '{node.name}', which gives its result now")
        kept_reasons.update(layer.reasons)
        for value in node.output:
            if value:
                tags = tags.with_tags(value, tags.of(value).merged(layer.tags))
    lost = [layer for layer in gone if not kept_reasons.issuperset(layer.reasons)]
    if lost:
        names = ", ".join(f"'{layer.name}' ({'; '.join(layer.reasons)})" for layer in lost)
        raise ModelError(
            f"tagged layers compute nothing at run time, so that their tags would be lost: {names}",
            where=where,
            remedy="tag the layer that uses the result, or remove the tag",
        )
    notes += [f"tagged layer '{layer.name}' folded away; its tag stays on the layers around" for layer in gone]
    return tags, tuple(notes)


_TAGS: tuple[Tag, ...] = ("hp", "cpu")


def _glob_matches(tag: Tag, globs: TagGlobs, names: Sequence[str], inputs: Sequence[str]) -> dict[str, list[str]]:
    """Globs by the layer they match."""
    matches: dict[str, list[str]] = {}
    for index, glob in enumerate(globs.hp if tag == "hp" else globs.cpu):
        matched = [name for name in names if fnmatch.fnmatchcase(name, glob)]
        if not matched:
            place = globs.where(tag, index) if globs.where else ""
            if glob in inputs:
                reason = f"tags.{tag}: '{glob}' is an input of the network, and tags are for layers"
                what = "need 16 bits" if tag == "hp" else "the CPU is to run"
                remedy = f"name the layers that {what}"
                raise TagGlobError(tag, glob, where=place, remedy=remedy, reason=reason)
            raise TagGlobError(tag, glob, where=place, remedy=_near(glob, names))
        for name in matched:
            matches.setdefault(name, []).append(glob)
    return matches


def _near(glob: str, names: Sequence[str]) -> str:
    """The layer names most like `glob`, as a remedy."""
    if not names:
        return "the network has no layers"
    by_lower = {name.lower(): name for name in reversed(names)}
    pattern = glob.lower()
    same_letters = [name for lower, name in by_lower.items() if fnmatch.fnmatchcase(lower, pattern)]
    plain = re.sub(r"[*?\[\]]", "", pattern)
    inside = [name for lower, name in by_lower.items() if plain and plain in lower]
    close = close_to(plain, names, count=3, cutoff=0.5)
    near = list(dict.fromkeys([*reversed(same_letters), *reversed(inside), *close]))[:3]
    if near:
        return "did you mean " + " or ".join(f"'{name}'" for name in near) + "? letter case counts"
    shown = ", ".join(f"'{name}'" for name in names[:5])
    return f"layers are named like {shown}; `nnkit plan` lists them all"
