"""A sample of the fuzzing benchmark, and files that are bombs: an error of ours, in bounded time and memory."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest

from benchmarks.caffe_bombs import bombs
from benchmarks.caffe_fuzz import LARGEST_INPUT, attempt, corpus, explode, mutated, run
from benchmarks.caffe_published import PUBLISHED, published
from nnkit.importers import caffe_model

SMALL_BOMB_BYTES = 1 << 17
"""The benchmark takes 1 MiB; cost that grows faster than the file would show here too."""


def test_mutated_files_end_in_an_import_or_in_an_error_of_ours() -> None:
    tally = run(0, 600, limited=False)
    assert tally.failures == []
    assert tally.outcomes["imported"] > 30  # mutations that leave a network are tried too
    assert tally.outcomes["refused"] > 300


def test_mutated_published_networks_end_so_too(shared_dir: Path) -> None:
    tally = run(0, 160, limited=False, folder=shared_dir)
    assert tally.failures == []
    assert tally.outcomes["imported"] > 8
    assert tally.outcomes["refused"] > 80


def test_published_networks_are_small_files_with_all_their_kinds_of_layers(shared_dir: Path) -> None:
    seedlings = {seedling.name: seedling for seedling in published(shared_dir)}
    for seedling in seedlings.values():
        assert len(seedling.prototxt) + len(seedling.caffemodel) < LARGEST_INPUT
        assert attempt(seedling) == ("refused" if seedling.name.endswith("_cut") else "imported")
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
    inputs = [mutated(number, seedlings) for number in range(200)]
    assert inputs == [mutated(number, seedlings) for number in range(200)]
    changed = [entry for entry in inputs if entry != originals[entry.name]]
    assert len(changed) > 180
    assert sum(entry.caffemodel != originals[entry.name].caffemodel for entry in inputs) > 20


def test_a_failure_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The harness reports any exception that is not an error for users."""
    import nnkit.importers

    def broken(*arguments: object) -> None:
        raise KeyError("layer")

    monkeypatch.setattr(nnkit.importers, "caffe_model", broken)
    tally = run(0, 3, limited=False)
    assert [number for number, _ in tally.failures] == [0, 1, 2]
    assert "KeyError" in tally.failures[0][1]


def _explode(name: str) -> str:
    return explode(name, SMALL_BOMB_BYTES, seconds=60)


def test_bombs_stay_within_time_and_memory() -> None:
    names = list(bombs(SMALL_BOMB_BYTES))
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        for name, outcome in zip(names, pool.imap(_explode, names), strict=True):
            assert outcome in ("imported", "refused"), f"{name}: {outcome}"


def test_bombs_have_the_size_that_is_asked_for() -> None:
    sizes = {name: len(bomb.prototxt) + len(bomb.caffemodel) for name, bomb in bombs(SMALL_BOMB_BYTES).items()}
    assert max(sizes.values()) <= SMALL_BOMB_BYTES + 200
    assert sum(size > SMALL_BOMB_BYTES // 2 for size in sizes.values()) > 20
