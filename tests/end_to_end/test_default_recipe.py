"""The default recipe: what its report holds, how fast its code is, and that 16 bits decide as float does."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from nnkit.graph.onnx_runtime import FloatSession
from nnkit.program import Conv2d

from .conftest import REPOSITORY, report_of, run_command

RECIPE = REPOSITORY / "recipes" / "gap8_reid" / "recipe.yaml"


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("default")
    done = run_command("run", RECIPE, "--out", folder, cwd=folder, env={"NNKIT_CACHE": str(folder / "cache")})
    assert done.code == 0, done.err
    for stage in ("import", "restructure", "calibrate", "quantize", "plan", "emit", "verify rv32", "package"):
        assert stage in done.err, "progress is visible"
    return folder / "gap8_reid" / "gap8"


@pytest.fixture(scope="module")
def report(build: Path) -> dict[str, Any]:
    return report_of(build)


def test_artifact_equals_the_program_everywhere(report: dict[str, Any]) -> None:
    runs = {entry["how"]: entry for entry in report["verify"]["program_vs_artifact"]}
    assert set(runs) == {"host", "rv32"}
    for entry in runs.values():
        assert (entry["contract"], entry["mismatches"]) == ("exact", 0)
        assert entry["values"] >= 512
    assert runs["rv32"]["measured"]["l2_painted_bytes"] == report["memory"]["l2"]["peak_bytes"]


def test_kernels_take_at_most_3_2_instructions_per_mac(report: dict[str, Any]) -> None:
    """An exact count: every instruction of the call, copies and packing included."""
    rv32 = report["verify"]["program_vs_artifact"][1]
    assert report["macs"] == 80_140_992
    assert rv32["instructions"] / report["macs"] <= 3.2
    per_layer = [layer["instructions"] for layer in report["layers"]]
    assert all(count is not None for count in per_layer)
    assert 0.98 < sum(per_layer) / rv32["instructions"] < 1.02


def test_normalisation_and_batch_norms_are_folded(report: dict[str, Any]) -> None:
    fired = {entry["name"]: entry["fired"] for entry in report["rewrites"]}
    assert fired["fold_input_normalization"] == 1
    assert fired["fold_batch_norm"] == 25
    assert all(layer["proof"] in ("proven", "not_applicable") for layer in report["layers"])
    assert report["planner"]["weight_bytes"] <= 1.5 * 1024 * 1024


def test_weights_are_those_of_the_restructured_network(build: Path) -> None:
    """Integer weights times their step are the folded float weights, to half a step."""
    import numpy as np
    import onnx
    from onnx import numpy_helper

    from nnkit.builds import open_build

    graph = onnx.load(build / "restructured.onnx").graph
    constants = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
    nodes = {node.name: node for node in graph.node if node.op_type == "Conv"}
    for op in open_build(build).program.ops:
        if isinstance(op, Conv2d):
            step = 2.0**-op.weight_frac
            difference = op.weight * step - constants[nodes[op.name].input[1]]
            assert np.abs(difference).max() <= step / 2 * 1.0001


def verification_module() -> ModuleType:
    folder = RECIPE.parent
    sys.path.insert(0, str(folder))
    try:
        spec = importlib.util.spec_from_file_location("gap8_reid_verification", folder / "verification.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(folder))


def test_sixteen_bits_decide_as_float_does(build: Path) -> None:
    """A small share of the published measurement: new people, the same decisions but for pairs on the threshold."""
    module = verification_module()
    population = module.Population(people=24, threshold_people=16, pictures=5)
    describers = {
        "float": module.float_describer(RECIPE.with_name("reid.onnx")),
        "int16": module.build_describer(build),
    }
    rows = module.ablation(describers, population, conditions=module.CONDITIONS[:1])
    floats, fixed = (row.result for row in rows)
    assert floats.pairs == 2 * 24 * 10
    assert 0.85 < floats.accuracy <= 1.0
    assert abs(fixed.accuracy - floats.accuracy) <= 2 / floats.pairs
    assert rows[1].flipped <= 4


def test_float_reference_is_the_network_as_trained(build: Path) -> None:
    """`float.onnx` of the build gives what the recipe's own file gives in ONNX Runtime."""
    import numpy as np
    import onnx
    import onnxruntime
    from PIL import Image

    from nnkit.graph import InputSpec, LayerTags, Model, OutputSpec

    picture = sorted((RECIPE.parent / "held_out").glob("*.pgm"))[0]
    pixels = np.asarray(Image.open(picture), dtype=np.float32)[None, None]
    session = onnxruntime.InferenceSession(str(RECIPE.with_name("reid.onnx")), providers=["CPUExecutionProvider"])
    expected = session.run(None, {session.get_inputs()[0].name: pixels})[0]
    content = (build / "float.onnx").read_bytes()
    assert onnx.load_model_from_string(content).graph.input[0].name == "image"
    model = Model(
        content, LayerTags(), (InputSpec("image", (1, 1, 128, 128)),), (OutputSpec("descriptor", (1, 512)),), 21
    )
    found = FloatSession(model).run({"image": pixels})["descriptor"]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
