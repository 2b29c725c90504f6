"""Samples of the fuzzer's Caffe classes, and files that are bombs: an error of ours, in bounded time and memory."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from benchmarks.caffe_published import PUBLISHED, published
from fuzz import classes, trial
from fuzz.caffe import attempt, corpus, mutated, read
from fuzz.caffe_bombs import bombs
from fuzz.damage import LARGEST_INPUT_BYTES
from nnkit.errors import ModelError
from nnkit.importers import caffe_model

SMALL_BOMB_BYTES = 1 << 17
"""The fuzzer takes 1 MiB; cost that grows faster than the file would show here too."""


@pytest.mark.parametrize(("name", "count"), [("caffe", 600), ("caffe_published", 160)])
def test_damaged_networks_end_in_an_import_or_in_an_error_of_ours(
    name: str, count: int, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "caffe_published":
        monkeypatch.setenv("NNKIT_SHARED", str(request.getfixturevalue("shared_dir")))
    tally = trial.try_inputs(name, count, seed=0)
    assert tally.findings == []
    assert tally.counts["passed"] > count / 20  # damages that leave a network are tried too
    assert tally.counts["refused"] > count / 2


def test_published_networks_are_small_files_with_all_their_kinds_of_layers(shared_dir: Path) -> None:
    seedlings = {seedling.name: seedling for seedling in published(shared_dir)}
    for seedling in seedlings.values():
        assert len(seedling.prototxt) + len(seedling.caffemodel) < LARGEST_INPUT_BYTES
        if seedling.name.endswith("_cut"):
            with pytest.raises(ModelError):
                read(seedling)
        else:
            read(seedling)
    thin = caffe_model(seedlings["res10_thin"].prototxt, seedlings["res10_thin"].caffemodel).model
    assert thin.outputs[0].shape == (1, 1, 200, 7)
    # What is kept is kept byte for byte, as far as the weights reach.
    for name, (text, weights) in PUBLISHED.items():
        if f"{name}_head" in seedlings:
            head = seedlings[f"{name}_head"]
            assert (shared_dir / "models" / text).read_bytes().startswith(head.prototxt)
            assert (shared_dir / "models" / weights).read_bytes().startswith(head.caffemodel)


def test_inputs_are_reproducible_and_really_damaged() -> None:
    seedlings = corpus()
    originals = {seedling.name: seedling for seedling in seedlings}
    inputs = [mutated(Random(number), seedlings) for number in range(200)]
    assert inputs == [mutated(Random(number), seedlings) for number in range(200)]
    changed = [entry for entry in inputs if entry != originals[entry.name]]
    assert len(changed) > 180
    assert sum(entry.caffemodel != originals[entry.name].caffemodel for entry in inputs) > 20


def test_bombs_stay_within_time_and_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    each = sorted(bombs(SMALL_BOMB_BYTES).items())
    numbers = iter(range(len(each)))

    def burst(given: Any, chance: Random, folder: Path) -> None:
        if chance.random() != warm_up:
            read(each[next(numbers)][1])
        else:
            attempt(corpus(), chance, folder)

    warm_up = Random(0).random()
    monkeypatch.setattr(trial, "CLASSES", {"bombs": classes.FileClass(lambda folder: None, burst, warm_up=1)})
    assert trial.try_inputs("bombs", len(each), seed=0).findings == []


def test_bombs_have_the_size_that_is_asked_for() -> None:
    sizes = {name: len(bomb.prototxt) + len(bomb.caffemodel) for name, bomb in bombs(SMALL_BOMB_BYTES).items()}
    assert max(sizes.values()) <= SMALL_BOMB_BYTES + 200
    assert sum(size > SMALL_BOMB_BYTES // 2 for size in sizes.values()) > 20
