"""Files of few bytes that ask for much: refused at the importers' door with place, reason and a remedy that works."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from onnx import TensorProto, helper

from fuzz.tflite_files import TfliteFile
from nnkit.errors import ModelError
from nnkit.importers import ImportOptions, import_caffe, import_onnx
from nnkit.importers.bounds import check_graph, check_window_reads
from nnkit.importers.tflite_importer import import_tflite

K = 1 << 40


def pool(kernel: int, pad: int, *, op: str = "MaxPool", side: int = 8, **attributes: Any) -> Any:
    shape = [1, 1, side + 2 * pad - kernel + 1] * 2
    node = helper.make_node(op, ["x"], ["y"], name="p", kernel_shape=[kernel] * 2, pads=[pad] * 4, **attributes)
    return node, [1, 1, side, side], [1, 1, *shape[2:3] * 2]


@pytest.mark.parametrize(
    ("node", "said"),
    [
        (helper.make_node("MaxPool", ["x"], ["y"], name="p", kernel_shape=[K, K]), "'p' (MaxPool): its kernel_shape"),
        (
            helper.make_node("AveragePool", ["x"], ["y"], name="p", kernel_shape=[2000, 2000]),
            "[2000, 2000]: 4,000,000",
        ),
        (helper.make_node("LRN", ["x"], ["y"], name="p", size=K), "its size is"),
        (
            helper.make_node("MaxPool", ["x"], ["y"], name="p", kernel_shape=[1, 1], dilations=[1 << 62] * 2),
            "dilations",
        ),
        (helper.make_node("MaxPool", ["x"], ["y"], name="p", kernel_shape=[1, 1], strides=[1, 1 << 62]), "strides"),
        (helper.make_node("DepthToSpace", ["x"], ["y"], name="p", blocksize=-(1 << 62)), "blocksize"),
    ],
)
def test_windows_that_no_network_has(make_model: Any, save: Any, node: Any, said: str) -> None:
    path = save(make_model([node]))
    assert path.stat().st_size < 250
    began = time.process_time()
    with pytest.raises(ModelError) as caught:
        import_onnx(path)
    assert time.process_time() - began < 1
    assert said in caught.value.reason
    assert "at most 1,048,576 are allowed" in caught.value.reason
    assert caught.value.where == str(path)
    assert caught.value.remedy


def graph_of(node: Any, given: Sequence[int], made: Sequence[int]) -> Any:
    ends = [helper.make_tensor_value_info(*each) for each in (("x", TensorProto.FLOAT, given), ("y", 1, made))]
    return helper.make_graph([node], "net", ends[:1], ends[1:])


def test_windows_count_together_beside_the_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """1,000 x 1,000 around every one of 1,000 x 1,000 places: 10^12 reads, of 8 x 8 pixels."""
    large = graph_of(*pool(1000, 996))
    check_graph(large, "net.onnx")
    with pytest.raises(ModelError, match=re.escape("layer 'p' (MaxPool)")) as caught:
        check_window_reads(large, "net.onnx")
    assert f"{1001**2 * 1000**2:,} values; at most 10,000,000,000" in caught.value.reason
    factor = re.search(r"NNKIT_SIZE_FACTOR=(\d+)", caught.value.remedy)
    assert factor is not None
    monkeypatch.setenv("NNKIT_SIZE_FACTOR", factor[1])
    check_window_reads(large, "net.onnx")
    monkeypatch.setenv("NNKIT_SIZE_FACTOR", str(int(factor[1]) - 1))
    with pytest.raises(ModelError):
        check_window_reads(large, "net.onnx")


def test_the_import_looks_at_them_before_it_runs_anything(make_model: Any, save: Any) -> None:
    node, given, _ = pool(1000, 996, op="AveragePool")
    path = save(make_model([node], inputs={"x": given}))
    with pytest.raises(ModelError, match="of the network's pools"):
        import_onnx(path)


def test_what_networks_have_is_taken() -> None:
    for kernel, side in ((512, 512), (3, 2048), (13, 20)):  # global, at the first layer of a large picture, SPP
        graph = graph_of(*pool(kernel, 0, side=side))
        check_graph(graph, "")
        check_window_reads(graph, "")


def test_a_name_and_a_number_of_layers(make_model: Any, save: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    named = save(make_model([helper.make_node("Relu", ["x"], ["y"], name="a" * 70_000)]))
    with pytest.raises(ModelError, match=r"the name 'a{40}\.\.\.' has 70,000 letters; at most 65,536") as caught:
        import_onnx(named)
    assert "NNKIT_SIZE_FACTOR=2" in caught.value.remedy
    with monkeypatch.context() as more:
        more.setenv("NNKIT_SIZE_FACTOR", "2")
        imported = import_onnx(named, ImportOptions(simplify=False)).model.proto()
    assert [len(node.name) for node in imported.graph.node] == [70_000]
    nodes = [
        helper.make_node("Relu", [f"v{i}" if i else "x"], [f"v{i + 1}" if i < 20_000 else "y"]) for i in range(20_001)
    ]
    long = save(make_model(nodes))
    began = time.process_time()
    with pytest.raises(ModelError, match="the network has 20,001 layers; at most 20,000 are allowed"):
        import_onnx(long)
    assert time.process_time() - began < 5


def test_outputs_of_one_layer_count() -> None:
    outputs = [f"y{index}" for index in range(20_001)]
    graph = helper.make_graph([helper.make_node("Split", ["x"], outputs, axis=1)], "net", [], [])
    with pytest.raises(ModelError, match="has 20,001 layers"):
        check_graph(graph, "net.onnx")


def test_layers_in_bodies_count(make_model: Any) -> None:
    inner = helper.make_graph([helper.make_node("Identity", ["x"], ["i"])] * 20_000, "body", [], [])
    model = make_model([helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)])
    with pytest.raises(ModelError, match="40,001 layers"):
        check_graph(model.graph, "")


@pytest.fixture
def caffe(tmp_path: Path) -> Callable[[str], Any]:
    """Imports a network of these layers on 8 x 8 pixels."""

    def read(layers: str) -> Any:
        head = 'input: "x" input_shape { dim: 1 dim: 1 dim: 8 dim: 8 }\n'
        (tmp_path / "net.prototxt").write_text(head + layers)
        (tmp_path / "net.caffemodel").write_bytes(b"\n\x01n")
        return import_caffe(tmp_path / "net.prototxt", tmp_path / "net.caffemodel")

    return read


def test_caffe_has_the_same_bounds(caffe: Callable[[str], Any]) -> None:
    relu = 'layer { name: "%s" type: "ReLU" bottom: "x" top: "%s" }\n'
    pooled = (
        'layer { name: "p" type: "Pooling" bottom: "x" top: "y" pooling_param { pool: %s kernel_size: %d pad: %d } }'
    )
    with pytest.raises(ModelError, match="has 70,000 letters"):
        caffe(relu % ("r", "b" * 70_000))
    with pytest.raises(ModelError, match="has 20,001 layers"):
        caffe("".join(relu % (f"r{i}", f"y{i}") for i in range(20_001)))
    tops = "".join(f'top: "t{i}" ' for i in range(20_001))
    with pytest.raises(ModelError, match="has 20,001 layers"):
        caffe(f'layer {{ name: "s" type: "Slice" bottom: "x" {tops} }}')
    with pytest.raises(ModelError, match="at most 1,048,576"):
        caffe(pooled % ("AVE", 2000, 1996))
    with pytest.raises(ModelError, match="of the network's pools"):
        caffe(pooled % ("MAX", 1000, 996))


def test_tflite_has_the_same_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net = TfliteFile("f4")
    value = net.input(1, 8, 8, 1)
    for _ in range(3):
        value = net.op("RELU", [value], (1, 8, 8, 1))
    window = {"strideH": 1, "strideW": 1, "filterHeight": 2000, "filterWidth": 2000}
    value = net.op("MAX_POOL_2D", [value], (1, 8, 8, 1), "Pool2DOptions", padding=0, **window)
    path = net.write(tmp_path / "net.tflite", value)
    with pytest.raises(ModelError, match=re.escape("its kernel_shape is [2000, 2000]: 4,000,000; at most 1,048,576")):
        import_tflite(path)
    monkeypatch.setenv("NNKIT_SIZE_FACTOR", "0.0001")
    with pytest.raises(ModelError, match="has 4 layers; at most 2 are allowed"):
        import_tflite(path)
    net.tensors[-1].name = b"a" * 70_000
    monkeypatch.setenv("NNKIT_SIZE_FACTOR", "1")
    with pytest.raises(ModelError, match="has 70,000 letters"):
        import_tflite(net.write(path, value))


def test_operators_of_all_tflite_subgraphs_count(tmp_path: Path) -> None:
    """The vectors of a flatbuffer may name one table as often as they like: 24 KB stand for 9,000,000 operators."""
    import flatbuffers
    import tflite

    builder = flatbuffers.Builder()

    def repeated(start: Callable[..., int], table: int) -> int:
        start(builder, 3000)
        for _ in range(3000):
            builder.PrependUOffsetTRelative(table)
        return int(builder.EndVector())

    tflite.OperatorStart(builder)
    operators = repeated(tflite.SubGraphStartOperatorsVector, tflite.OperatorEnd(builder))
    tflite.SubGraphStart(builder)
    tflite.SubGraphAddOperators(builder, operators)
    subgraphs = repeated(tflite.ModelStartSubgraphsVector, tflite.SubGraphEnd(builder))
    tflite.ModelStart(builder)
    tflite.ModelAddSubgraphs(builder, subgraphs)
    builder.Finish(tflite.ModelEnd(builder), b"TFL3")
    (tmp_path / "net.tflite").write_bytes(builder.Output())
    with pytest.raises(ModelError, match="has 9,000,000 layers; at most 20,000"):
        import_tflite(tmp_path / "net.tflite")
