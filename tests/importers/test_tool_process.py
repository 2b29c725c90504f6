"""The tools' process: limits hold, and only a failing simplification is survived."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from nnkit.errors import ModelError
from nnkit.external_tool import run_tool
from nnkit.importers import ImportOptions, ToolLimits, import_onnx
from nnkit.importers.tool_process import refusal
from nnkit.visible import with_lines


@pytest.fixture(autouse=True)
def cold_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process itself is what is tested here, as it starts for a user."""
    monkeypatch.setattr("nnkit.importers.tool_process.run_tool", run_tool)


@pytest.fixture
def foldable(make_model: Any, save: Any) -> Path:
    nodes = [
        helper.make_node("Exp", ["k"], ["e"], name="table"),
        helper.make_node("Mul", ["x", "e"], ["y"], name="m"),
    ]
    path: Path = save(make_model(nodes, {"k": np.ones((4, 1, 1), np.float32)}))
    return path


@pytest.fixture
def fake_onnxsim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Puts a module of the given source in the place of onnxsim, in processes that are started."""

    def install(source: str) -> None:
        folder = tmp_path / "fake"
        folder.mkdir()
        (folder / "onnxsim.py").write_text(source)
        monkeypatch.setenv("PYTHONPATH", str(folder))

    return install


@pytest.mark.parametrize(
    ("source", "note"),
    [
        ("import os\nos.abort()", "not simplified: the tools crashed on it"),
        ("def simplify(*a, **k):\n    raise RuntimeError('cannot fold')", "not simplified: onnxsim failed"),
        (
            "def simplify(model, **k):\n    model.graph.output[0].name = 'z'\n    return model, True",
            "changed the inputs",
        ),
        ("def simplify(*a, **k):\n    return b'x' * 2**40, True", "not simplified"),
        ("raise ImportError('not installed')", "not simplified: onnxsim failed (not installed)"),
    ],
)
def test_the_import_goes_on_without_onnxsim(foldable: Path, fake_onnxsim: Any, source: str, note: str) -> None:
    fake_onnxsim(source)
    result = import_onnx(foldable)
    assert any(note in line for line in result.notes)
    assert [node.op_type for node in result.model.proto().graph.node] == ["Mul"]  # folded by nnkit


_ONE_LAYER_A_CALL = """
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator


def simplify(model, **options):
    graph = model.graph
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    node = next(node for node in graph.node if set(node.input) <= set(constants))
    (result,) = ReferenceEvaluator(node).run(None, {name: constants[name] for name in node.input})
    graph.initializer.append(numpy_helper.from_array(result, node.output[0]))
    graph.node.remove(node)
    return model, True
"""


def test_what_one_call_of_onnxsim_leaves_is_folded_by_the_next(make_model: Any, save: Any, fake_onnxsim: Any) -> None:
    """As it leaves an Expand whose size it learns while it folds."""
    nodes = [
        helper.make_node("Exp", ["k"], ["e"], name="exp"),
        helper.make_node("Neg", ["e"], ["n"], name="neg"),
        helper.make_node("Mul", ["x", "n"], ["y"], name="m"),
    ]
    fake_onnxsim(_ONE_LAYER_A_CALL)
    result = import_onnx(save(make_model(nodes, {"k": np.ones((4, 1, 1), np.float32)})))
    assert "simplified by onnxsim: 2 layers folded into constants" in result.notes
    assert [node.op_type for node in result.model.proto().graph.node] == ["Mul"]


def test_what_is_refused_for_lack_of_simplification_says_so(make_model: Any, save: Any, fake_onnxsim: Any) -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["s"], name="sizes"),
        helper.make_node("Cast", ["s"], ["f"], name="float", to=1),
        helper.make_node("ReduceProd", ["f"], ["p"], name="product", keepdims=1),
        helper.make_node("Cast", ["p"], ["c"], name="whole", to=7),
        helper.make_node("Reshape", ["x", "c"], ["y"], name="r"),
    ]
    path = save(make_model(nodes, outputs={"y": None}))
    import_onnx(path)
    fake_onnxsim("def simplify(*a, **k):\n    raise RuntimeError('cannot fold')")
    with pytest.raises(
        ModelError, match=r"before run time; not simplified: onnxsim failed \(cannot fold\)"
    ) as caught:
        import_onnx(path)
    assert "model.simplify" in caught.value.remedy


def test_lines_of_a_refusal_stay_lines_across_the_process() -> None:
    error = ModelError(with_lines("2 layers:", ["a: no", "b\n: no"]))
    told = refusal({"reason": str(error.reason), "where": "", "remedy": ""}, ["not simplified: x\ny"])
    assert str(told).split("\n")[:2] == ["2 layers:", "  a: no"]
    assert len(str(told).split("\n")) == 3


def test_what_is_refused_as_simplifying_took_too_long_is_told_as_slow() -> None:
    refused = {"reason": "a shape is not known", "where": "net.onnx", "remedy": "export it anew"}
    slow = refusal(refused, ["converted", "not simplified: it took longer than 120 s"])
    assert slow.reason == "a shape is not known; not simplified: it took longer than 120 s"
    assert "NNKIT_TIME_FACTOR" in slow.remedy
    assert refusal(refused, ["converted"]).remedy == "export it anew"


def test_a_hanging_onnxsim_is_ended(foldable: Path, fake_onnxsim: Any) -> None:
    """However slow the machine: until the steps before it fit the limit, that is doubled."""
    fake_onnxsim("import time\ntime.sleep(100_000)")
    for seconds in (4, 8, 16, 32, 64, 128, 256):
        try:
            result = import_onnx(foldable, ImportOptions(limits=ToolLimits(seconds=seconds)))
            break
        except ModelError:
            continue
    assert f"not simplified: it took longer than {seconds} s" in result.notes


def test_an_onnxsim_that_changes_results_is_found(foldable: Path, fake_onnxsim: Any) -> None:
    fake_onnxsim(
        "def simplify(model, **k):\n"
        "    from onnx import numpy_helper\n"
        "    import numpy as np\n"
        "    del model.graph.node[0]\n"
        "    model.graph.initializer.append(numpy_helper.from_array(np.zeros((4, 1, 1), np.float32), 'e'))\n"
        "    return model, True\n"
    )
    with pytest.raises(ModelError, match="output 'y' changes"):
        import_onnx(foldable)


def test_a_time_limit_holds_and_what_is_slow_is_not_called_damaged(foldable: Path) -> None:
    with pytest.raises(ModelError, match=r"cannot be used: it took longer than 0 s") as caught:
        import_onnx(foldable, ImportOptions(limits=ToolLimits(seconds=0.05)))
    assert "longer: NNKIT_TIME_FACTOR" in caught.value.remedy
    assert "damaged" not in str(caught.value)


def test_a_memory_limit_holds(foldable: Path) -> None:
    with pytest.raises(ModelError, match="cannot be used"):
        import_onnx(foldable, ImportOptions(limits=ToolLimits(memory_bytes=64 * 2**20)))
