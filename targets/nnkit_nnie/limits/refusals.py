"""What else than a limit keeps a network from its release: Caffe, and the C of the CPU; and the one error of all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nnkit.constraints import Violation, counted, violations_error
from nnkit.errors import ModelError
from nnkit.graph.refusal import LayersRefused, Refusal, Refused
from nnkit.graph.view import GraphView
from nnkit.names import yaml_name
from nnkit_nnie.layers import Layer
from nnkit_nnie.mapper.caffe_pair import caffe_pair
from nnkit_nnie.network import Network

_HEADS = frozenset({"Softmax", "Permute", "Slice"})
"""Types that mostly stand in the head of a network, behind all that is worth an NNIE."""

_WEIGHTED = frozenset({"Convolution", "DepthwiseConv", "Deconvolution", "InnerProduct", "MatMul"})


def caffe_refusals(network: Network) -> Mapping[str, Refusal]:
    """What Caffe cannot express, by layer; the first reason of each."""
    try:
        caffe_pair(network)
    except LayersRefused as error:
        first: dict[str, Refusal] = {}
        for each in error.refusals:
            first.setdefault(each.layer, each)
        return first
    return {}


def refused_by_caffe(network: Network, told: frozenset[str]) -> list[Violation]:
    """A violation for each layer that Caffe cannot express. told: layers that a limit refuses already."""
    refusals = caffe_refusals(network)
    violations = []
    for layer in network.layers:
        refusal = refusals.get(layer.name)
        if refusal is None or layer.name in told:
            continue
        movable = layer.placement == "npu"
        other = "" if movable else "take `_cpu` off and name the layer in the option `custom`"
        remedy = "; or ".join(filter(None, (refusal.remedy, other)))
        reason = f"Caffe cannot express it: {refusal.reason}"
        violations.append(Violation(layer.name, layer.kind, reason, remedy, movable=movable))
    return violations


def refused_by_c(graph: GraphView, layer: Layer) -> list[Violation]:
    """A violation for each node of a CPU layer that no C can be generated for."""
    from nnkit.c.float.catalogue import code_of, has_kernel

    violations: dict[str, Violation] = {}
    for node in layer.nodes:
        try:
            code_of(graph, node)
        except Refused as refused:
            known = has_kernel(node.op_type, node.domain)
            why = f"no C for this {node.op_type}: {refused.reason}" if known else f"no C for {node.op_type}"
            remedy = (
                "replace it by operators that there is C for (docs/cpu_segments.md), or cut the network before it"
            )
            reason = f"it runs on the CPU, and nnkit has {why}"
            violations.setdefault(reason, Violation(layer.name, layer.kind, reason, refused.remedy or remedy))
    return list(violations.values())


def refusing_error(violations: Sequence[Violation], layers: Sequence[Layer]) -> ModelError:
    """The error with all violations; what may be done about several is said once, below them."""
    count, movable = len(violations), sum(each.movable for each in violations)
    what, done = ("limit", "exceeded") if movable else ("rule", "broken")
    title = counted(what, count, "the NNIE", done)
    if not movable:
        return violations_error(
            violations,
            title,
            "change the network or its tags as said (docs/nnie_limits.md has all limits and rules)",
        )
    which = "these layers" if movable == count else "what exceeds a limit of a layer"
    heads = _heads(violations, layers)
    cut = (
        "; or, with less than the file gives, end the network before them, at the end of restructure: strip_var: "
        f"{{layers: [{', '.join(heads)}], then: cut}}"
    )
    return violations_error(
        violations,
        title,
        f"change the network as said, or let the CPU run {which}: tag them `cpu`, name them in the option `custom`, "
        "or set `outside_limits: custom` (docs/nnie_limits.md has all limits)" + (cut if heads else ""),
    )


def _heads(violations: Sequence[Violation], layers: Sequence[Layer]) -> list[str]:
    """Where a head with a refused Softmax, Permute or Slice can be cut off: names of layers, as YAML has them.

    The first refused layer on the way to each of these, and to whatever else is refused with no weights behind it
    (boxes beside scores). Not those that read the network's input: nothing would be left before them.
    """
    refused = {each.place for each in violations if each.movable}
    first: dict[str, frozenset[str]] = {}  # by value: the refused layers that come first on the way to it
    heads: dict[str, None] = {}
    beside: dict[str, None] = {}
    weighted = _before_weights(layers)
    for layer in layers:
        before = frozenset(name for value in layer.inputs for name in first.get(value, ()))
        if layer.name in refused and not before and any(value in first for value in layer.inputs):
            before = frozenset({layer.name})
            if weighted.isdisjoint(layer.outputs):
                beside[layer.name] = None
        if layer.name in refused and layer.kind in _HEADS:
            heads.update(dict.fromkeys(sorted(before)))
        first.update(dict.fromkeys((*layer.inner, *layer.outputs), before))
    return [yaml_name(name) for name in (heads | beside if heads else ())]


def _before_weights(layers: Sequence[Layer]) -> set[str]:
    """The values that a layer with weights reads, or that lead to one."""
    values: set[str] = set()
    for layer in reversed(layers):
        if layer.kind in _WEIGHTED or not values.isdisjoint((*layer.inner, *layer.outputs)):
            values.update(layer.inputs)
    return values
