"""Which function makes the code of which operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from nnkit.c.float import (
    batch_norm,
    binary,
    concat,
    constant,
    conv,
    conv_transpose,
    depth_to_space,
    expand,
    gather,
    gelu,
    gemm,
    lp_normalization,
    lrn,
    matmul,
    normalization,
    pad,
    pool,
    recurrent,
    reduce,
    reshape,
    resize,
    slice,
    softmax,
    transpose,
    unary,
)
from nnkit.c.float.calls import Code
from nnkit.c.float.custom import custom
from nnkit.c.float.detection_output import detection_output
from nnkit.c.float.embedding import embedding
from nnkit.c.float.non_max_suppression import non_max_suppression
from nnkit.c.float.normalize import normalize
from nnkit.c.float.operands import check_float32
from nnkit.c.float.pass_through import pass_through
from nnkit.c.float.prior_box import prior_box
from nnkit.c.float.proposal import proposal
from nnkit.c.float.psroi_pooling import psroi_pooling
from nnkit.c.float.reorg import reorg
from nnkit.c.float.roi_pooling import roi_pooling
from nnkit.c.float.warp_perspective import warp_perspective
from nnkit.custom_ops import DOMAIN, op_of
from nnkit.errors import ModelError
from nnkit.generated import packaged_text
from nnkit.graph.refusal import Refused
from nnkit.graph.view import GraphView, Node

ONNX_OPS: Mapping[str, Callable[[GraphView, Node], Code]] = MappingProxyType(
    batch_norm.LOWERINGS
    | binary.LOWERINGS
    | concat.LOWERINGS
    | constant.LOWERINGS
    | conv.LOWERINGS
    | conv_transpose.LOWERINGS
    | depth_to_space.LOWERINGS
    | expand.LOWERINGS
    | gather.LOWERINGS
    | gelu.LOWERINGS
    | gemm.LOWERINGS
    | lp_normalization.LOWERINGS
    | lrn.LOWERINGS
    | matmul.LOWERINGS
    | normalization.LOWERINGS
    | pad.LOWERINGS
    | pool.LOWERINGS
    | recurrent.LOWERINGS
    | reduce.LOWERINGS
    | reshape.LOWERINGS
    | resize.LOWERINGS
    | slice.LOWERINGS
    | softmax.LOWERINGS
    | transpose.LOWERINGS
    | unary.LOWERINGS
)
"""By operator of ONNX."""

CUSTOM_OPS: Mapping[str, Callable[[GraphView, Node, Any], Code]] = MappingProxyType(
    {
        "Custom": custom,
        "DetectionOutput": detection_output,
        "Embedding": embedding,
        "FixedNonMaxSuppression": non_max_suppression,
        "Normalize": normalize,
        "PSROIPooling": psroi_pooling,
        "PassThrough": pass_through,
        "PriorBox": prior_box,
        "Proposal": proposal,
        "ROIPooling": roi_pooling,
        "Reorg": reorg,
        "WarpPerspective": warp_perspective,
    }
)
"""By operator of `ai.nnkit`; the function's third argument is the operator with its attributes."""


HEADERS = ("nnkit_math.h", "nnkit_segment.h", "nnkit_vector.h")
"""What the kernels include."""


def has_kernel(op_type: str, domain: str = "") -> bool:
    """Whether there is C for an operator, for some of its attributes at least."""
    return op_type in (CUSTOM_OPS if domain == DOMAIN else ONNX_OPS if not domain else ())


def code_of(graph: GraphView, node: Node) -> Code:
    """What a node becomes. Raises Refused where there is no C for it."""
    if not has_kernel(node.op_type, node.domain):
        raise Refused(f"operator {node.domain or 'ONNX'} {node.op_type} has no C code")
    for name in node.results:
        check_float32(graph, name)
    if node.domain != DOMAIN:
        return ONNX_OPS[node.op_type](graph, node)
    try:
        op = op_of(node.proto())
    except ModelError as error:
        raise Refused(error.reason, error.remedy) from error
    return CUSTOM_OPS[node.op_type](graph, node, op)


def kernel_source(file: str) -> str:
    """The text of a kernel, `nnkit_<kernel>.c`, or of the header that declares them all."""
    return packaged_text("nnkit", "c", "float", file)
