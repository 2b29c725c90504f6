"""Splitting a network at its warp: STN (image -> matrix), the warp on the CPU, NET (warped image -> result).

The warp is an `ai.nnkit` WarpPerspective node, whose attributes declare direction, interpolation and border; the
rewrite `warp_from_grid` makes one of ONNX's AffineGrid and GridSample.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nnkit.custom_ops import WarpPerspective, op_of
from nnkit.errors import ModelError
from nnkit.graph import Model
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import ancestors

if TYPE_CHECKING:
    import onnx
    import onnx_ir as ir


@dataclass(frozen=True, eq=False)
class StnSplit:
    """The three parts of a network with a spatial transformer.

    stn: its one output is the matrix. net: one of its inputs is the warped image. warp: what lies between them.
    image: the network input that is warped, [1, C, H, W].
    matrix: the output of `stn`, 9 values by rows, or 8 where the last one is 1.
    warped: the input of `net` that takes the warped image, [1, C, out_h, out_w].
    """

    stn: Model
    net: Model
    warp: WarpPerspective
    image: str
    matrix: str
    warped: str

    @property
    def warped_shape(self) -> tuple[int, ...]:
        """Shape of the warped image, [1, C, out_h, out_w]."""
        return next(spec.shape for spec in self.net.inputs if spec.name == self.warped)


def split_stn(model: Model) -> StnSplit:
    """Split `model` at its one warp.

    Inputs besides the image go to the part that reads them. Tags go with their layers.

    Raises:
        ModelError: there is no warp or more than one; the warp does not read a network input, or layers compute the
            image that it reads; a result of the network does not depend on the warp, or its matrix is needed again
            behind the warp.
    """
    node = _warp_node(model)
    name = str(node.name or node.output[0])
    warp = op_of(node)
    if not isinstance(warp, WarpPerspective):
        raise ModelError(f"{node.op_type} is not a warp", where=name, remedy="this is a bug: please report it")
    editor = Editor(model)
    image, matrix, warped = _around_warp(editor)
    if not image.is_graph_input():
        raise ModelError(
            f"the warp reads '{image.name}', which layers before it compute from the input",
            where=name,
            remedy="move them (a normalisation, say) to the preprocessing of the input, or behind the warp",
        )
    if matrix.producer() is None:
        raise ModelError(
            f"the matrix '{matrix.name}' is no result of the network",
            where=name,
            remedy="a matrix that is given needs no STN: take the warp out of the network",
        )
    net = _net(model, name)
    editor.set_outputs([matrix])
    stn = editor.finish_edit(tags_may_go=True)
    return StnSplit(stn, net, warp, str(image.name), str(matrix.name), str(warped.name))


def _warp_node(model: Model) -> onnx.NodeProto:
    warps: list[onnx.NodeProto] = [node for node in model.proto().graph.node if node.op_type == "WarpPerspective"]
    if len(warps) == 1:
        return warps[0]
    names = ", ".join(node.name or node.output[0] for node in warps)
    raise ModelError(
        f"the network has {len(warps)} warps ({names})" if warps else "the network has no warp to be split at",
        where=names.split(",")[0],
        remedy="split it at one warp by hand" if warps else "with AffineGrid and GridSample, add warp_from_grid",
    )


def _around_warp(editor: Editor) -> tuple[ir.Value, ir.Value, ir.Value]:
    """The image and the matrix that the one warp reads, and what it gives."""
    node = next(node for node in editor.nodes() if node.op_type == "WarpPerspective")
    image, matrix = node.inputs
    if image is None or matrix is None:
        raise ModelError("a warp needs an image and a matrix", where=editor.layer(node))
    return image, matrix, node.outputs[0]


def _net(model: Model, name: str) -> Model:
    editor = Editor(model)
    _, matrix, warped = _around_warp(editor)
    independent = [output for output in editor.graph.outputs if warped not in ancestors(output)]
    if independent:
        raise ModelError(
            f"output '{independent[0].name}' does not depend on the warp",
            where=name,
            remedy="take it out with drop_output, and read it from the STN",
        )
    editor.feed(warped)
    behind = {value for output in editor.graph.outputs for value in ancestors(output)}
    if any(value.producer() is not None for value in ancestors(matrix) & behind):
        raise ModelError(
            "layers behind the warp read what the STN computes",
            where=name,
            remedy="a split network hands over the warped image alone: retrain without this connection",
        )
    return editor.finish_edit(tags_may_go=True)
