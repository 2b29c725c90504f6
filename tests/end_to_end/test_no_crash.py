"""Every network at hand, planned for every target: it can be built, or is refused with a reason; none ends in a bug.

Shared networks, one of each Caffe layer type, and 300 of ONNX's own node tests. A seeded tenth of them, or all of
them with NNKIT_ALL_PLANS=1 in the environment.
"""

from __future__ import annotations

import importlib.util
import os
import random
import traceback
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks.caffe_corpus import cases
from nnkit.api.planning import plan_of, planned_builds
from nnkit.api.preparing import load
from nnkit.errors import ExitCode, NnkitError
from nnkit.report.progress import Progress
from nnkit.stages import Build, import_model

SEED = 37
NODE_TESTS = 300
SHARE = 1 if os.environ.get("NNKIT_ALL_PLANS") else 10
SUFFIXES = (".onnx", ".tflite", ".prototxt")
SLOW = ("gru", "basic_pitch", "enet", "SqueezeNet", "silero", "res10", "retinaface", "reid", "RFB")
"""Parts of names of shared networks that take minutes; they are among all, not among the tenth."""
TARGETS = {
    "ansi_c": {},
    "ansi_c@float": {"precision": "float32"},
    "gap8": {},
    "nnie": {"chip": "hi3516cv500"},
    "onnx_qdq": {},
    "tpu@bm": {"chip": "bm1684x"},
    "tpu@cv": {"chip": "cv181x"},
}


def crashes_of(networks: Sequence[Path], folder: Path) -> list[str]:
    """What ended otherwise than well or with a reason that a user can read, with where it did."""
    found = []
    for network in networks:
        for build in _builds(network, folder / "recipe.yaml"):
            crash, imported = "", False
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    import_model(build)
                    imported = True
                    plan_of(build)
            except NnkitError as error:
                crash = traceback.format_exc() if error.exit_code == ExitCode.INTERNAL else ""
            except Exception:
                crash = traceback.format_exc()
            if crash:
                found.append(f"{network.name} {build.key}: ...{crash[-1200:]}")
            if not imported:
                break  # the other targets would read the same file
    return found


def _builds(network: Path, recipe: Path) -> Iterator[Build]:
    model = {"path": str(network)}
    if network.suffix == ".prototxt":
        beside = [network.with_suffix(".caffemodel"), *sorted(network.parent.glob("*.caffemodel"))]
        model["weights"] = str(next((each for each in beside if each.exists()), beside[0]))
    recipe.write_text(yaml.safe_dump({"nnkit": 1, "name": "net", "model": model, "targets": TARGETS}))
    return iter(planned_builds(load(recipe), (), Progress(quiet=True), cache=True))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NNKIT_CACHE", str(tmp_path / "cache"))  # an import serves all targets
    return tmp_path


def _drawn(items: Sequence[Any], count: int) -> list[Any]:
    return random.Random(SEED).sample(list(items), min(count, len(items)))


@pytest.mark.timeout(0 if SHARE == 1 else 900)
def test_shared_networks(shared_dir: Path, folder: Path) -> None:
    files = [
        path
        for part in ("cases", "models", "nets")
        for path in sorted((shared_dir / part).rglob("*"))
        if path.suffix in SUFFIXES and (SHARE == 1 or not any(word in path.name for word in SLOW))
    ]
    assert len(files) > 100
    assert crashes_of(_drawn(files, len(files) // SHARE), folder) == []


def test_a_network_of_each_caffe_layer_type(folder: Path) -> None:
    files = []
    for case in _drawn(cases(), len(cases()) // SHARE):
        files.append(folder / f"{case.name}.prototxt")
        files[-1].write_text(case.prototxt())
        files[-1].with_suffix(".caffemodel").write_bytes(case.caffemodel())
    assert crashes_of(files, folder) == []


def test_node_tests_of_onnx(shared_dir: Path, folder: Path) -> None:
    spec = importlib.util.spec_from_file_location("onnx_node_tests", shared_dir / "tools" / "onnx_node_tests.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    files = []
    for case in _drawn(tool.counted(), NODE_TESTS)[::SHARE]:
        files.append(folder / f"{case.name}.onnx")
        files[-1].write_bytes(case.model.SerializeToString())
    assert crashes_of(files, folder) == []
