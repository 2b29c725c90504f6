"""A target in a package of its own is found after `pip install` and runs a recipe."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.end_to_end.networks import resnet

PLUGIN = Path(__file__).parent / "plugin"
RECIPE = """\
nnkit: 1
name: small
model:
  path: net.onnx
  inputs:
    x: {calibration: {images: "cal*.npy"}}
targets:
  listing: {ram: 256KiB}
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which the plugin is installed beside nnkit."""
    root = tmp_path_factory.mktemp("plugin")
    source, site = root / "source", root / "site"
    shutil.copytree(PLUGIN, source, ignore=shutil.ignore_patterns("*.egg-info", "build", "__pycache__"))
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "--target",
        str(site),
    ]
    subprocess.run([*command, str(source)], check=True, capture_output=True, text=True)
    return {**os.environ, "PYTHONPATH": str(site), "NNKIT_CACHE": str(root / "cache")}


def nnkit(environment: dict[str, str], *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from nnkit.cli import main; main()", *arguments],
        env=environment,
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )


def test_plugin_is_listed_and_in_the_schema(environment: dict[str, str], tmp_path: Path) -> None:
    listed = json.loads(nnkit(environment, "targets", "list", "--json", cwd=tmp_path).stdout)
    assert listed["listing"] == "lists the program as text"
    assert "gap8" in listed
    shown = json.loads(nnkit(environment, "targets", "show", "listing", "--json", cwd=tmp_path).stdout)
    assert shown["limits"] == ["names have at most 60 characters"]
    schema = nnkit(environment, "schema", cwd=tmp_path).stdout
    assert "Memory for all tensors." in schema


def test_plugin_runs_a_recipe(environment: dict[str, str], tmp_path: Path) -> None:
    resnet(tmp_path / "net.onnx")
    for index in range(3):
        np.save(tmp_path / f"cal{index}.npy", np.random.default_rng(index).normal(0, 1, (1, 3, 24, 24)).astype("f4"))
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    done = nnkit(environment, "run", "recipe.yaml", cwd=tmp_path)
    assert done.returncode == 6, done.stderr  # the plugin has no runner: nothing has run the listing
    report = json.loads((tmp_path / "out/small/listing/report.json").read_text())
    assert report["status"] == "unproven"
    assert "the target has no runner" in done.stderr
    assert "fix: give the target a runner" in done.stderr
    assert report["memory"]["ram"]["capacity_bytes"] == 256 * 1024
    listing = (tmp_path / "out/small/listing/artifact/listing.txt").read_text().splitlines()
    assert len(listing) == len(report["layers"])
    assert listing[0].startswith("conv")


def test_what_the_plugin_cannot_list_is_refused_with_its_remedy(environment: dict[str, str], tmp_path: Path) -> None:
    resnet(tmp_path / "net.onnx")
    model = onnx.load(tmp_path / "net.onnx")
    convolution = next(node for node in model.graph.node if node.op_type == "Conv")
    convolution.name = "a_name_that_is_a_good_deal_longer_than_what_a_line_of_the_listing_takes"
    onnx.save(model, tmp_path / "net.onnx")
    np.save(tmp_path / "cal0.npy", np.random.default_rng(0).normal(0, 1, (1, 3, 24, 24)).astype("f4"))
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    done = nnkit(environment, "run", "recipe.yaml", cwd=tmp_path)
    assert done.returncode == 3, done.stderr
    assert "1 limit of the listing is exceeded:" in done.stderr
    assert (
        f"{convolution.name} (conv2d): names have at most 60 characters; found {len(convolution.name)}" in done.stderr
    )
    assert "fix: rename the layer in the model" in done.stderr
