"""Calibration in parts: bit-identical however it is divided, and it goes on where it was interrupted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnkit.cache import StageCache
from nnkit.calibrate import calibrate
from nnkit.calibrate.checkpoint import Checkpoint
from nnkit.calibrate.parts import PART_IMAGES, calibrate_in_parts
from nnkit.calibrate.run import Naming
from nnkit.calibrate.stats import CalibrationStats
from nnkit.errors import UserFileError
from nnkit.executors import ExecutorChoice
from nnkit.graph.model import Model
from nnkit.preprocess import Preprocess
from nnkit.recipe import Calibration
from tests.end_to_end.networks import squeezenet

KEY = "ab" * 32
COUNT = 3 * PART_IMAGES + 5


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Model:
    from nnkit.importers import import_onnx

    path = tmp_path_factory.mktemp("network") / "net.onnx"
    squeezenet(path)
    return import_onnx(path).model


@pytest.fixture(scope="module")
def sources(network: Model, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    """Inputs as `.npy` files, each with a range of its own; the third is damaged."""
    folder = tmp_path_factory.mktemp("inputs")
    spec = network.inputs[0]
    for index in range(COUNT):
        generator = np.random.default_rng(index)
        np.save(folder / f"{index}.npy", generator.normal(0, 1 + index, spec.shape).astype(np.float32))
    (folder / "2.npy").write_bytes(b"no array")
    return {spec.name: [folder / f"{index}.npy" for index in range(COUNT)]}


def run(network: Model, sources: dict[str, list[Path]], choice: ExecutorChoice, **more: Any) -> CalibrationStats:
    preprocess = {spec.name: Preprocess.from_recipe(None, spec.shape) for spec in network.inputs}
    settings = Calibration(method="mse", bad_images=more.pop("bad_images", 0.1))
    options: dict[str, Any] = {"checkpoint": None, "progress": lambda images: None} | more
    return calibrate_in_parts(network, sources, preprocess, settings, Naming(where="recipe"), choice, **options)


@pytest.fixture(scope="module")
def whole(network: Model, sources: dict[str, list[Path]]) -> CalibrationStats:
    """One pass over everything, undivided."""
    return calibrate(network, sources, {}, method="mse", bad_images=0.1)


@pytest.mark.parametrize(
    "choice", [ExecutorChoice(), ExecutorChoice(workers=2), ExecutorChoice("dask", workers=2)], ids=str
)
def test_every_division_gives_the_same_table(
    network: Model, sources: dict[str, list[Path]], whole: CalibrationStats, choice: ExecutorChoice
) -> None:
    if choice.name == "dask":
        pytest.importorskip("distributed")
    seen: list[int] = []
    found = run(network, sources, choice, progress=seen.append)
    assert found.digest == whole.digest
    assert list(found.ranges) == list(whole.ranges)
    assert [image.name for image in found.skipped] == [image.name for image in whole.skipped]
    assert sum(seen) == COUNT


def test_an_interrupted_run_goes_on_where_it_was(
    network: Model, sources: dict[str, list[Path]], whole: CalibrationStats, tmp_path: Path
) -> None:
    cache = StageCache(tmp_path)
    done: list[int] = []

    def interrupt(images: int) -> None:
        done.append(images)
        if sum(done) >= 2 * PART_IMAGES:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(network, sources, ExecutorChoice(), checkpoint=Checkpoint(cache, KEY), progress=interrupt)
    kept = Checkpoint(cache, KEY).read()
    assert sorted(kept.skipped) == [0]  # the part during which it was interrupted is not counted
    seen: list[int] = []
    found = run(network, sources, ExecutorChoice(), checkpoint=Checkpoint(cache, KEY), progress=seen.append)
    assert found.digest == whole.digest
    assert seen[0] == PART_IMAGES  # taken from the checkpoint
    assert Checkpoint(cache, KEY).read().skipped == {}  # and removed at the end


def test_a_damaged_checkpoint_counts_as_none(
    network: Model, sources: dict[str, list[Path]], whole: CalibrationStats, tmp_path: Path
) -> None:
    cache = StageCache(tmp_path)
    cache.put(KEY, {"checkpoint": b"nonsense"})
    found = run(network, sources, ExecutorChoice(), checkpoint=Checkpoint(cache, KEY))
    assert found.digest == whole.digest


def test_too_many_bad_images_are_all_named(network: Model, sources: dict[str, list[Path]]) -> None:
    with pytest.raises(UserFileError, match="calibration image") as caught:
        run(network, sources, ExecutorChoice(workers=2), bad_images=0.0)
    assert "2.npy" in str(caught.value)
