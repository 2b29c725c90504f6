"""Times of a package, forged without a key, whole in each digest; and what only a signature can vouch for."""

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
from nnkit.api.stated_times import check_times
from nnkit.c.host_compiler import host_compiler
from nnkit.errors import GateFailedError
from nnkit.package import verify_package
from nnkit.package.proofs import check_proofs

if host_compiler() is None:
    pytest.skip("no C compiler", allow_module_level=True)

OPTIONS = {
    "gap8": "{}",
    "ansi_c": "{precision: int8}",
    "nnie": "{chip: hi3559av100}",
    "onnx_qdq": "{}",
}


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The package of a small network for a target, built once."""
    built: dict[str, Path] = {}

    def package(target: str) -> Path:
        if target not in built:
            folder = tmp_path_factory.mktemp(target)
            recipe = RECIPE.replace("gap8: {}", f"{target}: {OPTIONS[target]}").replace(
                "sqnr_db: 20, max_abs: 10", ""
            )
            build = make_build(write_project(folder, recipe), target=target)
            built[target] = next(pipeline.run(build, folder / "out").folder.glob("*.nnpkg"))
        return built[target]

    return package


def report(change: Callable[[Any], object]) -> Callable[[Forger], object]:
    """A change of the report, and of what the manifest repeats."""

    def forge(forger: Forger) -> None:
        forger.edit("report.json", change)
        said = forger.document("report.json")
        forger.edit(
            MANIFEST,
            lambda it: it.update(
                {key: said[key] for key in ("memory", "inputs", "outputs")}, accuracy=said["verify"]
            ),
        )

    return forge


def first_core(it: Any) -> Any:
    return next(iter(it["details"]["estimated_cycles"].values()))


def silicon(it: Any) -> Any:
    return {**it["verify"]["program_vs_artifact"][0], "how": "silicon"}


FORGERIES: dict[str, tuple[str, Callable[[Forger], object], str]] = {
    "a time": ("ansi_c", report(lambda it: it["speed"][0].update(value=0.001)), r"speed\[0\]\.value is 0\.001 here"),
    "time of a layer": (
        "ansi_c",
        report(lambda it: it["layers"][0].update(milliseconds=0.0)),
        r"milliseconds is .* here, and",
    ),
    "a clock that stands still": (
        "ansi_c",
        report(lambda it: first_core(it).update(clock_mhz=0)),
        "cannot be read",
    ),
    "a time that is none": ("ansi_c", report(lambda it: it.update(speed=[{"what": "time"}])), "speed|cannot be read"),
    "the scale of an input": (
        "ansi_c",
        report(lambda it: it["inputs"][0].update(scale=[99.0])),
        r"scale\[0\] is '99' here, and '0\.\d+' in its format",
    ),
    "the zero point of an output": (
        "ansi_c",
        report(lambda it: it["outputs"][0].update(zero_point=[7])),
        r"zero_point\[0\] is 7 here, and 0 in its format",
    ),
    "another machine": (
        "nnie",
        report(lambda it: it["machine"].update(name="another")),
        r"machine\.name is 'another' here, and '.*' in the target",
    ),
    "a runner that is left out": (
        "gap8",
        report(lambda it: it["verify"]["program_vs_artifact"].pop()),
        r"runners\[1\] is missing here, and 'rv32' in the target",
    ),
    "a runner that the target has not": (
        "onnx_qdq",
        report(lambda it: it["verify"]["program_vs_artifact"].append(silicon(it))),
        r"runners\[1\] is 'silicon' here, and missing in the target",
    ),
    "an estimate": (
        "nnie",
        report(lambda it: it["details"]["estimate"].update(milliseconds=0.0001)),
        r"speed\[0\]\.value is .* here, and 0\.0001",
    ),
}


@pytest.mark.parametrize("kind", FORGERIES)
def test_a_contradiction_is_found(kind: str, packages: Callable[[str], Path], tmp_path: Path) -> None:
    target, forge, reason = FORGERIES[kind]
    forger = Forger(packages(target))
    forge(forger)
    verified = verify_package(forger.pack(tmp_path / "x.nnpkg"))
    with pytest.raises(GateFailedError) as error:
        check_proofs(verified, check_times)
    assert re.search(reason, f"{error.value.where}: {error.value.reason}"), error.value


@pytest.mark.parametrize("target", OPTIONS)
def test_honest_packages_hold(target: str, packages: Callable[[str], Path]) -> None:
    result = check_proofs(verify_package(packages(target)), check_times)
    assert not any("not computed again" in line for line in result.unproven)


def test_what_no_signature_vouches_for_is_said_second(packages: Callable[[str], Path]) -> None:
    package = packages("ansi_c")
    done = run_nnkit("package", "verify", package, "--proofs")
    first, second = done.stdout.splitlines()[:2]
    assert first == f"{package}: intact, not signed by a key you trust"
    assert second.startswith("  not proven without a signature: ")
    assert "code and weights" in second
    assert re.search(r"time \S+ ms", second)


def test_a_plan_without_accesses_is_said_to_be_unproven(packages: Callable[[str], Path], tmp_path: Path) -> None:
    """Version 2 names them; who forges a package may write version 1."""
    honest = check_proofs(verify_package(packages("ansi_c")))
    forger = Forger(packages("ansi_c")).edit("plan.json", lambda it: it.update(version=1)).renew_report()
    result = check_proofs(verify_package(forger.pack(tmp_path / "x.nnpkg")))
    assert {*result.unproven} - {*honest.unproven} == {
        "that results may lie over inputs, of which a plan of version 1 names no accesses"
    }
    assert "settings of the recipe beside gates, runners, task and target" in honest.unproven


def test_times_of_another_version_are_not_computed_again(packages: Callable[[str], Path], tmp_path: Path) -> None:
    """They are named instead: its models of time may have been others."""
    forger = Forger(packages("nnie")).edit("report.json", lambda it: it.update(nnkit="0.0.1"))
    for name in [name for name in forger.files if name.startswith("artifact/")]:
        forger.files[name] = re.sub(rb"nnkit 0\.1\.0", b"nnkit 0.0.1", forger.files[name])
    forger.renew_report()
    forger.edit(MANIFEST, lambda it: it.update(nnkit="0.0.1"))
    forger.edit(PROVENANCE, lambda it: it["predicate"]["runDetails"]["builder"]["version"].update(nnkit="0.0.1"))
    forger.edit(SBOM, lambda it: it["metadata"]["tools"]["components"][0].update(version="0.0.1"))
    result = check_proofs(verify_package(forger.pack(tmp_path / "x.nnpkg")), check_times)
    odd = forger.edit("report.json", lambda it: it.update(speed=[{"what": "time", "value": "fast", "unit": "ms"}]))
    with pytest.raises(GateFailedError, match="cannot be read"):
        check_proofs(verify_package(odd.pack(tmp_path / "y.nnpkg")), check_times)
    assert any("not computed again: made by nnkit 0.0.1" in line for line in result.unproven)
