"""What a network's values take in memory, and the limit on it."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from nnkit.errors import ModelError
from nnkit.importers import import_onnx
from nnkit.importers.value_memory import check_values_fit, most_held

_MIB = 2**20


def _network(width: int) -> onnx.ModelProto:
    """Two branches of `width` MiB: the left one is read again at the end. No layer may write over its input."""
    nodes = [
        helper.make_node("Tile", ["x", "times"], ["wide"], name="tile"),
        helper.make_node("MaxPool", ["wide"], ["left"], name="left", kernel_shape=[1]),
        helper.make_node("MaxPool", ["wide"], ["right"], name="right", kernel_shape=[1]),
        helper.make_node("MaxPool", ["right"], ["back"], name="back", kernel_shape=[1]),
        helper.make_node("MaxPool", ["back"], ["last"], name="last", kernel_shape=[1]),
        helper.make_node("Add", ["left", "last"], ["sum"], name="sum"),
        helper.make_node("ReduceMax", ["sum"], ["most"], name="most", axes=[1, 2]),
        helper.make_node("Reshape", ["most", "one"], ["y"], name="out"),
    ]
    times = numpy_helper.from_array(np.array([1, width, 1]), "times")
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", 1, [1, 1, _MIB // 4])],
        [helper.make_tensor_value_info("y", 1, [1, 1, 1])],
        [times, numpy_helper.from_array(np.array([1, 1, 1]), "one")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_values_count_from_their_layer_to_the_last_that_reads_them() -> None:
    graph = onnx.shape_inference.infer_shapes(_network(8), data_prop=True).graph
    most = most_held(graph)
    # 'left' and 'right' with what they read: three of 8 MiB, and the input.
    assert most.node is not None
    assert (most.node.name, most.bytes) == ("right", 25 * _MIB)


_RUN = """
import sys
import numpy as np, onnxruntime
options = onnxruntime.SessionOptions()
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
options.enable_cpu_mem_arena = options.enable_mem_pattern = False
session = onnxruntime.InferenceSession(sys.stdin.buffer.read(), options, providers=["CPUExecutionProvider"])
def of_status(key):
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith(key))
before = of_status("VmRSS")
session.run(None, {"x": np.ones((1, 1, 1 << 18), np.float32)})
print(of_status("VmHWM") - before)
"""


def test_it_is_what_a_run_takes() -> None:
    """As a process that does nothing else grows while ONNX Runtime runs the network."""
    model = onnx.shape_inference.infer_shapes(_network(48), data_prop=True)
    run = subprocess.run(
        [sys.executable, "-c", _RUN], input=model.SerializeToString(), capture_output=True, check=True
    )
    assert int(run.stdout) == pytest.approx(most_held(model.graph).bytes, rel=0.05)


def test_what_takes_more_is_refused_and_its_remedy_works(save: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(_network(4))
    monkeypatch.setenv("NNKIT_VALUES_GIB", "0.01")
    with pytest.raises(ModelError, match=r"'right' \(MaxPool\): .* take 13,631,488 bytes; 10,737,418 are") as caught:
        import_onnx(path)
    assert str(path) in caught.value.where
    asked = re.search(r"NNKIT_VALUES_GIB=(\d+)$", caught.value.remedy)
    assert asked
    monkeypatch.setenv("NNKIT_VALUES_GIB", asked[1])
    assert import_onnx(path).model.outputs[0].shape == (1, 1, 1)


@pytest.mark.parametrize("sizes", [[1, 1 << 40], [1, 1 << 29, 16]])
def test_no_machine_has_room_for_an_input(save: Any, make_model: Any, sizes: list[int]) -> None:
    model = make_model([helper.make_node("Neg", ["x"], ["y"])], inputs={"x": sizes})
    with pytest.raises(ModelError, match=r"input 'x' of .* takes [\d,]+ bytes; 2,147,483,648 are allowed") as caught:
        import_onnx(save(model))
    assert "export it for smaller inputs" in caught.value.remedy


def test_a_value_of_two_gib_is_refused_before_it_is_computed(save: Any, make_model: Any) -> None:
    nodes = [
        helper.make_node("Resize", ["x", "", "by"], ["wide"], name="wide"),
        helper.make_node("GlobalMaxPool", ["wide"], ["y"], name="pool"),
    ]
    by = {"by": np.float32([1, 1, 2048, 1024])}
    with pytest.raises(ModelError, match=r"layer 'pool' \(GlobalMaxPool\): .* take 2,147,484,688 bytes") as caught:
        import_onnx(save(make_model(nodes, by)))
    assert "smaller inputs" in caught.value.remedy


def test_a_unet_of_1024_rows_fits() -> None:
    """Its widest stage: skip, upsampled, both together (64, 64 and 128 channels)."""
    wide = [1, 64, 1024, 1024]
    shapes = {"x": [1, 3, 1024, 1024], "skip": wide, "up": wide, "both": [1, 128, 1024, 1024], "y": wide}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["skip"]),
        helper.make_node("Conv", ["x", "w"], ["up"]),
        helper.make_node("Concat", ["skip", "up"], ["both"], axis=1),
        helper.make_node("Conv", ["both", "v"], ["y"]),
    ]
    infos = {name: helper.make_tensor_value_info(name, 1, shape) for name, shape in shapes.items()}
    graph = helper.make_graph(
        nodes, "unet", [infos["x"]], [infos["y"]], value_info=[infos[n] for n in ("skip", "up", "both")]
    )
    check_values_fit(graph, "unet.onnx")
    assert most_held(graph).bytes == (3 + 256) * 4 * _MIB
