"""The published GAP8 face network: its descriptor bit for bit, in the simulator, in host C and in rv32 C."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnkit.serialize import decode
from nnkit_gap8.checked_plan import checked_plan, loads_of, memory_machine
from nnkit_gap8.emit import emit_artifact
from nnkit_gap8.options import Gap8Options
from nnkit_gap8.runners import HostRunner
from nnkit_gap8.stripe_search import with_stripes

from .conftest import REPOSITORY, Command, Finished, report_of, run_command

RECIPE = REPOSITORY / "recipes" / "gap8_reid_published" / "recipe.yaml"


@pytest.fixture(scope="module")
def build(shared_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Finished]:
    folder = tmp_path_factory.mktemp("published")
    done = run_command(
        "run",
        RECIPE,
        "--out",
        folder,
        cwd=folder,
        env={"NNKIT_SHARED": str(shared_dir), "NNKIT_CACHE": str(folder / "cache")},
    )
    assert done.code == 0, done.err
    return folder / "gap8_reid_published" / "gap8", done


@pytest.fixture(scope="module")
def reference(shared_dir: Path) -> dict[str, np.ndarray[Any, Any]]:
    with np.load(shared_dir / "models" / "gap8_reid" / "reference.npz") as stored:
        return {name: stored[name] for name in stored}


@pytest.mark.parametrize("on", ["program", "host", "rv32"])
def test_descriptor_is_the_published_one(
    on: str, build: tuple[Path, Finished], reference: dict[str, np.ndarray[Any, Any]], tmp_path: Path, nnkit: Command
) -> None:
    np.save(tmp_path / "image.npy", reference["image"][None, None].astype(np.float32))
    done = nnkit("simulate", build[0], "--input", "image.npy", "--output", "out.npy", "--on", on, "--raw")
    assert done.code == 0, done.err
    found = np.load(tmp_path / "out.npy").ravel()
    assert found.dtype == np.int16
    assert int((found == reference["descriptor_q10"]).sum()) == 512


@pytest.mark.parametrize("l2_bytes", [256 << 10, 80_000])
def test_descriptor_is_the_published_one_in_less_memory(
    l2_bytes: int, build: tuple[Path, Finished], reference: dict[str, np.ndarray[Any, Any]], tmp_path: Path
) -> None:
    program = decode((build[0] / "program.nnkit").read_bytes())
    options = Gap8Options.model_validate({"accumulate": "running", "memory": {"l2": l2_bytes}})
    striped = with_stripes(
        program,
        options.stripes,
        lambda: memory_machine(options),
        lambda part: loads_of(part, options),
        lambda candidate: checked_plan(candidate, options),
    )
    plan = checked_plan(striped, options)
    assert plan.regions["l2"].peak_bytes <= l2_bytes
    for path, content in emit_artifact(striped, plan, options.core_machine()).items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(content)
    inputs = {program.inputs[0]: reference["image"][None].astype(np.int64)}
    (result,) = HostRunner().run(tmp_path, striped, [inputs], trace=False)
    found = result.outputs[program.outputs[0]].ravel()
    assert int((found == reference["descriptor_q10"]).sum()) == 512


def test_memory_and_proofs_are_reported(build: tuple[Path, Finished]) -> None:
    report = report_of(build[0])
    l2 = report["memory"]["l2"]
    assert l2["peak_bytes"] <= 351_872
    assert 276_768 <= l2["lower_bound_bytes"] <= l2["peak_bytes"]
    unproven = [layer for layer in report["layers"] if layer["proof"] == "pinned_unproven"]
    assert len(unproven) == 11
    assert all(layer["observed"]["accumulator_max"] > 0 for layer in unproven)
    assert all("exceeds 32 bits" in layer["proof_note"] for layer in unproven)
    assert "11 pinned layers could overflow" in build[1].out
    runs = {entry["how"]: entry for entry in report["verify"]["program_vs_artifact"]}
    assert [runs[how]["mismatches"] for how in ("host", "rv32")] == [0, 0]
    assert runs["rv32"]["measured"]["l2_painted_bytes"] == l2["peak_bytes"]


def test_our_formats_are_close_to_float(shared_dir: Path, tmp_path: Path, nnkit: Command) -> None:
    text = RECIPE.read_text(encoding="utf-8")
    text = text.replace("    accumulate: running\n", "    accumulate: wide\n")
    lines = [line for line in text.splitlines() if "published_formats" not in line]
    (tmp_path / "recipe.yaml").write_text("\n".join(lines))
    done = nnkit("run", "recipe.yaml", "--no-qemu", env={"NNKIT_SHARED": str(shared_dir)})
    assert done.code == 0, done.err
    report = report_of(tmp_path / "out/gap8_reid_published/gap8")
    assert report["verify"]["float_vs_program"]["cosine"] >= 0.9999
    assert all(layer["proof"] in ("proven", "not_applicable") for layer in report["layers"])
    skipped = report["verify"]["program_vs_artifact"][1]
    assert (skipped["how"], skipped["contract"]) == ("rv32", "not_run")


def test_a_small_l2_is_explained(shared_dir: Path, tmp_path: Path, nnkit: Command) -> None:
    text = RECIPE.read_text(encoding="utf-8") + "\n"
    text = text.replace("    weight_budget", "    memory: {l2: 64KiB}\n    weight_budget")
    (tmp_path / "recipe.yaml").write_text(text)
    done = nnkit("run", "recipe.yaml", env={"NNKIT_SHARED": str(shared_dir)})
    assert done.code == 4
    assert "features.3.expand3x3" in done.err
    assert "int8" in done.err
    assert not (tmp_path / "out/gap8_reid_published/gap8").exists()


def test_without_the_network_the_message_says_so(tmp_path: Path, nnkit: Command) -> None:
    done = nnkit("run", RECIPE, env={"NNKIT_SHARED": None})
    assert done.code == 2
    assert "NNKIT_SHARED" in done.err
