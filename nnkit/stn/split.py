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
from nnkit.rewrite.surgery import Surgery

if TYPE_CHECKING:
    import onnx


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
    image, matrix, warped = (str(value) for value in (node.input[0], node.input[1], node.output[0]))
    surgery = Surgery(model)
    if image not in surgery.input_names:
        raise ModelError(
            f"the warp reads '{image}', which layers before it compute from the input",
            where=name,
            remedy="move them (a normalisation, say) to the preprocessing of the input, or behind the warp",
        )
    if surgery.producer(matrix) is None:
        raise ModelError(
            f"the matrix '{matrix}' is no result of the network",
            where=name,
            remedy="a matrix that is given needs no STN: take the warp out of the network",
        )
    stn = Surgery(model)
    stn.forget_removed_tags()
    stn.set_outputs([matrix])
    return StnSplit(stn.finish(), _net(model, node, warped, name), warp, image, matrix, warped)


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


def _net(model: Model, node: onnx.NodeProto, warped: str, name: str) -> Model:
    from onnx import TensorProto, helper

    surgery = Surgery(model)
    surgery.forget_removed_tags()
    shape = surgery.shape(warped)
    independent = [output for output in surgery.output_names if warped not in _ancestors(surgery, output)]
    if independent:
        raise ModelError(
            f"output '{independent[0]}' does not depend on the warp",
            where=name,
            remedy="take it out with drop_output, and read it from the STN",
        )
    kept = [other for other in surgery.graph.node if warped not in other.output]
    del surgery.graph.node[:]
    surgery.graph.node.extend(kept)
    surgery.graph.input.insert(0, helper.make_tensor_value_info(warped, TensorProto.FLOAT, shape))
    behind = {value for output in surgery.output_names for value in _ancestors(surgery, output)}
    if node.input[1] in behind or _stn_values(model, node) & behind:
        raise ModelError(
            "layers behind the warp read what the STN computes",
            where=name,
            remedy="a split network hands over the warped image alone: retrain without this connection",
        )
    surgery.set_outputs(surgery.output_names)
    return surgery.finish()


def _ancestors(surgery: Surgery, output: str) -> set[str]:
    """All values that `output` depends on, itself included."""
    producers = {value: node for node in surgery.graph.node for value in node.output}
    pending, seen = [output], set[str]()
    while pending:
        value = pending.pop()
        if value not in seen:
            seen.add(value)
            pending += producers[value].input if value in producers else []
    return seen


def _stn_values(model: Model, node: onnx.NodeProto) -> set[str]:
    """The values that layers before the matrix compute."""
    surgery = Surgery(model)
    computed = {value for other in surgery.graph.node for value in other.output}
    return _ancestors(surgery, node.input[1]) & computed
