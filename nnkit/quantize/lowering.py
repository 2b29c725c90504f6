"""Restructured ONNX -> float layers: each op the hardware will run, with what was marked to fuse into it.

Everything the quantiser cannot take is collected and reported in one ModelError, node by node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from nnkit.errors import ModelError
from nnkit.graph import Model
from nnkit.quantize import node_layers
from nnkit.quantize.graph_view import GraphView, NodeView
from nnkit.quantize.layers import FloatActivation, FloatLayer, FloatLayers, FloatPool
from nnkit.rewrite import RewriteLog


@dataclass(frozen=True)
class Refusal:
    """One node that cannot be deployed, and why."""

    node: str
    op: str
    reason: str


_REWRITES: Mapping[str, str] = MappingProxyType(
    {
        "BatchNormalization": "fold_batch_norm",
        "Gemm": "fc_to_conv",
        "MatMul": "fc_to_conv",
        "Sub": "fold_input_normalization",
        "Div": "fold_input_normalization",
        "Dropout": "remove_identity",
        "Identity": "remove_identity",
        "ReduceMean": "global_pool",
        "Min": "simplify_clip",
        "Max": "simplify_clip",
        "Sum": "sum_to_add",
    }
)
"""Ops that a rewrite usually takes away before layers are built."""


def lower(model: Model, log: RewriteLog | None = None) -> FloatLayers:
    """Turn a restructured model (the normal form of `docs/how_it_works.md`) into layers.

    log: of the restructuring; with it a refusal says why a rewrite left the node alone.
    Raises ModelError naming every unsupported node with its op and the reason.
    """
    view = GraphView(model)
    layers: list[FloatLayer] = []
    refusals: list[Refusal] = []
    for node in view.nodes:
        if node.fuse_into is not None:
            continue
        try:
            layers.append(_layer(view, node))
        except node_layers.Unsupported as problem:
            refusals.append(Refusal(node.name, node.op_type, str(problem) + _why_left(node, log)))
    if refusals:
        raise refusal_error(refusals)
    return FloatLayers(
        layers=tuple(layers),
        shapes={name: shape[1:] for name, shape in view.shapes.items()},
        inputs=tuple(spec.name for spec in model.inputs),
        outputs=tuple(spec.name for spec in model.outputs),
    )


def _why_left(node: NodeView, log: RewriteLog | None) -> str:
    """Why no rewrite took the node away, as far as the log knows; begins with a semicolon, or is empty."""
    if log is None:
        return ""
    for entry in log.entries:
        for declined in entry.declined:
            if node.name in declined.site.split(" + "):
                return f"; {entry.name} left it: {declined.reason}"
    rule = _REWRITES.get(node.op_type)
    if rule is not None and rule not in {entry.name for entry in log.entries}:
        return f"; the rewrite {rule} may take it away: add it to `restructure`"
    return ""


def refusal_error(refusals: Sequence[Refusal]) -> ModelError:
    """All refusals in one message, one line each."""
    lines = "".join(f"\n  {r.node} ({r.op}): {r.reason}" for r in refusals)
    count = len(refusals)
    return ModelError(
        f"{count} layer{'s' if count > 1 else ''} cannot be deployed:{lines}",
        remedy="replace these layers, or cut the network before them (docs/gap8.md lists what is supported)",
    )


def _layer(view: GraphView, node: NodeView) -> FloatLayer:
    absorbed = view.absorbed_by(node)
    builder = node_layers.BUILDERS.get(node.op_type)
    if builder is None:
        raise node_layers.Unsupported(f"op {node.op_type} is not supported")
    pads = [n for n in absorbed if n.op_type == "Pad"]
    activations = [n for n in absorbed if n.op_type in node_layers.ACTIVATIONS]
    pools = [n for n in absorbed if n.op_type in ("MaxPool", "AveragePool", "GlobalAveragePool")]
    stray = [n for n in absorbed if n not in (*pads, *activations, *pools)]
    if stray or len(pads) > 1 or len(activations) > 1 or len(pools) > 1:
        names = ", ".join(n.name for n in absorbed)
        raise node_layers.Unsupported(f"nodes marked to fuse do not form pad, layer, activation, pool: {names}")
    activation: FloatActivation | None = None
    pool: FloatPool | None = None
    output = node.output
    if activations:
        activation = node_layers.activation_of(view, activations[0])
        output = activations[0].output
    before_pool = output
    if pools:
        if node.op_type != "Conv":
            raise node_layers.Unsupported("only a Conv can take in a pool")
        pool = node_layers.pool_of(view, pools[0])
        output = pools[0].output
    tags = view.tags.of(output)
    for part in (node, *absorbed):
        tags = tags.merged(view.tags.of(part.output))
    return builder(
        view,
        node,
        node_layers.Chain(
            pad=pads[0] if pads else None,
            activation=activation,
            pool=pool,
            output=output,
            range_value=before_pool if pool is not None and pool.kind == "average" else output,
            tags=tags,
        ),
    )
