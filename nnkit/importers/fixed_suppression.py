"""NonMaxSuppression at the end of a network: how many rows it gives is known at run time, so that they are fixed.

ONNX gives a row for each box that stays. As `ai.nnkit.FixedNonMaxSuppression` there are as many rows as there can be,
in float32, and those behind the last are -1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nnkit.custom_ops import DOMAIN, VERSION, FixedNonMaxSuppression
from nnkit.custom_ops.detection_output import NO_THRESHOLD
from nnkit.errors import ModelError

if TYPE_CHECKING:
    import onnx


def fix_suppression(proto: onnx.ModelProto, where: str) -> tuple[str, ...]:
    """Change every NonMaxSuppression whose result is an output that no layer reads; notes on them.

    Raises ModelError where its limits are no constants, or allow no box.
    """
    from onnx import TensorProto, helper, numpy_helper

    graph = proto.graph
    constants = {tensor.name: tensor for tensor in graph.initializer}
    read = {name for node in graph.node for name in node.input}
    outputs = {value.name: value for value in graph.output}
    notes = []
    for place, node in enumerate(graph.node):
        if node.op_type != "NonMaxSuppression" or node.domain or not {*node.output} & (outputs.keys() - read):
            continue
        names = ("max_output_boxes_per_class", "iou_threshold", "score_threshold")
        values: dict[str, float] = {"iou_threshold": 0.0, "score_threshold": NO_THRESHOLD}
        for name, given in zip(names, node.input[2:], strict=False):
            if given and given not in constants:
                raise ModelError(
                    f"layer '{node.name}': its {name} is no constant", where=where, remedy="export it as a constant"
                )
            if given:
                values[name] = float(np.asarray(numpy_helper.to_array(constants[given])).reshape(-1)[0])
        most = int(min(values.pop("max_output_boxes_per_class", 0), 1 << 30))
        centred = any(each.name == "center_point_box" and each.i for each in node.attribute)
        op = FixedNonMaxSuppression(most, center_point_box=centred, **values)
        graph.node[place].CopyFrom(op.node(node.input[:2], node.output[:1], node.name))
        outputs[node.output[0]].type.CopyFrom(helper.make_tensor_type_proto(TensorProto.FLOAT, None))
        notes.append(f"layer '{node.name}' (NonMaxSuppression) gives a fixed number of rows, -1 behind the last")
    if notes and all(each.domain != DOMAIN for each in proto.opset_import):
        proto.opset_import.append(helper.make_opsetid(DOMAIN, VERSION))
    return tuple(notes)
