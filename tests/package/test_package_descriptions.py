"""What the artifact and the report's details say of themselves, forged without a key, whole in each digest."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
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


def json_of(name: str, change: Callable[[Any], object]) -> Callable[[Forger], object]:
    """A change of JSON in the artifact, which the report names anew."""

    def forge(forger: Forger) -> None:
        content = json.loads(forger.files[f"artifact/{name}"])
        change(content)
        forger.files[f"artifact/{name}"] = json.dumps(content, indent=2).encode()
        forger.renew_report()

    return forge


def text(name: str, pattern: str, new: str) -> Callable[[Forger], object]:
    """A change of a text in the artifact."""

    def forge(forger: Forger) -> None:
        changed, count = re.subn(pattern, new, forger.files[f"artifact/{name}"].decode())
        assert count
        forger.files[f"artifact/{name}"] = changed.encode()
        forger.renew_report()

    return forge


def report(change: Callable[[Any], object]) -> Callable[[Forger], object]:
    """A change of the report, and of what the manifest repeats."""

    def forge(forger: Forger) -> None:
        forger.edit("report.json", change)
        said = forger.document("report.json")
        forger.edit(MANIFEST, lambda it: it.update(memory=said["memory"], accuracy=said["verify"]))

    return forge


def all_of(*forgeries: Callable[[Forger], object]) -> Callable[[Forger], object]:
    return lambda forger: [forge(forger) for forge in forgeries]


def first_core(it: Any) -> Any:
    return next(iter(it["details"]["estimated_cycles"].values()))


def other_network(forger: Forger) -> None:
    model = onnx.load_from_string(forger.files["artifact/model.onnx"])
    model.graph.input[0].type.tensor_type.shape.dim[2].dim_value = 41
    forger.files["artifact/model.onnx"] = model.SerializeToString()
    forger.renew_report()


FORGERIES: dict[str, tuple[str, Callable[[Forger], object], str]] = {
    "place of a tensor": (
        "gap8",
        json_of("network.json", lambda it: it["ops"][2]["output"].update(l2_offset=123456)),
        r"network\.json: .* ops\[2\]\.output\.l2_offset is 123456 here",
    ),
    "format of a tensor": (
        "gap8",
        json_of("network.json", lambda it: it["outputs"][0]["format"].update(frac=31)),
        r"network\.json: .* outputs\[0\]\.format\.frac is 31 here",
    ),
    "kind of a layer": (
        "gap8",
        json_of("network.json", lambda it: it["ops"][0].update(kind="softmax")),
        r"network\.json: .* ops\[0\]\.kind is 'softmax' here",
    ),
    "memory of a description": (
        "gap8",
        json_of("network.json", lambda it: it["memory"].update(l2_peak_bytes=64)),
        r"network\.json: .* memory\.l2_peak_bytes is 64 here",
    ),
    "stack of a header": (
        "gap8",
        text("small.h", r"STACK_BYTES \d+", "STACK_BYTES 8"),
        r"small\.h: .*STACK_BYTES is 8",
    ),
    "bytes on a page": ("gap8", text("README.md", r"\d+( bytes of stack)", r"987654\1"), r"README\.md: .* 987654"),
    "what is done to pixels": (
        "gap8",
        json_of("network.json", lambda it: it["inputs"][0]["preprocess"].update(color="rgb")),
        r"network\.json: .*color is 'rgb' here, and 'gray' in recipe\.yaml",
    ),
    "arena": (
        "ansi_c",
        all_of(
            json_of("small.json", lambda it: it.update(arena_bytes=64)),
            report(lambda it: it["details"].update(arena_bytes=64)),
        ),
        "arena_bytes is 64 here",
    ),
    "details beside a file": (
        "ansi_c",
        report(lambda it: it["details"].update(weight_bytes=7)),
        "weight_bytes is .* here, and 7 in report",
    ),
    "sources": (
        "ansi_c",
        json_of("small.json", lambda it: it["sources"].append("gone.c")),
        r"names 'gone\.c', which is not there",
    ),
    "another version wrote the C": (
        "ansi_c",
        text("small.c", r"by nnkit \d\S*\d", "by nnkit 0.0.1"),
        r"small\.c: .* the version of nnkit is '0\.0\.1' here",
    ),
    "a time": ("ansi_c", report(lambda it: it["speed"][0].update(value=0.001)), r"speed\[0\]\.value is 0\.001 here"),
    "a time and what it follows from": (
        "ansi_c",
        report(lambda it: (it["speed"][0].update(value=0.001), first_core(it).update(milliseconds=0.001))),
        r"milliseconds is 0\.001; .* cycles take",
    ),
    "time of a layer": (
        "ansi_c",
        report(lambda it: it["layers"][0].update(milliseconds=0.0)),
        r"milliseconds is .* here, and",
    ),
    "a line for people": (
        "ansi_c",
        report(lambda it: it["details"].update(summary=["RAM 1,234,567 B"])),
        r"speaks of 1,234,567, a count that stands nowhere else",
    ),
    "a clock that stands still": (
        "ansi_c",
        report(lambda it: first_core(it).update(clock_mhz=0)),
        "cannot be read",
    ),
    "a time that is none": ("ansi_c", report(lambda it: it.update(speed=[{"what": "time"}])), "speed|cannot be read"),
    "an object in place of a list": (
        "ansi_c",
        json_of("small.json", lambda it: it.update(inputs={"name": 1})),
        "inputs is no list of tensors",
    ),
    "format of an output": (
        "nnie",
        json_of("segments.json", lambda it: it["outputs"][0].update(format="s32.1")),
        r"segments\.json: .* outputs\[0\]\.format is 's32\.1' here",
    ),
    "a setting of the mapper": (
        "nnie",
        text("small.cfg", r"\[norm_type\] \d", "[norm_type] 5"),
        r"small\.cfg: .* norm_type is '5' here",
    ),
    "pictures of the mapper": ("nnie", text("small.cfg", "images_x", "others"), r"names '\./others\.txt'"),
    "the chip": (
        "nnie",
        all_of(
            json_of("segments.json", lambda it: it.update(chip="Hi3516CV500")),
            report(lambda it: it["details"].update(chip="Hi3516CV500")),
        ),
        r"details\.chip is 'Hi3516CV500' here, and 'hi3559av100' in recipe",
    ),
    "an estimate": (
        "nnie",
        report(lambda it: it["details"]["estimate"].update(milliseconds=0.0001)),
        r"speed\[0\]\.value is .* here, and 0\.0001",
    ),
    "distances of the build among the choices": (
        "nnie",
        report(lambda it: [row.update(cosine=0.5) for row in it["details"]["precision"] if row["built"]]),
        r"cosine is 0\.5",
    ),
    "shape of an ONNX file": ("onnx_qdq", other_network, r"model\.onnx: .* inputs\[0\]\.shape\[\d\] is \d+ here"),
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
    assert any(line.startswith("artifact: ") for line in result.checked)
    assert not any("not computed again" in line for line in result.unproven)


def test_what_no_signature_vouches_for_is_said_second(packages: Callable[[str], Path]) -> None:
    package = packages("ansi_c")
    done = run_nnkit("package", "verify", package, "--proofs")
    first, second = done.stdout.splitlines()[:2]
    assert first == f"{package}: intact, not signed by a key you trust"
    assert second.startswith("  not proven without a signature: ")
    assert "code and weights" in second
    assert re.search(r"time \S+ ms", second)


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
