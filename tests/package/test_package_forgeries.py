"""Packages forged without a key: whole in every digest, and contradicting themselves in one thing."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from forger import MANIFEST, PROVENANCE, SBOM, Forger
from nnkit_command import run_nnkit
from small_project import RECIPE, make_build, write_project

from nnkit import pipeline
from nnkit.c.host_compiler import host_compiler
from nnkit.errors import GateFailedError
from nnkit.package import verify_package
from nnkit.package.proofs import check_proofs

if host_compiler() is None:
    pytest.skip("no C compiler", allow_module_level=True)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("honest")
    return next(pipeline.run(make_build(write_project(folder)), folder / "out").folder.glob("*.nnpkg"))


@pytest.fixture(scope="module")
def another(tmp_path_factory: pytest.TempPathFactory) -> Forger:
    """A package of the same network in 8 bits, with one gate."""
    folder = tmp_path_factory.mktemp("another")
    recipe = RECIPE.replace("gap8: {}", "gap8: {precision: int8}").replace("sqnr_db: 20, ", "")
    return Forger(
        next(pipeline.run(make_build(write_project(folder, recipe)), folder / "out").folder.glob("*.nnpkg"))
    )


def test_what_the_forger_packs_again_is_the_package(package: Path, tmp_path: Path) -> None:
    """All that it forges below is found by what it says, not by how it packs."""
    again = Forger(package).renew_report().pack(tmp_path / "again.nnpkg")
    assert again.read_bytes() == package.read_bytes()
    assert check_proofs(verify_package(again)).checked


def report(change: Callable[[Any], object]) -> Callable[[Forger], object]:
    """A change of the report; the manifest repeats what it says of accuracy."""

    def forge(forger: Forger) -> None:
        forger.edit("report.json", change)
        said = forger.document("report.json")
        repeated = {key: said[key] for key in ("status", "memory", "inputs", "outputs", "tools")}
        forger.edit(MANIFEST, lambda it: it.update(repeated, accuracy=said["verify"]))
        forger.edit(
            PROVENANCE,
            lambda it: it["predicate"]["buildDefinition"]["internalParameters"].update(status=said["status"]),
        )

    return forge


def alone(name: str, change: Callable[[Any], object]) -> Callable[[Forger], object]:
    """A change of one document, which the report names anew."""
    return lambda forger: forger.edit(name, change).renew_report()


def zero_weights(forger: Forger) -> None:
    forger.files["artifact/weights.bin"] = bytes(len(forger.files["artifact/weights.bin"]))


def drop_gates(it: Any) -> None:
    it["verify"]["gates"] = []


def lower_gate(it: Any) -> None:
    it["verify"]["gates"][0]["limit"] = 0.5


def run_nothing(it: Any) -> None:
    it["verify"]["program_vs_artifact"][0].update(contract="not_run", values=0, inputs=0, reason="no compiler")


def run_more(it: Any) -> None:
    it["verify"]["program_vs_artifact"][1].update(contract="exact")


def invent_cosine(it: Any) -> None:
    it["verify"]["float_vs_program"]["cosine"] = 1.0


def move_tensor(plan: Any) -> None:
    tensor = plan["tensors"]["relu6_out"]
    tensor["size_bytes"] //= 2


def move_buffer(plan: Any) -> None:
    plan["buffers"]["globalaveragepool20_out"]["offset_bytes"] = 4


def exchange_steps(plan: Any) -> None:
    plan["steps"][2]["op"], plan["steps"][3]["op"] = plan["steps"][3]["op"], plan["steps"][2]["op"]


def rename_step(plan: Any) -> None:
    plan["steps"][0]["op"] = "conv99"


def shrink_memory(it: Any) -> None:
    it["memory"]["l2"].update(peak_bytes=4096, lower_bound_bytes=4096)


def require_the_emulator(forger: Forger) -> None:
    """In recipe, manifest and provenance alike."""
    forger.replace("recipe.yaml", "require: []", "require: [rv32]").renew_report()
    forger.edit(MANIFEST, lambda it: it["recipe"]["verify"].update(require=["rv32"]))
    recipe = forger.document(MANIFEST)["recipe"]
    forger.edit(PROVENANCE, lambda it: externals(it).update(recipe=recipe))


def externals(statement: Any) -> Any:
    return statement["predicate"]["buildDefinition"]["externalParameters"]


def take_recipe(forger: Forger, other: Forger) -> None:
    """The recipe of another build, in manifest and provenance too."""
    forger.files["recipe.yaml"] = other.files["recipe.yaml"]
    recipe = other.document(MANIFEST)["recipe"]
    forger.edit(MANIFEST, lambda it: it.update(recipe=recipe)).renew_report()
    forger.edit(PROVENANCE, lambda it: externals(it).update(recipe=recipe))


def take_plan(forger: Forger, other: Forger) -> None:
    forger.files["plan.json"] = other.files["plan.json"]
    forger.renew_report()


def take_plan_and_memory(forger: Forger, other: Forger) -> None:
    take_plan(forger, other)
    theirs = other.document("report.json")
    report(lambda it: it.update(memory=theirs["memory"], planner=theirs["planner"]))(forger)


def state_twice(forger: Forger) -> None:
    """One JSON reader takes the first of the two, another the last."""
    forger.replace("report.json", '  "status": "ok",', '  "status": "mismatch",\n  "status": "ok",')


def bound(forger: Forger, region: str, **said: Any) -> None:
    """In plan, report and manifest alike."""
    forger.edit("plan.json", lambda it: it["regions"][region].update(said)).renew_report()
    report(lambda it: it["memory"][region].update(said))(forger)


def state(figure: str, value: float, it: Any) -> None:
    """Of all outputs together, and as the measure of the gate."""
    it["verify"]["float_vs_program"][figure] = value
    next(gate for gate in it["verify"]["gates"] if gate["name"] == figure)["measured"] = value


def no_artifact(forger: Forger) -> None:
    for name in [name for name in forger.files if name.startswith("artifact/")]:
        del forger.files[name]
    forger.renew_report()


FORGERIES: dict[str, tuple[Callable[[Forger], object], str, str]] = {
    "the report says mismatch, the manifest ok": (
        lambda it: it.edit("report.json", lambda r: r.update(status="mismatch")),
        MANIFEST,
        "status is 'ok' here, and 'mismatch' in report.json",
    ),
    "weights are zero, the report names the old ones": (zero_weights, "report.json", r"of 'artifact/weights\.bin'"),
    "C is changed, the report names the old one": (
        lambda it: it.replace("artifact/small_conv.c", "+=", "-="),
        "report.json",
        r"of 'artifact/small_conv\.c'",
    ),
    "C is added that the report does not name": (
        lambda it: it.files.update({"artifact/more.c": b"int x;\n"}),
        "artifact/more.c",
        "report.json does not name it",
    ),
    "C is missing that the report names": (
        lambda it: it.files.pop("artifact/small_pool.c"),
        "report.json",
        r"small_pool\.c', which is not there",
    ),
    "gates are emptied": (report(drop_gates), "report.json", r"gates\.cosine is missing here, and 0\.99 in recipe"),
    "a gate is lowered": (report(lower_gate), "report.json", r"gates\.cosine is 0\.5 here, and 0\.99 in recipe"),
    "a gate did not pass": (
        report(lambda it: it["verify"]["gates"][0].update(passed=False)),
        "report.json",
        "the gate cosine demands",
    ),
    "ok, and nothing has run it": (report(run_nothing), "report.json", "'ok', and nothing has run it"),
    "a runner is said to have run": (report(run_more), "report.json", "rv32 .* compared nothing"),
    "a runner found differences": (
        report(lambda it: it["verify"]["program_vs_artifact"][0].update(mismatches=2)),
        "report.json",
        "host found 2 differences",
    ),
    "unproven, and something has run it": (
        report(lambda it: it.update(status="unproven")),
        "report.json",
        "'unproven', and host has run it",
    ),
    "a required runner has not run": (require_the_emulator, "report.json", "required runners"),
    "status of the manifest alone": (
        lambda it: it.edit(MANIFEST, lambda m: m.update(status="unproven")),
        MANIFEST,
        "'unproven' here, and 'ok' in report",
    ),
    "memory of the manifest alone": (
        lambda it: it.edit(MANIFEST, shrink_memory),
        MANIFEST,
        r"memory\.l2\.lower_bound_bytes is 4096 here",
    ),
    "accuracy of the manifest alone": (
        lambda it: it.edit(MANIFEST, lambda m: m["accuracy"]["float_vs_program"].update(sqnr_db=99.0)),
        MANIFEST,
        r"accuracy\.float_vs_program\.sqnr_db is 99\.0 here",
    ),
    "version of the manifest alone": (
        lambda it: it.edit(MANIFEST, lambda m: m.update(version="9.9.9")),
        MANIFEST,
        r"version is '9\.9\.9' here, and '1\.2\.3' in recipe\.yaml",
    ),
    "notes of the manifest alone": (
        lambda it: it.edit(MANIFEST, lambda m: m["recipe"]["release"].update(notes="Certified.")),
        MANIFEST,
        r"recipe\.release\.notes is 'Certified\.' here",
    ),
    "memory of the report, and the manifest": (report(shrink_memory), "report.json", r"memory\.l2\.\w+ is 4096 here"),
    "accuracy of the report, and the manifest": (report(invent_cosine), "report.json", "the gate cosine measured"),
    "instructions of a layer of the report": (
        report(lambda it: it["layers"][0].update(instructions=7)),
        "layers.csv",
        r"'conv1': instructions is '' here, and '7' in report",
    ),
    "figures of the table of layers": (
        lambda it: it.replace("layers.csv", "84.33078649828836", "99.5").renew_report(),
        "layers.csv",
        r"'conv1': sqnr_db is '99\.5' here",
    ),
    "macs of the report": (report(lambda it: it.update(macs=1)), "report.json", "macs is 1 here, and 184128"),
    "status of the provenance": (
        alone(
            PROVENANCE,
            lambda it: it["predicate"]["buildDefinition"].update(internalParameters={"status": "unproven"}),
        ),
        PROVENANCE,
        r"internalParameters\.status is 'unproven' here, and 'ok' in manifest",
    ),
    "tools of the provenance": (
        alone(PROVENANCE, lambda it: it["predicate"]["runDetails"]["builder"]["version"].update(nnkit="9")),
        PROVENANCE,
        r"version\.nnkit is '9' here",
    ),
    "networks of the provenance": (
        alone(PROVENANCE, lambda it: it["predicate"]["buildDefinition"]["resolvedDependencies"].pop(0)),
        PROVENANCE,
        "resolvedDependencies",
    ),
    "version of the bill of materials": (
        alone(SBOM, lambda it: it["metadata"]["component"].update(version="9.9.9")),
        SBOM,
        r"version is '9\.9\.9' here, and '1\.2\.3' in manifest",
    ),
    "tools of the bill of materials": (
        alone(SBOM, lambda it: it["metadata"]["tools"]["components"].pop()),
        SBOM,
        "components.* is missing here",
    ),
    "a tensor of half its size": (
        alone("plan.json", move_tensor),
        "layers.csv",
        "'conv5': output_bytes is '648' here",
    ),
    "a buffer elsewhere": (
        alone("plan.json", move_buffer),
        "layers.csv",
        r"output_address is 'l2\+0' here, and 'l2\+4'",
    ),
    "steps of layers exchanged": (
        alone("plan.json", exchange_steps),
        "plan.json",
        "no step of .* writes|does not live",
    ),
    "a step of no layer": (alone("plan.json", rename_step), "plan.json", "'conv99', which is no layer of report"),
    "a shape of the report": (
        report(lambda it: it["outputs"][0].update(shape=[25])),
        "plan.json",
        "the bytes of 'flatten21_out' is 48 here, and 50 in report",
    ),
    "a region takes less than it must": (
        lambda it: bound(it, "l2", lower_bound_bytes=1 << 18),
        "report.json",
        "l2 cannot take less than 262144 bytes, and takes",
    ),
    "a region without its limit": (
        report(lambda it: it["memory"]["l2"].update(limited=False)),
        "report.json",
        r"memory\.l2\.limited is False here, and True in plan",
    ),
    "a contract that is none": (
        report(lambda it: it["verify"]["program_vs_artifact"][0].update(contract="certified")),
        "report.json",
        "host kept the contract 'certified'",
    ),
    "differences that are no number": (
        report(lambda it: it["verify"]["program_vs_artifact"][0].update(mismatches=False)),
        "report.json",
        "mismatches of host are no counts",
    ),
    "exact, and different": (
        report(lambda it: it["verify"]["program_vs_artifact"][0].update(max_difference=0.5)),
        "report.json",
        r"host is said to be exact, and differs by 0\.5",
    ),
    "a cosine that none can be, and its gate": (
        report(lambda it: state("cosine", 7.0, it)),
        "report.json",
        r"cosine of 'all outputs' is 7\.0, which none can be",
    ),
    "a ratio beyond that of every output, and its gate": (
        report(lambda it: state("sqnr_db", 200.0, it)),
        "report.json",
        r"sqnr_db of all outputs is 200\.0",
    ),
    "the largest error of all outputs": (
        report(lambda it: state("max_abs", 0.0, it)),
        "report.json",
        r"max_abs of all outputs is 0\.0",
    ),
    "an input worse than the worst": (
        report(lambda it: it["verify"]["worst"][0].update(max_abs=99.0)),
        "report.json",
        r"max_abs of .* is 99\.0, of all",
    ),
    "figures of an output that there is not": (
        report(lambda it: it["verify"]["float_vs_program"].update(by_output={})),
        "report.json",
        r"by_output\[0\] is missing here",
    ),
    "more seen by calibration than there are": (
        report(lambda it: it["verify"]["float_vs_program"].update(seen_by_calibration=99)),
        "report.json",
        "calibration has seen 99 of",
    ),
    "a gate that passed in words": (
        report(lambda it: it["verify"]["gates"][0].update(passed="no")),
        "report.json",
        "the gate cosine demands",
    ),
    "an input that is not listed": (
        report(lambda it: it.update(inputs=[])),
        "report.json",
        "which nothing before it writes",
    ),
    "bits of an input": (
        report(lambda it: it["inputs"][0].update(bits=4)),
        "report.json",
        r"bits is 4 here, and \d+ in its format",
    ),
    "a format between two layers": (
        report(lambda it: it["layers"][1]["formats"].update(input0="s8.3")),
        "report.json",
        r"the format of .* is 's8\.3' here",
    ),
    "where a layer runs": (
        report(lambda it: [each.update(placement="moon") for each in it["segments"]]),
        "report.json",
        "is placed on .*, and on 'moon' in segments",
    ),
    "how often a rule fired": (
        report(lambda it: it["rewrites"][0].update(fired=9)),
        "report.json",
        "fired is 9 here",
    ),
    "the fraction of an output": (
        report(lambda it: it["outputs"][0].update(frac=99)),
        "report.json",
        r"frac is 99 here, and \d+ in its format s16",
    ),
    "values that a format does not hold": (
        report(lambda it: it["inputs"][0].update(low=-32769)),
        "report.json",
        r"'x' holds -32769 to 255, its format s16\.\d+ holds -32768 to 32767",
    ),
    "a column that tables do not have": (
        lambda it: it.replace("layers.csv", "\n", ",yes\n").renew_report(),
        "layers.csv",
        "it has a column 'yes', which tables of layers do not have",
    ),
    "a layer that moves nothing": (
        lambda it: it.replace("layers.csv", ",no,", ",yes,").renew_report(),
        "layers.csv",
        "in_place is 'yes' here, and 'no' in plan",
    ),
    "a tensor by the name of another": (
        alone("plan.json", lambda it: it["tensors"]["relu6_out"].update(tensor="x")),
        "plan.json",
        "the tensor 'x' is listed as 'relu6_out'",
    ),
    "no file of the artifact": (no_artifact, "report.json", "names no file of the artifact"),
    "the status stands twice": (state_twice, "report.json", "the key 'status' stands twice"),
}


def refused(package: Path) -> GateFailedError:
    """What is said of a package that is whole."""
    verified = verify_package(package)
    with pytest.raises(GateFailedError) as error:
        check_proofs(verified)
    return error.value


@pytest.mark.parametrize("kind", FORGERIES)
def test_a_contradiction_is_found_and_its_file_named(kind: str, package: Path, tmp_path: Path) -> None:
    forge, file, reason = FORGERIES[kind]
    forger = Forger(package)
    forge(forger)
    error = refused(forger.pack(tmp_path / "x.nnpkg"))
    assert error.exit_code == 1
    assert error.where == f"{tmp_path / 'x.nnpkg'}: {file}"
    assert re.search(reason, error.reason), error.reason


@pytest.mark.parametrize(
    ("take", "file", "reason"),
    [
        (take_plan, "report.json", "memory"),
        (take_plan_and_memory, "layers.csv", "bytes"),
        (take_recipe, "report.json", r"gates\.sqnr_db is 20\.0 here, and missing in recipe\.yaml"),
        (lambda forger, other: forger.files.update({"recipe.yaml": other.files["recipe.yaml"]}), MANIFEST, "recipe"),
        (lambda forger, other: forger.files.update({"plan.json": other.files["plan.json"]}), "report.json", "plan"),
    ],
)
def test_what_is_taken_from_another_build_is_found(
    take: Callable[[Forger, Forger], object], file: str, reason: str, package: Path, another: Forger, tmp_path: Path
) -> None:
    forger = Forger(package)
    take(forger, another)
    error = refused(forger.pack(tmp_path / "x.nnpkg"))
    assert error.where.endswith(f": {file}")
    assert re.search(reason, error.reason), error.reason


def test_the_command_ends_with_1_and_names_the_file(package: Path, tmp_path: Path) -> None:
    forger = Forger(package)
    zero_weights(forger)
    forged = forger.pack(tmp_path / "x.nnpkg")
    whole = run_nnkit("package", "verify", forged)
    assert whole.returncode == 0
    assert whole.stdout.splitlines()[0] == f"{forged}: intact, not signed by a key you trust"
    proofs = run_nnkit("package", "verify", forged, "--proofs")
    assert (proofs.returncode, proofs.stdout) == (1, "")
    assert "report.json: a proof does not hold: of 'artifact/weights.bin'" in proofs.stderr
