"""Where the tags `_hp`, `_cpu` and `_report` may stand, as constraints (`nnkit.constraints`)."""

from __future__ import annotations

from nnkit_nnie.layers import REPORT_SUFFIX, Layer
from nnkit_nnie.limits.context import Context, LayerLimit

_MIXED = 2


def hp_needs_compile_mode_2(layer: Layer, context: Context) -> str | None:
    """`_hp` may only stand on a layer with compile_mode 2
    fix: write compile_mode: 2, or take `_hp` off (the layer's name, or the recipe's tags.hp)"""
    return f"compile_mode {context.compile_mode}" if layer.hp and context.compile_mode != _MIXED else None


def hp_is_for_the_npu(layer: Layer, context: Context) -> str | None:
    """`_hp` sets the precision on the NNIE, but this layer runs on the CPU
    fix: take `_hp` or `_cpu` off"""
    if not layer.hp or layer.placement != "cpu":
        return None
    return "the tag `_cpu`" if layer.cpu else layer.why_custom or f"the type {layer.kind}, which the CPU runs"


def cpu_does_not_follow_data(layer: Layer, context: Context) -> str | None:
    """a `_cpu` layer cannot follow the data layer
    fix: take `_cpu` off and name the layer in the option `custom`: it is then written as Custom, or runs
    before the NNIE"""
    return next((f"input {name}" for name in layer.inputs if layer.cpu and name in context.graph.inputs), None)


def cpu_does_not_follow_custom(layer: Layer, context: Context) -> str | None:
    """a `_cpu` layer cannot follow a Custom layer
    fix: take `_cpu` off and name the layer in the option `custom`: it is then written as Custom as well"""
    return next((_told(source) for source in _sources(layer, context) if layer.cpu and source.custom), None)


def cpu_does_not_follow_proposal(layer: Layer, context: Context) -> str | None:
    """a `_cpu` layer cannot follow a Proposal layer
    fix: take `_cpu` off and name the layer in the option `custom`: it is then written as Custom"""
    sources = _sources(layer, context)
    return next((_told(source) for source in sources if layer.cpu and source.kind == "Proposal"), None)


def cpu_is_not_on_in_place(layer: Layer, context: Context) -> str | None:
    """`_cpu` cannot stand on an activation that runs in place
    fix: put `_cpu` on the layer before it (the activation follows), or give the activation a top of its own"""
    tagged = (activation for activation in layer.in_place if activation.cpu and not layer.cpu)
    return next((f"it on {activation.name} ({activation.kind})" for activation in tagged), None)


def upsample_does_not_follow_cpu(layer: Layer, context: Context) -> str | None:
    """an Upsample layer cannot follow a `_cpu` layer
    fix: run the Upsample on the CPU too, or take `_cpu` off the layer before"""
    if layer.kind != "Upsample" or layer.placement == "cpu":
        return None
    return next((_told(source) for source in _sources(layer, context) if source.cpu), None)


def report_is_not_on_custom(layer: Layer, context: Context) -> str | None:
    """`_report` cannot stand on the top of a Custom layer
    fix: take `_report` off: what a Custom layer computes is at hand on the CPU anyway"""
    tops = (name for name in (*layer.inner, *layer.outputs) if name.endswith(REPORT_SUFFIX))
    return next((f"it on {name}" for name in tops if layer.custom), None)


TAG_RULES: tuple[LayerLimit, ...] = (
    hp_needs_compile_mode_2,
    hp_is_for_the_npu,
    cpu_does_not_follow_data,
    cpu_does_not_follow_custom,
    cpu_does_not_follow_proposal,
    cpu_is_not_on_in_place,
    upsample_does_not_follow_cpu,
    report_is_not_on_custom,
)
"""Broken rules end the build."""

CPU_ON_DATA = "`_cpu` cannot stand on the data layer"


def tagged_inputs(context: Context) -> tuple[str, ...]:
    """Network inputs that carry `_cpu` in their tags or name: the first restriction."""
    tags = context.graph.tags
    return tuple(name for name in context.graph.inputs if tags.of(name).cpu or name.endswith("_cpu"))


def report_notes(layers: tuple[Layer, ...], context: Context) -> tuple[str, ...]:
    """What is to be said of `_report` where it changes nothing."""
    notes = [
        f"input {name}: `_report` on data is ignored" for name in context.graph.inputs if name.endswith(REPORT_SUFFIX)
    ]
    for layer in layers:
        for name in layer.outputs:
            if not name.endswith(REPORT_SUFFIX) or layer.custom:
                continue
            readers = context.consumers.get(name, ())
            if layer.placement == "cpu":
                what = "Proposal" if layer.kind == "Proposal" else "`_cpu`"
                notes.append(f"layer {layer.name}: `_report` on the top of a {what} layer is ignored")
            elif not readers:
                notes.append(f"layer {layer.name}: `_report` changes nothing: a top that nothing reads is reported")
            elif any(reader.placement == "cpu" for reader in readers):
                notes.append(f"layer {layer.name}: `_report` changes nothing: a top that the CPU reads is reported")
    return tuple(notes)


def reports(name: str, layer: Layer, context: Context) -> bool:
    """Whether a top is an output of its segment because of `_report`."""
    marked = name.endswith(REPORT_SUFFIX) or (len(layer.outputs) == 1 and layer.report)
    return marked and layer.placement == "npu" and bool(context.consumers.get(name))


def _told(layer: Layer) -> str:
    return f"it behind {layer.name} ({layer.kind})"


def _sources(layer: Layer, context: Context) -> list[Layer]:
    return [context.producers[name] for name in layer.inputs if name in context.producers]
