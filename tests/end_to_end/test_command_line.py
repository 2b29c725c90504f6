"""What users meet every day: exit codes, messages with place and remedy, and the last good build that survives."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
import small_project

from .conftest import Command, fingerprint, report_of, run_command
from .networks import Net

RECIPE = small_project.RECIPE.replace("gap8: {}", "gap8: {memory: {l2: 512KiB}}")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a small network, images and a recipe."""
    small_project.write_project(tmp_path, RECIPE)
    return tmp_path


@pytest.fixture(scope="module")
def build_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose recipe was run, for tests that begin with a good build."""
    folder = tmp_path_factory.mktemp("built")
    small_project.write_project(folder, RECIPE)
    cache = tmp_path_factory.getbasetemp() / "cache"
    done = run_command("run", "recipe.yaml", "--no-qemu", cwd=folder, env={"NNKIT_CACHE": str(cache)})
    assert done.code == 0, done.err
    return folder


@pytest.fixture
def built_project(build_once: Path, tmp_path: Path) -> Path:
    """A copy of the project with its last good build."""
    shutil.copytree(build_once, tmp_path, dirs_exist_ok=True)
    return tmp_path


def test_help_is_quick_and_complete(nnkit: Command) -> None:
    done = nnkit("--help")
    assert done.code == 0
    for command in ("run", "check", "plan", "simulate", "compare", "package", "doctor", "schema", "targets"):
        assert command in done.out
    # Heavy imports must stay out of it; their absence is exact where a time would be noisy.
    script = "import sys, nnkit.cli; print(sorted({'numpy', 'onnx', 'onnxruntime', 'pydantic'} & set(sys.modules)))"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert loaded.strip() == "[]"


def test_two_runs_give_the_same_bytes(project: Path, nnkit: Command) -> None:
    for out in ("a", "b"):
        done = nnkit("run", "recipe.yaml", "--out", out, "--no-qemu", "--no-cache")
        assert done.code == 0, done.err
    first, second = fingerprint(project / "a/small/gap8"), fingerprint(project / "b/small/gap8")
    differing = {name for name in first.keys() | second.keys() if first.get(name) != second.get(name)}
    assert differing <= {"run.json"}
    assert "small-1.2.3-gap8.nnpkg" in first
    shown = nnkit("package", "inspect", "a/small/gap8/small-1.2.3-gap8.nnpkg")
    assert "small 1.2.3 for gap8" in shown.out
    assert nnkit("compare", "a/small/gap8", "b/small/gap8").code == 0


def test_a_changed_byte_in_a_package_is_found(built_project: Path, nnkit: Command) -> None:
    package = built_project / "out/small/gap8/small-1.2.3-gap8.nnpkg"
    assert nnkit("package", "verify", package).code == 0
    data = bytearray(package.read_bytes())
    data[len(data) // 2] ^= 1
    package.write_bytes(bytes(data))
    assert nnkit("package", "verify", package).code == 1


def break_key(project: Path) -> None:
    (project / "recipe.yaml").write_text(RECIPE.replace("targets:", "target:"))


def break_option(project: Path) -> None:
    (project / "recipe.yaml").write_text(RECIPE.replace("memory: {l2", "memory: {l22"))


def break_glob(project: Path) -> None:
    (project / "recipe.yaml").write_text(RECIPE + 'tags: {hp: ["fc_*"]}\n')


def break_image_glob(project: Path) -> None:
    (project / "recipe.yaml").write_text(RECIPE.replace("images/*.png", "pictures/*.png"))


def break_target(project: Path) -> None:
    (project / "recipe.yaml").write_text(RECIPE.replace("gap8:", "gap9:"))


def break_model(project: Path) -> None:
    data = (project / "net.onnx").read_bytes()
    (project / "net.onnx").write_bytes(data[: len(data) // 2])


def empty_model(project: Path) -> None:
    (project / "net.onnx").write_bytes(b"")


def remove_model(project: Path) -> None:
    (project / "net.onnx").unlink()


def text_image(project: Path) -> None:
    (project / "images/2.png").write_text("this is not a picture")


def unsupported_ops(project: Path) -> None:
    net = Net((1, 1, 40, 40))
    x = net.node("Sin", [net.conv("x", 4)], 4)
    net.save(project / "net.onnx", net.node("Cos", [x], 4))


def tight_budget(project: Path) -> None:
    (project / "recipe.yaml").write_text(RECIPE.replace("memory: {l2: 512KiB}", "weight_budget: 1KiB"))


def tiny_l2(project: Path) -> None:
    (project / "recipe.yaml").write_text(RECIPE.replace("512KiB", "4KiB"))


def impossible_gate(project: Path) -> None:
    (project / "recipe.yaml").write_text(RECIPE.replace("sqnr_db: 20", "sqnr_db: 300"))


@pytest.mark.parametrize(
    ("damage", "code", "said"),
    [
        (break_key, 2, ["recipe.yaml:9:1", "target", "targets"]),
        (break_option, 2, ["recipe.yaml:10:19", "l22", "l2"]),
        (break_glob, 2, ["recipe.yaml:13:13", "fc_*", "matches no layer"]),
        (break_image_glob, 2, ["recipe.yaml:8:", "pictures/*.png"]),
        (break_target, 2, ["recipe.yaml:10:3", "gap9", "gap8"]),
        (break_model, 3, ["net.onnx"]),
        (empty_model, 3, ["net.onnx"]),
        (remove_model, 2, ["net.onnx", "does not exist"]),
        (text_image, 2, ["2.png"]),
        (unsupported_ops, 3, ["sin", "cos", "1 Cos, 1 Sin"]),
        (tight_budget, 4, ["1,024", "weight"]),
        (tiny_l2, 4, ["l2"]),
        (impossible_gate, 1, ["sqnr_db", "300"]),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_failures_say_where_and_why_and_lose_nothing(
    damage: object, code: int, said: list[str], built_project: Path, nnkit: Command
) -> None:
    before = fingerprint(built_project / "out/small/gap8")
    damage(built_project)  # type: ignore[operator]
    done = nnkit("run", "recipe.yaml", "--no-qemu")
    assert done.code == code, done.err
    for word in said:
        assert word.lower() in done.err.lower(), done.err
    assert "fix:" in done.err
    assert fingerprint(built_project / "out/small/gap8") == before
    leftovers = [path.name for path in (built_project / "out/small").iterdir() if path.name.startswith(".")]
    assert leftovers == []


@pytest.mark.skipif(os.name != "posix", reason="permissions as POSIX has them")
def test_an_output_folder_that_cannot_be_written(project: Path, nnkit: Command) -> None:
    (project / "out").write_text("a file is in the way")
    done = nnkit("run", "recipe.yaml", "--no-qemu")
    assert done.code == 2
    assert "out" in done.err
    assert "--out" in done.err
    assert (project / "out").read_text() == "a file is in the way"


def test_interrupted_run_keeps_the_last_good_build(built_project: Path, nnkit: Command) -> None:
    before = fingerprint(built_project / "out/small/gap8")
    process = subprocess.Popen(
        [sys.executable, "-c", "from nnkit.cli import main; main()", "run", "recipe.yaml", "--no-cache"],
        cwd=built_project,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stderr is not None
    for line in process.stderr:
        if "import" in line:
            break
    time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    process.wait(timeout=60)
    assert process.returncode == 130
    errors = process.stderr.read()
    assert "Traceback" not in errors
    assert "kept in the cache" not in errors, "there is none"
    assert fingerprint(built_project / "out/small/gap8") == before
    assert [path.name for path in (built_project / "out/small").iterdir()] == ["gap8"]


def test_a_refusal_says_which_rewrite_is_missing_or_why_it_declined(project: Path, nnkit: Command) -> None:
    net = Net((1, 1, 40, 40))
    x = net.batch_norm(net.conv("x", 4))
    scales = net.constant(np.float32([1, 2, 1, 1]), "scales")
    net.save(project / "net.onnx", net.node("Resize", [x, "", scales], 4, mode="linear"))
    (project / "recipe.yaml").write_text(RECIPE + "restructure: [normalize_resize]\n")
    done = nnkit("run", "recipe.yaml", "--no-qemu")
    assert done.code == 3
    assert "add it to `restructure`" in done.err
    assert "fold_batch_norm" in done.err
    assert "normalize_resize left it" in done.err


@pytest.mark.parametrize("command", ["check", "run"])
def test_what_a_target_does_not_offer_is_said_before_anything_runs(
    project: Path, nnkit: Command, command: str
) -> None:
    (project / "recipe.yaml").write_text(RECIPE + "calibration: {corrections: [adaround]}\n")
    done = nnkit(command, "recipe.yaml")
    assert done.code == 2
    assert "target 'gap8' does not offer the correction adaround" in done.err
    assert "import" not in done.err


def test_a_scheduler_without_dask_is_said_before_anything_runs(project: Path, nnkit: Command) -> None:
    done = nnkit("run", "recipe.yaml", "--scheduler", "tcp://127.0.0.1:1")
    assert (done.code, "add --executor dask" in done.err, "import" in done.err) == (2, True, False)


def test_check_and_plan_write_nothing(project: Path, nnkit: Command) -> None:
    before = fingerprint(project)
    assert nnkit("check", "recipe.yaml").code == 0
    shown = nnkit("plan", "recipe.yaml")
    assert shown.code == 0, shown.err
    for word in ("pool_before_concat", "fires", "placement", "memory", "s16."):
        assert word in shown.out
    data = nnkit("plan", "recipe.yaml", "--json").json()
    assert {entry["name"] for entry in data["rewrites"]} >= {"fuse_activation", "fold_batch_norm"}
    assert data["calibrated"] is True
    assert fingerprint(project) == before


def test_plan_without_images_says_that_formats_are_unknown(project: Path, nnkit: Command) -> None:
    text = RECIPE.replace('      calibration: {images: "images/*.png"}\n', "")
    (project / "recipe.yaml").write_text(text)
    shown = nnkit("plan", "recipe.yaml")
    assert shown.code == 0, shown.err
    assert "formats are not known yet" in shown.out
    assert nnkit("run", "recipe.yaml").code == 2


def test_simulate_everywhere_agrees(built_project: Path, nnkit: Command) -> None:
    build = "out/small/gap8"
    for on in ("program", "host", "rv32"):
        done = nnkit("simulate", build, "--input", "images/1.png", "--output", f"{on}.npy", "--on", on, "--raw")
        assert done.code == 0, done.err
    program = np.load(built_project / "program.npy")
    assert program.dtype == np.int16
    np.testing.assert_array_equal(np.load(built_project / "host.npy"), program)
    np.testing.assert_array_equal(np.load(built_project / "rv32.npy"), program)
    assert nnkit("compare", "program.npy", "host.npy").code == 0
    for on in ("float", "program"):
        done = nnkit("simulate", build, "--input", "images/1.png", "--output", f"{on}.npy", "--on", on)
        assert done.code == 0, done.err
    real, stored = np.load(built_project / "float.npy").ravel(), np.load(built_project / "program.npy").ravel()
    assert real.dtype == stored.dtype == np.float32
    assert np.abs(real - stored).max() < 0.01 * np.abs(real).max()
    differ = nnkit("compare", "float.npy", "program.npy", "--json")
    assert differ.code == 1
    assert json.loads(differ.out)[0]["cosine"] > 0.9999
    wrong = nnkit("simulate", build, "--input", "images/1.png", "--output", "x.npy", "--on", "board")
    assert wrong.code == 2
    assert "float, program, host, rv32" in wrong.err


def test_compare_builds_of_two_precisions(built_project: Path, nnkit: Command) -> None:
    (built_project / "recipe8.yaml").write_text(RECIPE.replace("gap8: {", "gap8: {precision: int8, "))
    assert nnkit("run", "recipe8.yaml", "--no-qemu", "--out", "out8").code == 0
    done = nnkit("compare", "out/small/gap8", "out8/small/gap8", "--json")
    assert done.code == 1
    rows = json.loads(done.out)
    assert len(rows) == len(report_of(built_project / "out/small/gap8")["layers"])
    assert all(row["cosine"] > 0.9 for row in rows)
    assert any("->" in row["note"] for row in rows)


def test_a_build_that_is_none(project: Path, nnkit: Command) -> None:
    for arguments in (
        ("simulate", "images", "--input", "images/1.png", "--output", "x.npy"),
        ("compare", "images", "images"),
        ("compare", "out/no/such", "build/either"),
        ("package", "build", "images"),
    ):
        done = nnkit(*arguments)
        assert done.code == 2, done.err
        assert "fix:" in done.err


def test_targets_schema_and_doctor(nnkit: Command) -> None:
    assert "gap8" in nnkit("targets", "list").out
    shown = nnkit("targets", "show", "gap8").out
    assert "corrections: equalize, bias_correction\n" in shown
    assert "None" not in shown, "options are as a recipe has them"
    for word in ("l2", "524,288", "accumulate", "kernel sides are at most 31", "host, rv32"):
        assert word in shown
    schema = nnkit("schema").json()
    assert schema["properties"]["targets"]
    tools = {tool["name"]: tool for tool in nnkit("doctor", "--json").json()["tools"]["gap8"]}
    assert tools
    assert all(tool["found"] or tool["install"] for tool in tools.values())
    missing = nnkit("targets", "show", "gap")
    assert missing.code == 2
    assert "gap8" in missing.err


def test_external_data_outside_the_model_folder_is_refused(project: Path, nnkit: Command) -> None:
    model = onnx.load(project / "net.onnx")
    (project / "inner").mkdir()
    onnx.save(model, project / "inner/net.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)
    recipe = RECIPE.replace("net.onnx", "inner/net.onnx")
    (project / "recipe.yaml").write_text(recipe)
    assert nnkit("check", "recipe.yaml").code == 0
    done = nnkit("run", "recipe.yaml", "--no-qemu")
    assert done.code == 0, done.err
    shutil.move(project / "inner/weights.bin", project / "weights.bin")
    loaded = onnx.load(project / "inner/net.onnx", load_external_data=False)
    for tensor in loaded.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = "../weights.bin"
    onnx.save(loaded, project / "inner/net.onnx")
    done = nnkit("run", "recipe.yaml", "--no-qemu")
    assert done.code == 3, done.err
    assert "weights.bin" in done.err
