"""Restructured ONNX -> float program: each op the hardware will run, with what was marked to fuse into it.

Everything the quantisers cannot take is collected and reported in one ModelError, node by node.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType

from nnkit.graph import Model
from nnkit.graph.read.embedding import only_numbers_rows
from nnkit.graph.refusal import Refusal, Refused, refusal_error
from nnkit.graph.view import GraphView, Node
from nnkit.quantize.float_builders import (
    ACTIVATIONS,
    ANY_BATCH,
    BUILDERS,
    TAKES_ACTIVATION,
    Chain,
    activation_of,
    pool_of,
    several_images,
)
from nnkit.quantize.float_fallback import kept_in_float
from nnkit.quantize.float_program import FloatOp, FloatProgram
from nnkit.rewrite import RewriteLog

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
"""Ops that a rewrite usually takes away before the float program is built."""
_NOT_FOLDED = "it computes from constants alone, which the import folds where `model.simplify` is on"
_POOLS = ("MaxPool", "AveragePool", "GlobalAveragePool")


def lower(
    model: Model,
    log: RewriteLog | None = None,
    documentation: str = "",
    *,
    keep_float: bool = False,
    without: Collection[str] = (),
) -> FloatProgram:
    """Turn a restructured model (the normal form of `docs/how_it_works.md`) into a float program.

    log: of the restructuring; with it a refusal says why a rewrite left the node alone. documentation: where users
        of the target read what is supported. keep_float: an operator that the quantisers cannot take stays in float
        (`FloatOnnx`), where it can stand between integers. without: operators that the quantiser at hand cannot take,
        though others can.
    Raises ModelError naming every unsupported node with its op and the reason.
    """
    view = GraphView.of(model)
    ops: list[FloatOp] = []
    refusals: list[Refusal] = []
    for node in view.nodes:
        if node.fuse_into is not None:
            continue
        if all(name in view.constants for name in node.inputs if name):
            refusals.append(Refusal(node.name, node.op_type, _NOT_FOLDED))
            continue
        try:
            if node.op_type in without:
                raise Refused(f"op {node.op_type} is not supported")
            ops.extend(_ops(view, node))
        except Refused as refused:
            if keep_float:
                try:
                    ops.append(kept_in_float(view, node))
                    continue
                except Refused:  # the reason that counts is the first one
                    pass
            reason = refused.reason + _why_left(node, log)
            refusals.append(Refusal(node.name, node.op_type, reason, refused.remedy))
    if refusals:
        more = f" ({documentation} lists what is supported)" if documentation else ""
        remedy = f"replace these layers, or cut the network before them{more}"
        raise refusal_error(refusals, "cannot be deployed", remedy)
    return FloatProgram(
        ops=tuple(ops),
        shapes={name: _inner(shape) for name, shape in view.shapes.items() if name not in view.constants},
        inputs=view.inputs,
        outputs=view.outputs,
    )


def _inner(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Without the batch of 1. Other first axes count: what some network put there is no batch of images."""
    return shape[1:] if shape[:1] == (1,) else shape


def _why_left(node: Node, log: RewriteLog | None) -> str:
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


def _ops(view: GraphView, node: Node) -> tuple[FloatOp, ...]:
    builder = BUILDERS.get(node.op_type) if not node.domain else None
    if node.is_op("Clip", "Cast") and only_numbers_rows(view, node):
        return ()
    if builder is None:
        raise Refused(f"op {node.op_type} is not supported")
    built = builder(view, node, _chain(view, node))
    values = [name for name in (*node.inputs, *node.results) if name and name not in view.constants]
    odd = next((name for name in values if view.shape(name)[:1] != (1,)), None)
    if node.op_type not in ANY_BATCH and odd is not None:
        raise several_images(odd, view.shape(odd))
    return built if isinstance(built, tuple) else (built,)


def _chain(view: GraphView, node: Node) -> Chain:
    """What was marked to run as part of the node. Raises Refused where that makes no op."""
    absorbed = view.absorbed_by(node)
    pads = [n for n in absorbed if n.op_type == "Pad"]
    activations = [n for n in absorbed if n.op_type in ACTIVATIONS]
    pools = [n for n in absorbed if n.op_type in _POOLS]
    if len(absorbed) > len(pads) + len(activations) + len(pools) or max(map(len, (pads, activations, pools))) > 1:
        names = ", ".join(n.name for n in absorbed)
        raise Refused(f"nodes marked to fuse do not form pad, layer, activation, pool: {names}")
    if pads and node.op_type != "Conv":
        raise Refused("only a Conv can take in a pad")
    if activations and node.op_type not in TAKES_ACTIVATION:
        raise Refused(f"an activation was marked to fuse; only {', '.join(TAKES_ACTIVATION)} can take one in")
    if pools and node.op_type != "Conv":
        raise Refused("only a Conv can take in a pool")
    pool = pool_of(view, pools[0]) if pools else None
    before_pool = activations[0].output if activations else node.output
    output = pools[0].output if pools else before_pool
    tags = view.tags.of(output)
    for part in (node, *absorbed):
        tags = tags.merged(view.tags.of(part.output))
    return Chain(
        pad=pads[0] if pads else None,
        activation=activation_of(view, activations[0]) if activations else None,
        pool=pool,
        output=output,
        range_value=before_pool if pool is not None and pool.kind == "average" else output,
        tags=tags,
    )
