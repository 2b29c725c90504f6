"""pca_combine: the full face's projection and length come out of two halves."""

from __future__ import annotations

import numpy as np
import pytest

from nnkit.errors import UsageError
from nnkit.postprocess import PcaCombine, combine_halves, combine_stored
from nnkit.program.formats import Fixed
from nnkit.rewrite.edits.split_full_face_pca import split_layer
from nnkit.rewrite.pca import Pca, fit_pca


def full_face(pca: Pca, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The projection of the full face, scaled to the length of the centred feature: the textbook way."""
    centred = np.concatenate([left, right]) - pca.mean
    projected = centred @ pca.matrix
    length = np.linalg.norm(projected)
    return projected / length * np.linalg.norm(centred) if length else projected


@pytest.mark.parametrize(("features", "components"), [(1, 1), (6, 3), (64, 20), (256, 128), (16, 32)])
def test_two_halves_are_the_full_face(features, components):
    rng = np.random.default_rng(features)
    pca = Pca(rng.normal(1, 2, 2 * features), rng.normal(0, 1, (2 * features, components)))
    weight, bias = split_layer(pca)
    for _ in range(20):
        left, right = rng.normal(0.5, 2, (2, features))
        combined = combine_halves(weight @ left + bias, weight @ right + bias, components)
        wanted = full_face(pca, left, right)
        np.testing.assert_allclose(combined, wanted, rtol=0, atol=1e-11 * np.abs(wanted).max())


def test_of_a_trained_pca_too():
    rng = np.random.default_rng(4)
    faces = rng.normal(0, 1, (300, 24)) @ rng.normal(0, 1, (24, 24)) + 5
    pca = fit_pca(faces, 10)
    weight, bias = split_layer(pca)
    for face in faces[:20]:
        combined = combine_halves(weight @ face[:12] + bias, weight @ face[12:] + bias, 10)
        np.testing.assert_allclose(combined, full_face(pca, face[:12], face[12:]), rtol=0, atol=1e-10)


def test_worked_by_hand():
    # K = 1, F = 2. Left: share 3, (other share), features (1, 2). Right: (other), share 1, (other), features (2, 4).
    left = np.array([3.0, 9.0, 1.0, 2.0, 8.0, 8.0])
    right = np.array([7.0, 1.0, 6.0, 6.0, 2.0, 4.0])
    # projection 3 + 1 = 4, centred feature (1, 2, 2, 4) of length 5
    np.testing.assert_array_equal(combine_halves(left, right, 1), [5.0])


def test_no_length_gives_zero():
    left, right = np.array([3.0, 0, 0, 0]), np.array([0, 1.0, 0, 0])
    np.testing.assert_array_equal(combine_halves(left, right, 1), [0.0])  # features 0
    np.testing.assert_array_equal(combine_halves(np.array([1.0, 0, 5, 0]), np.array([0, -1.0, 0, 7]), 1), [0.0])


def test_stored_numbers_stand_for_real_ones():
    params = PcaCombine(2, 1, Fixed(32, 12))
    left = np.array([3.0, 9.0, 1.0, 2.0, 8.0, 8.0])
    right = np.array([7.0, 1.0, 6.0, 6.0, 2.0, 4.0])
    stored = [params.format.quantize(half).astype(np.int32) for half in (left, right)]
    np.testing.assert_array_equal(combine_stored(params, *stored), [5.0])


@pytest.mark.parametrize(
    ("arguments", "where"),
    [
        ((0, 1, Fixed(32, 12)), "pca_combine.features"),
        ((1, 0, Fixed(32, 12)), "pca_combine.components"),
        ((1 << 19, 1 << 19, Fixed(32, 12)), "pca_combine values of a half"),
        ((4, 4, Fixed(32, 33)), "pca_combine.format"),
        ((4, 4, Fixed(64, 12)), "pca_combine.format"),
    ],
)
def test_parameters_out_of_range(arguments, where):
    with pytest.raises(UsageError) as caught:
        PcaCombine(*arguments)
    assert caught.value.where == where


def test_wrong_halves_are_refused():
    with pytest.raises(UsageError, match=r"int64 of shape \[6\]"):
        combine_stored(PcaCombine(2, 1, Fixed(32, 12)), np.zeros(6, np.int64), np.zeros(6, np.int32))
    for left, right, components in ((5, 5, 1), (6, 4, 1), (6, 6, 3), (6, 6, 0)):
        with pytest.raises(UsageError, match="are not 2 x"):
            combine_halves(np.zeros(left), np.zeros(right), components)
