"""A deployment from end to end: the C of the whole pipeline equals its Python side, and a broken one is found out."""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from forger import Forger

from nnkit.builds import open_build
from nnkit.deployed import Deployed
from nnkit.deployed.session import trace_bytes
from nnkit.deployment import plan_deployment
from nnkit.errors import GateFailedError, ToolError, UserFileError
from nnkit.package import build_package, verify_package
from nnkit.package.proofs import check_proofs
from nnkit_gap8.deployment.emit import deployment_files
from nnkit_gap8.deployment.runners import HostPipelineRunner
from tests.deployment.conftest import RECIPE, Project, build_of, write_networks
from tests.deployment.sessions import commands, python_session, session_bytes


def test_all_runners_agree_with_python_in_every_byte(project: Project) -> None:
    report = project.outcome.report
    assert report["status"] == "ok"
    runs = {run["how"]: run for run in report["verify"]["program_vs_artifact"]}
    assert {how: run["mismatches"] for how, run in runs.items()} == {"host": 0, "rv32": 0}
    assert all(run["values"] > 5_000 for run in runs.values())
    assert [network["status"] for network in report["networks"]] == ["ok", "ok"]
    # What L2 really saw is what the plan says, and no more of the stack than the call graph allows.
    assert runs["rv32"]["measured"]["l2_painted_bytes"] <= report["memory"]["l2"]["peak_bytes"]
    assert runs["rv32"]["measured"]["stack_used_bytes"] <= runs["rv32"]["measured"]["stack_worst_bytes"]
    taken = {stage["name"]: stage["measured"]["rv32"]["instructions"] for stage in report["stages"]}
    assert list(taken) == ["shrink", "finder", "detect", "crop", "describer", "match"]
    assert all(count > 50 for count in taken.values())


def test_what_reads_one_network_is_told_to_name_one(project: Project) -> None:
    folder = project.outcome.folder
    with pytest.raises(UserFileError, match="this build is of several networks") as caught:
        open_build(folder)
    assert caught.value.remedy == f"name one of them: {folder}/networks/describer or {folder}/networks/finder"
    for part in ("finder", "describer"):
        assert open_build(folder / "networks" / part).program.ops


def test_the_package_keeps_its_proofs_and_a_wrong_one_is_not_packed(project: Project, tmp_path: Path) -> None:
    folder = shutil.copytree(project.outcome.folder, tmp_path / "build")
    (package,) = folder.glob("*.nnpkg")
    memory, comparison, gates, *_ = check_proofs(verify_package(package)).checked
    networks = project.outcome.report["networks"]
    runs = 2 + sum(e["contract"] != "not_run" for each in networks for e in each["program_vs_artifact"])
    assert memory.startswith("memory plan: ")
    assert comparison == f"comparison: {runs} runners without a difference"
    assert gates == f"gates: {sum(len(each['gates']) for each in networks)} kept, those of the recipe"
    report = json.loads((folder / "report.json").read_text())
    report["networks"][1]["program_vs_artifact"][0]["mismatches"] = 1
    (folder / "report.json").write_text(json.dumps(report))
    with pytest.raises(GateFailedError, match=r"'describer'.program_vs_artifact.* is 1 here, and 0 in networks"):
        build_package(folder, tmp_path)


def invent_ok(forger: Forger) -> None:
    """A network's own report says mismatch."""
    forger.edit("networks/finder/report.json", lambda it: it.update(status="mismatch")).renew_report()


def empty_gates(forger: Forger) -> None:
    """In the network's report and in that of all."""
    forger.replace("networks/describer/recipe.yaml", "cosine: null", "cosine: 0.9999").renew_report()


def invent_cosine(forger: Forger) -> None:
    forger.edit("report.json", lambda it: it["networks"][0].update(cosine=1.0))


def move_network(forger: Forger) -> None:
    """One tensor's buffer in the joint plan, whose table of layers has no addresses of its own."""

    def change(plan: Any) -> None:
        buffer = next(each for each in plan["buffers"].values() if each["name"].startswith("describer/"))
        buffer["offset_bytes"] += 4

    forger.edit("plan.json", change).renew_report()


def take_the_other_networks_plan(forger: Forger) -> None:
    forger.files["networks/finder/plan.json"] = forger.files["networks/describer/plan.json"]
    forger.renew_report()


def invent_layers(forger: Forger) -> None:
    forger.replace("layers.csv", "finder,", "describer,").renew_report()


def forget_a_network(forger: Forger) -> None:
    forger.edit("report.json", lambda it: it["networks"].pop()).renew_report()


@pytest.mark.parametrize(
    ("forge", "file", "reason"),
    [
        (lambda forger: None, None, ""),
        (invent_ok, "networks/finder/report.json", "the status is 'mismatch'"),
        (empty_gates, "networks/describer/report.json", "gates.cosine is missing here, and 0.9999 in networks"),
        (invent_cosine, "report.json", "cosine is 1.0 here"),
        (move_network, "plan.json", "describer/"),
        (take_the_other_networks_plan, "networks/finder/report.json", "is"),
        (invent_layers, "layers.csv", "network is 'describer' here, and 'finder' in networks/finder/layers.csv"),
        (forget_a_network, "provenance.intoto.json", "resolvedDependencies"),
        (
            lambda forger: forger.files.update({"networks/finder/recipe.yaml": b"{}"}),
            "report.json",
            "networks/finder/recipe.yaml",
        ),
    ],
)
def test_a_forged_package_contradicts_itself(
    forge: Callable[[Forger], object], file: str | None, reason: str, project: Project, tmp_path: Path
) -> None:
    (package,) = project.outcome.folder.glob("*.nnpkg")
    forger = Forger(package)
    forge(forger)
    forged = verify_package(forger.pack(tmp_path / "x.nnpkg"))
    if file is None:
        assert check_proofs(forged).checked
        return
    with pytest.raises(GateFailedError) as error:
        check_proofs(forged)
    assert error.value.where == f"{tmp_path / 'x.nnpkg'}: {file}", error.value
    assert reason in error.value.reason


def test_the_memory_is_the_largest_and_not_the_sum(project: Project) -> None:
    report = project.outcome.report
    l1, l2, l3 = (report["memory"][name] for name in ("l1", "l2", "l3"))
    kept = sum(each["bytes"] for each in report["survivors"])
    assert l1["peak_bytes"] == max(l1["alone_bytes"].values())
    assert l2["peak_bytes"] <= max(l2["alone_bytes"].values()) + kept < sum(l2["alone_bytes"].values()) + kept
    assert l2["lower_bound_bytes"] <= l2["peak_bytes"]
    assert sum(l3["alone_bytes"].values()) <= l3["peak_bytes"] <= sum(l3["alone_bytes"].values()) + 4


def test_a_network_runs_in_stripes_where_what_is_left_asks_for_it(tmp_path: Path) -> None:
    """It fits the deployment's L2 whole, but not what the frame and the gallery leave of it."""
    write_networks(tmp_path, wide=True)
    (tmp_path / "recipe.yaml").write_text(RECIPE.replace("l2: 64KiB", "l2: 12800"))
    build = build_of(tmp_path / "recipe.yaml")
    planned = plan_deployment(build)
    describer = next(part for part in planned.deployed.parts if part.name == "describer")
    assert any(op.kind == "join_rows" for op in describer.program.ops)
    assert planned.deployed.joint.plan.regions["l2"].peak_bytes <= 12_800
    build.deployer.emit(planned.deployed, build.options, tmp_path / "artifact")
    python = python_session(planned.deployed)
    wanted = b"".join(python.answer(command).result for command in commands())
    runner = HostPipelineRunner(flags=("-O0",))
    made = runner.run(tmp_path / "artifact", planned.deployed, session_bytes(planned.deployed))
    assert made.results == wanted
    assert made.trace == trace_bytes(python.trace)


@pytest.mark.parametrize("parts", [1, 3])
def test_frames_of_all_sorts(project: Project, deployed: Deployed, parts: int) -> None:
    python = python_session(deployed)
    wanted = [python.answer(command) for command in commands()]
    statuses = {face.status for answer in wanted for face in answer.faces}
    assert sum(len(answer.faces) for answer in wanted) > 10
    assert 0 in statuses
    sanitized = ("-O0", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    runner = HostPipelineRunner(flags=sanitized, parts=parts)
    made = runner.run(project.outcome.folder / "artifact", deployed, session_bytes(deployed))
    assert made.results == b"".join(answer.result for answer in wanted)
    assert made.trace == trace_bytes(python.trace)
    assert python.store is not None
    assert made.store == b"".join(python.store.slots)


@pytest.mark.parametrize("buffer", ["FRAME", "DETECTIONS"])
def test_a_buffer_that_does_not_survive_is_found_out(
    project: Project, deployed: Deployed, tmp_path: Path, buffer: str
) -> None:
    artifact = tmp_path / "artifact"
    shutil.copytree(project.outcome.folder / "artifact", artifact)
    source = artifact / "tiny.c"
    text, count = re.subn(rf"#define {buffer}_OFFSET \d+", f"#define {buffer}_OFFSET 0", source.read_text())
    assert count == 1
    source.write_text(text)
    python = python_session(deployed)
    wanted = b"".join(python.answer(command).result for command in commands())
    try:
        made = HostPipelineRunner().run(artifact, deployed, session_bytes(deployed))
    except ToolError:
        return  # it crashed: found out too
    assert (made.results, made.trace) != (wanted, trace_bytes(python.trace))


def test_one_package_with_one_project(project: Project) -> None:
    folder = project.outcome.folder
    (package,) = folder.rglob("*.nnpkg")
    with zipfile.ZipFile(package) as archive:
        names = set(archive.namelist())
    assert {"artifact/finder.h", "artifact/describer.h", "artifact/tiny.h", "artifact/weights.bin"} <= names
    weights = sum(
        json.loads((folder / f"networks/{name}/report.json").read_text())["planner"]["weight_bytes"]
        for name in ("finder", "describer")
    )
    assert weights <= (folder / "artifact/weights.bin").stat().st_size <= weights + 4


def test_the_same_deployment_gives_the_same_bytes(project: Project, deployed: Deployed) -> None:
    files = deployment_files(deployed, build_of(project.recipe).options)
    artifact = project.outcome.folder / "artifact"
    assert {path.relative_to(artifact).as_posix() for path in artifact.rglob("*") if path.is_file()} == set(files)
    assert all((artifact / name).read_bytes() == content for name, content in files.items())


def test_the_page_shows_stages_memory_and_pictures(project: Project) -> None:
    page = (project.outcome.folder / "report.html").read_text()
    for text in (
        "crop_lines",
        "Shared memory",
        "data:image/png;base64,",
        "networks/finder",
    ):
        assert text in page
    assert len(page) < 2_000_000
    assert len(list((project.outcome.folder / "verify/frames").glob("*.png"))) == len(
        project.outcome.report["pictures"]
    )


def test_the_description_says_where_all_lies(project: Project) -> None:
    description: dict[str, Any] = json.loads((project.outcome.folder / "artifact/deployment.json").read_text())
    assert [network["name"] for network in description["networks"]] == ["finder", "describer"]
    survivors = {each["name"]: each["offset"] for each in project.outcome.report["survivors"]}
    assert description["memory"]["offsets"] == survivors
