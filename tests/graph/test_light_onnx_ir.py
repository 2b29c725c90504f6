"""onnx-ir is imported without sympy, and what needs sympy still works."""

from __future__ import annotations

import subprocess
import sys

_EDIT = """
import sys
import onnx
from onnx import TensorProto, helper
from nnkit.graph import InputSpec, LayerTags, Model, OutputSpec

value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in "xy"]
graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", value[:1], value[1:])
proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
model = Model(
    proto.SerializeToString(), LayerTags({}), (InputSpec("x", (1, 4)),), (OutputSpec("y", (1, 4)),), 20
)
edited = model.ir()
edited.graph[0].op_type = "Sigmoid"
import onnx_ir
onnx.checker.check_model(onnx_ir.serde.serialize_model(edited), full_check=True)
print("sympy.core" in sys.modules, len(sys.meta_path))
print(onnx_ir.SymbolicDim("n") + 1, "sympy.core" in sys.modules)
"""


def test_a_model_is_edited_without_sympy_and_symbols_still_add() -> None:
    finders = len(sys.meta_path)
    command = [sys.executable, "-c", _EDIT]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert lines[0].split()[0] == "False"
    assert int(lines[0].split()[1]) <= finders
    assert lines[1].split()[-1] == "True"
    assert "n + 1" in lines[1]
