"""Normalised rows on the cv18xx that become an image: reshaped before they are rectified, or scaled by channel.

The normalisation lies in global memory. Behind it the compiler takes rectifier or scale into one group with the
layers that read the image, and not where a reshape stands in between.
"""

from __future__ import annotations

from dataclasses import replace

from nnkit_tpu.program import TpuActivation, TpuGraph, TpuLayerNorm, TpuOp, TpuReshape, TpuScale

_IMAGE_RANK = 4


def normalised_as_images(graph: TpuGraph) -> TpuGraph:
    """The graph with reshapes that make images of such values moved to the normalisation."""
    tensors, made = dict(graph.tensors), dict[str, list[TpuOp]]()
    for op in graph.ops:
        between = graph.producer(op.inputs[0])
        if between is None or not _makes_image(graph, between, op):
            continue
        image = f"{between.output}_image"
        tensors[image] = replace(tensors[op.output], name=image)
        del tensors[between.output]
        made[between.output] = []
        made[op.output] = [
            replace(op, inputs=between.inputs, output=image, range_of=between.inputs[0]),
            replace(between, inputs=(image,), output=op.output, range_of=op.range_of),
        ]
    ops = tuple(each for op in graph.ops for each in made.get(op.output, [op]))
    return replace(graph, tensors=tensors, ops=ops) if made else graph


def _makes_image(graph: TpuGraph, between: TpuOp, op: TpuOp) -> bool:
    """Whether the op is a reshape that alone reads a normalisation's values, rectified or scaled in between."""
    rows, image = graph.tensors[op.inputs[0]].shape, graph.tensors[op.output].shape
    rectifies = isinstance(between, TpuActivation) and between.function == "relu"
    return (
        isinstance(op, TpuReshape)
        and len(image) == _IMAGE_RANK
        and (rectifies or (isinstance(between, TpuScale) and rows[:2] == image[:2]))
        and isinstance(graph.producer(between.inputs[0]), TpuLayerNorm)
        and all(_read_once(graph, name) for name in (op.inputs[0], between.inputs[0]))
    )


def _read_once(graph: TpuGraph, name: str) -> bool:
    return len(graph.consumers(name)) == 1 and name not in graph.outputs
