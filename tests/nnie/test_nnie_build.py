"""Whole builds by the command line: the artifact, its runners, a mapper that a script plays, refusals."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import jsonschema
import numpy as np
import onnx
import onnx.numpy_helper
import pytest
from nnie_networks import Net
from nnie_wk_files import made
from nnkit_command import run_nnkit

from nnkit.graph import Model
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.report.schema import report_json_schema
from nnkit_nnie.mapper.run import STAGES

Run = Callable[..., subprocess.CompletedProcess[str]]

RECIPE = """\
nnkit: 1
name: {name}
model:
  path: net.onnx
  inputs:
    image:
      preprocess: {{color: bgr, mean: [104.0, 117.0, 123.0], scale: 0.0078125}}
      calibration: {{images: images/*.png}}
restructure: []
{tags}
targets:
  nnie: {options}
"""


@pytest.fixture
def nnkit(tmp_path: Path) -> Run:
    """`nnkit` in the test's folder."""

    def call(*arguments: object, path: Path | None = None, before: str = "") -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "NNKIT_CACHE": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}
        if path is not None:
            environment["PATH"] = f"{path}{os.pathsep}{environment['PATH']}"
        if before:
            command = [sys.executable, "-c", f"{before}from nnkit.cli import main; main()", *map(str, arguments)]
            done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        else:
            done = run_nnkit(*arguments, cwd=tmp_path, env=environment)
        assert "Traceback" not in done.stderr, done.stderr
        return done

    return call


def face_network() -> Model:
    """A descriptor with a detour over the CPU, names that are too long, and a reported top."""
    net = Net(11)
    x = net.node("Relu", [net.conv(net.input("image", 3, 32, 32), (3, 8), "stem", strides=[2, 2])], "stem_relu")
    x = net.conv(x, (8, 8), "a_layer_whose_name_is_far_longer_than_the_mapper_takes")
    x = net.clip(x, "clip")
    x = net.conv(x, (8, 16), "mid_report", strides=[2, 2])
    x = net.node("GlobalAveragePool", [x], "gap")
    return net.model(net.fc(net.node("Flatten", [x], "flat"), (16, 6), "fc_pca"))


def write(folder: Path, model: Model, options: str, tags: str = "", name: str = "face") -> None:
    onnx.save(model.proto(), folder / "net.onnx")
    (folder / "images").mkdir(exist_ok=True)
    random = np.random.default_rng(0)
    for index in range(3):
        cv2.imwrite(str(folder / "images" / f"{index}.png"), random.integers(0, 256, (32, 32, 3), np.uint8))
    (folder / "recipe.yaml").write_text(RECIPE.format(name=name, options=options, tags=tags))


def report_of(folder: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return data


OPTIONS = "{chip: hi3516cv500, compile_mode: 2}"
TAGS = "tags: {hp: [fc_pca]}"


def test_a_build_and_what_it_leaves(tmp_path: Path, nnkit: Run):
    write(tmp_path, face_network(), OPTIONS, TAGS)
    done = nnkit("run", "recipe.yaml", "--out", "out")
    assert done.returncode == 0, done.stderr
    build = tmp_path / "out" / "face" / "nnie"
    artifact = build / "artifact"
    jsonschema.validate(report_of(build), report_json_schema())
    verdicts = {entry["how"]: entry for entry in report_of(build)["verify"]["program_vs_artifact"]}
    assert verdicts["caffe"]["mismatches"] == 0
    assert verdicts["caffe"]["values"] > 1000
    assert verdicts["cpu_c"]["mismatches"] == 0
    assert verdicts["cpu_c"]["values"] >= 8 * 16 * 16  # the C of the clip
    assert verdicts["mapper"]["contract"] == "not_run"
    assert "never compiled" in verdicts["mapper"]["reason"]

    described = json.loads((artifact / "segments.json").read_text())
    assert [segment["runs_on"] for segment in described["segments"]] == ["nnie", "cpu", "nnie"]
    written = [name for s in described["segments"] for layer in s["layers"] for name in layer["written_as"]]
    assert all(len(name.encode()) <= 31 for name in written)
    assert "fc_pca_hp" in written
    assert [tensor["name"] for tensor in described["segments"][2]["outputs"]] == ["mid_report", "fc_pca"]

    for case in ("random", "real"):
        stored = np.fromfile(artifact / "testcase" / case / "in_image.bin", np.uint8)
        assert stored.size == 3 * 32 * 32
        assert np.fromfile(artifact / "testcase" / case / "out_fc_pca.bin", "<i4").size == 6
    images = (artifact / "images_image.txt").read_text().split()
    first = cv2.imread(str(artifact / images[0]))
    assert any(np.array_equal(first, cv2.imread(str(p))) for p in (tmp_path / "images").iterdir())
    assert (artifact / "mean_image.txt").read_text() == "104\n117\n123\n"
    assert os.access(artifact / "compile.sh", os.X_OK)
    listed = re.findall(r"^\| `([\w.]+/?)`", (artifact / "README.md").read_text(), re.MULTILINE)
    assert [name for name in listed if not (artifact / name).exists()] == []
    assert subprocess.run(["sh", "-n", artifact / "compile.sh"], check=False).returncode == 0

    before = {p.relative_to(artifact): p.read_bytes() for p in artifact.rglob("*") if p.is_file()}
    assert nnkit("run", "recipe.yaml", "--out", "out", "--no-cache").returncode == 0
    after = {p.relative_to(artifact): p.read_bytes() for p in artifact.rglob("*") if p.is_file()}
    assert after == before  # the same recipe gives the same bytes


def test_opencv_reads_the_emitted_pair(tmp_path: Path, nnkit: Run):
    """Without a Custom layer, OpenCV computes the emitted network as ONNX Runtime computes the original."""
    net = Net(4)
    x = net.node("Relu", [net.conv(net.input("image", 3, 32, 32), (3, 8), "stem", strides=[2, 2])], "stem_relu")
    x = net.node("MaxPool", [x], "pool", kernel_shape=[2, 2], strides=[2, 2])
    x = net.fc(net.node("Flatten", [x], "flat"), (512, 6), "fc")
    model = net.model(net.node("Softmax", [x], "prob", axis=1))
    write(tmp_path, model, "{chip: hi3559av100}")
    assert nnkit("run", "recipe.yaml", "--out", "out").returncode == 0
    artifact = tmp_path / "out" / "face" / "nnie" / "artifact"
    caffe = cv2.dnn.readNetFromCaffe(str(artifact / "face.prototxt"), str(artifact / "face.caffemodel"))
    sample = np.random.default_rng(1).normal(size=(1, 3, 32, 32)).astype(np.float32)
    caffe.setInput(sample)
    np.testing.assert_allclose(caffe.forward(), FloatSession(model).run({"image": sample})["prob"], rtol=1e-4)


def test_a_changed_weight_in_the_artifact_is_seen(tmp_path: Path, nnkit: Run):
    from nnkit.builds import open_build
    from nnkit.program.inputs import stress_inputs
    from nnkit.verify.artifact import compare_artifact
    from nnkit_nnie.runners import CaffeRunner

    write(tmp_path, face_network(), "{chip: hi3516cv500, inputs: {image: {image_type: vector}}}")
    assert nnkit("run", "recipe.yaml", "--out", "out").returncode == 0
    build = open_build(tmp_path / "out" / "face" / "nnie")
    inputs = [{k: v // 4096 for k, v in each.items()} for each in stress_inputs(build.program, 1)]
    artifact = build.folder / "artifact"
    assert compare_artifact(CaffeRunner(), artifact, build.program, inputs, traced=1).mismatches == 0
    model = artifact / "face.caffemodel"
    data = bytearray(model.read_bytes())
    at = data.index(np.asarray(_first_weight(artifact), "<f4").tobytes())
    data[at : at + 4] = np.asarray(_first_weight(artifact) * 1.5, "<f4").tobytes()
    model.write_bytes(data)
    verdict = compare_artifact(CaffeRunner(), artifact, build.program, inputs, traced=1)
    assert verdict.mismatches > 0
    assert "layer 'stem'" in verdict.first_difference


def _first_weight(artifact: Path) -> float:
    """Of the first convolution, as written."""
    from nnkit.importers.caffe_importer import import_caffe

    model = import_caffe(artifact / "face.prototxt", artifact / "face.caffemodel").model
    stem = next(node for node in model.proto().graph.node if node.name == "stem")
    weights = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.proto().graph.initializer}
    return float(np.ravel(weights[stem.input[1]])[0])


def mapper(folder: Path, body: str) -> Path:
    tools = folder / "tools"
    tools.mkdir(exist_ok=True)
    program = tools / "nnie_mapper_12"
    program.write_text(f"#!{sys.executable}\nimport sys\ncfg = open(sys.argv[1]).read()\n{body}")
    program.chmod(0o755)
    (tools / "sound.wk").write_bytes(made(2))
    return tools


WRITES = "print('begin net parsing')\nopen('inst.wk', 'wb').write(open({wk!r}, 'rb').read())\n"


IS_NO_NETWORK = "the compiled network is damaged: its node table is cut off"


def test_a_mapper_on_path_is_run_and_its_dumps_are_compared(tmp_path: Path, nnkit: Run):
    write(tmp_path, face_network(), OPTIONS, TAGS)
    tools = mapper(tmp_path, "")
    mapper(tmp_path, WRITES.format(wk=str(tools / "sound.wk")))
    done = nnkit("run", "recipe.yaml", "--out", "out", path=tools)
    assert done.returncode == 0, done.stderr
    build = tmp_path / "out" / "face" / "nnie"
    details = report_of(build)["details"]
    assert details["mapper"]["wk_segments"] == 2
    assert (build / "artifact" / "mapper.log").is_file()
    assert details["compiled_numbers"] == {"inst.wk": {"not_compared": IS_NO_NETWORK}}
    assert f"inst.wk      not compared with the simulation: {IS_NO_NETWORK}" in done.stderr + done.stdout

    from nnkit.builds import open_build
    from nnkit_nnie.gfpq.ops import STORED
    from nnkit_nnie.mapper.compare_dumps import our_values

    dumps = tmp_path / "mapper_quant"
    dumps.mkdir()
    opened = open_build(build)
    ours = our_values(build / "artifact", opened.program)
    for (layer, sort, index), values in ours.items():
        if sort == "output" and layer in ("stem", "fc_pca_hp"):
            shape = "_".join(str(side) for side in (*values.shape, 1, 1)[:3])
            lines = "".join(f"{int(v) & 0xFFFFFFFF:08X}\n" for v in STORED.quantize(values).ravel())
            (dumps / f"{layer}_output{index}_{shape}_quant.linear.hex").write_text(lines)
    done = nnkit("compare", build, "--mapper-quant", dumps, "--json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert [row["name"] for row in rows] == ["stem output", "fc_pca_hp output"]
    assert all(row["max_abs"] == 0.0 for row in rows)
    assert nnkit("compare", build, "--mapper-quant", tmp_path / "nothing").returncode == 2
    assert nnkit("compare", build).returncode == 2


TALKS = "import nnkit.report.progress as progress; progress._SAY_SECONDS = 0; "  # every change, not one in a while


def test_what_the_mapper_is_about_is_told_while_it_runs(tmp_path: Path, nnkit: Run):
    net = Net(2)
    write(tmp_path, net.model(net.conv(net.input("image", 3, 32, 32), (3, 4), "only")), OPTIONS)
    stages = "".join(f"print('begin {stage} ....', flush=True)\n" for stage in STAGES)
    tools = mapper(tmp_path, stages + WRITES.format(wk=str(tmp_path / "tools" / "sound.wk")))
    (tools / "sound.wk").write_bytes(made(1))
    done = nnkit("run", "recipe.yaml", "--out", "out", path=tools, before=TALKS)
    assert done.returncode == 0, done.stderr
    told = [line.split(maxsplit=1)[1] for line in done.stderr.splitlines() if "nnie_mapper_12" in line]
    assert told[1 : 1 + len(STAGES)] == [f"nnie_mapper_12, {stage}" for stage in STAGES]
    (cpu,) = [line for line in done.stderr.splitlines() if "verify cpu_c" in line]
    assert cpu.endswith("not run: nothing of this network runs there")


def test_a_mapper_that_fails_ends_the_run(tmp_path: Path, nnkit: Run):
    write(tmp_path, face_network(), OPTIONS, TAGS)
    tools = mapper(tmp_path, "print('[ERROR] layer stem: kernel is not supported')\nsys.exit(1)\n")
    done = nnkit("run", "recipe.yaml", "--out", "out", path=tools)
    assert done.returncode == 5
    assert "mapper, layer stem" in done.stderr
    assert not (tmp_path / "out" / "face" / "nnie").exists()


@pytest.mark.parametrize(
    ("options", "tags", "code", "message"),
    [
        ("{chip: hi3516cv500}", TAGS, 3, "`_hp` may only stand on a layer with compile_mode 2"),
        ("{chip: hi3516cv500, tags: {hp: [fc_pca]}}", "", 2, "tags.hp has no effect with compile_mode: 0"),
        ("{chip: hi3516cv500}", "tags: {cpu: [stem]}", 3, "a `_cpu` layer cannot follow the data layer"),
        ("{chip: hi3516cv500, compile_mode: 3}", "", 2, "compile_mode"),
        ("{chip: hi3516}", "", 2, "hi3516cv500"),
        ("{chip: hi3516cv500, max_roi_frame_cnt: 5001}", "", 2, "at most 5,000"),
    ],
)
def test_refusals(options: str, tags: str, code: int, message: str, tmp_path: Path, nnkit: Run):
    write(tmp_path, face_network(), options, tags)
    done = nnkit("run", "recipe.yaml", "--out", "out")
    assert done.returncode == code, done.stderr
    assert message in " ".join(done.stderr.split())
    assert not (tmp_path / "out" / "face" / "nnie").exists()


def test_targets_show(nnkit: Run):
    from nnkit.target import load_target

    done = nnkit("targets", "show", "nnie")
    assert done.returncode == 0, done.stderr
    assert all(limit in done.stdout for limit in load_target("nnie").limits())
    assert re.search(r"^  chip +required", done.stdout, re.MULTILINE)
    shown = json.loads(nnkit("targets", "show", "nnie", "--json").stdout)
    assert shown["options"]["chip"]["required"]
    assert shown["runners"] == ["caffe", "cpu_c", "mapper"]


def test_precision_is_chosen_by_a_gate(tmp_path: Path, nnkit: Run):
    """The projection alone in 16 bits meets what 8 bits miss; the emitted name has the tag."""
    write(tmp_path, face_network(), OPTIONS, "tags: {hp: auto}\nverify: {gates: {sqnr_db: 32}}")
    done = nnkit("run", "recipe.yaml", "--out", "out")
    assert done.returncode == 0, done.stderr
    report = report_of(tmp_path / "out" / "face" / "nnie")
    assert [row["name"] for row in report["mixed_precision"]["chosen"]] == ["fc_pca"]
    table = {row["choice"]: row for row in report["details"]["precision"]}
    assert table["no_hp"]["sqnr_db"] < 32 < table["lastfc_hp"]["sqnr_db"]
    assert "fc_pca_hp" in (tmp_path / "out" / "face" / "nnie" / "artifact" / "face.prototxt").read_text()
