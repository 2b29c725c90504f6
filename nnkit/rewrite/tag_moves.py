"""Where the user's tags went: one sentence for each tagged layer whose tag holds for another layer now.

A tag asks for something of a layer, and a rewrite may make that layer a part of another: the 16 bits that were asked
of an activation are then those of the convolution that computes it. The log of the rewrite says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from nnkit.graph import Model

TagKind: TypeAlias = Literal["hp", "cpu"]
Asked: TypeAlias = frozenset[tuple[TagKind, str]]
"""What the user tagged: kinds of tags, each with the name of the layer."""

KINDS: tuple[TagKind, ...] = ("hp", "cpu")


def tagged_layers(model: Model) -> Asked:
    """The tags of `model` by the layers of origin; where layers were merged, all of the one that they are now."""
    return _asked(model, _layers(model))


def tag_moves(before: Model, after: Model, asked: Asked) -> tuple[str, ...]:
    """Sentences on tags among `asked` that reach a layer in `after` which did not have them in `before`.

    A layer that keeps its tag is none, nor is one whose tag joins the same tag of the layer that takes it in.
    """
    moves = []
    known = _layers(before)
    for kind in KINDS:
        carried, carries = _carriers(before, kind, known), _carriers(after, kind, known)
        tagged = {layer for layers in carried.values() for layer in layers}
        for origin, layers in carries.items():
            if (kind, origin) in asked and origin in carried and set(layers) - tagged:
                named = ", ".join(f"'{layer}'" for layer in layers)
                moves.append(f"`_{kind}` of '{origin}' now holds for {named}")
    return tuple(moves)


def lost_tags(before: Model, after: Model) -> tuple[str, ...]:
    """The tags of `before` that no layer of `after` has, each as in "`_hp` of layer 'fc'"."""
    known = _layers(before)
    lost = _asked(before, known) - _asked(after, known)
    return tuple(f"`_{kind}` of layer '{origin}'" for kind, origin in sorted(lost))


def _layers(model: Model) -> dict[str, str]:
    """The layer of every value, in graph order; an input of the network is its own. Without tags: none."""
    if not any(tags.hp or tags.cpu for tags in model.tags.values.values()):
        return {}
    graph = model.proto().graph
    layers = {str(info.name): str(info.name) for info in graph.input}
    return layers | {str(value): str(node.name or node.output[0]) for node in graph.node for value in node.output}


def _asked(model: Model, known: Mapping[str, str]) -> Asked:
    return frozenset((kind, origin) for kind in KINDS for origin in _carriers(model, kind, known))


def _carriers(model: Model, kind: TagKind, known: Mapping[str, str]) -> dict[str, list[str]]:
    """Imported layers that are tagged `kind`, each with the layers of `model` that have the tag, in graph order.

    known: layers by value, whose names stand for the origin of a tag that does not say it.
    """
    carriers: dict[str, list[str]] = {}
    for value, layer in _layers(model).items():
        tags = model.tags.of(value)
        if getattr(tags, kind):
            for origin in tags.origins or (known.get(value, layer),):
                carriers.setdefault(origin, []).append(layer)
    return {origin: list(dict.fromkeys(layers)) for origin, layers in carriers.items()}
