"""Inputs of verification: quantised as the formats say, and the corners that a stress input must reach."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnkit.program import Fixed, Program, Tensor
from nnkit.program.inputs import quantized_inputs, stress_inputs
from nnkit.samples import Sample
from nnkit.verify.store import float_input_path, store_samples


def program(*tensors: Tensor) -> Program:
    """Inputs only: what the program computes does not matter here."""
    names = tuple(t.name for t in tensors)
    return Program("inputs", {t.name: t for t in tensors}, (), names, names)


def test_half_up_then_clipped_to_the_tensor_and_without_batch() -> None:
    # s8.2: quarters. 0.125 is half a step: up to 1; -0.125: up to 0; the tensor holds -8..20 only.
    tensor = Tensor("x", (1, 2, 3), Fixed(8, 2), -8, 20)
    real = np.array([0.125, -0.125, 0.24, 100.0, -100.0, 4.9], np.float32).reshape(1, 1, 2, 3)
    stored = quantized_inputs(program(tensor), Sample("", {"x": real}))["x"]
    assert stored.shape == (1, 2, 3)
    assert stored.dtype == np.int64
    np.testing.assert_array_equal(stored.ravel(), [1, 0, 1, 20, -8, 20])


def test_inputs_that_the_program_does_not_have_are_ignored() -> None:
    tensor = Tensor("x", (2,), Fixed(8, 0), -128, 127)
    stored = quantized_inputs(program(tensor), Sample("", {"y": np.ones(9, np.float32), "x": np.ones((1, 2))}))
    assert list(stored) == ["x"]


@pytest.mark.parametrize(("low", "high"), [(-32768, 32767), (0, 255), (-3, 5)])
def test_stress_reaches_both_ends_and_never_leaves_the_range(low: int, high: int) -> None:
    tensor = Tensor("x", (3, 20, 20), Fixed(16, 0), low, high)
    noise, ends = (given["x"] for given in stress_inputs(program(tensor), 2))
    for given in (noise, ends):
        assert given.shape == tensor.shape
        assert low <= given.min()
        assert given.max() <= high
    assert set(np.unique(ends)) == {low, high}
    middle = (low + high) / 2
    assert abs(float(noise.mean()) - middle) < 0.1 * (high - low)  # uniform, not stuck at an end
    assert len(np.unique(noise)) > 2


def test_stress_is_the_same_every_time_and_differs_between_inputs() -> None:
    a = Tensor("a", (4, 8, 8), Fixed(16, 0), -100, 100)
    b = Tensor("b", (4, 8, 8), Fixed(16, 0), -100, 100)
    first, second = stress_inputs(program(a, b), 4), stress_inputs(program(a, b), 4)
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one["a"], other["a"])
        assert (one["a"] != one["b"]).any()
    assert (first[0]["a"] != first[2]["a"]).any()
    assert stress_inputs(program(a), 0) == []


def test_stored_samples_hold_real_and_stored_values(tmp_path: Path) -> None:
    tensor = Tensor("x", (1, 1, 2), Fixed(16, 8), -32768, 32767)
    samples = [Sample("", {"x": np.array([[[[0.5, index]]]], np.float32)}) for index in range(6)]
    store_samples(
        tmp_path / "verify", program(tensor), samples, [quantized_inputs(program(tensor), s) for s in samples]
    )
    names = sorted(path.name for path in (tmp_path / "verify").iterdir())
    assert names == sorted(f"{i}_x{kind}.npy" for i in range(4) for kind in ("", "_float"))  # the first four are kept
    np.testing.assert_array_equal(np.load(tmp_path / "verify/2_x.npy").ravel(), [128, 512])
    np.testing.assert_array_equal(np.load(float_input_path(tmp_path / "verify", 2, "x")).ravel(), [0.5, 2.0])


def test_names_that_are_no_file_names_stay_apart(tmp_path: Path) -> None:
    names = ["a/b", "a_b", "x", "x_float", "é", "../up", "n" * 300]
    tensors = [Tensor(name, (1,), Fixed(16, 0), -32768, 32767) for name in names]
    sample = Sample("", {name: np.array([[index]], np.float32) for index, name in enumerate(names)})
    folder = tmp_path / "inner" / "verify"
    folder.parent.mkdir()
    store_samples(folder, program(*tensors), [sample], [quantized_inputs(program(*tensors), sample)])
    assert len(list(folder.iterdir())) == 2 * len(names)
    assert [path.name for path in folder.parent.iterdir()] == ["verify"]
    for index, name in enumerate(names):
        assert np.load(float_input_path(folder, 0, name)).item() == index
