"""Task metrics against hand-worked examples and, for rankings, brute force over thresholds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nnkit.errors import UserFileError
from nnkit.verify.tasks.classification import score_classification
from nnkit.verify.tasks.detection import Box, boxes_of, mean_average_precision, overlap, score_detection
from nnkit.verify.tasks.labels import (
    ClassNames,
    classes_by_folder,
    read_boxes,
    read_class_names,
    read_classes,
    read_pairs,
)
from nnkit.verify.tasks.score import Metric, Outputs
from nnkit.verify.tasks.verification import all_pairs, pair_scores, score_verification, verify_pairs


def outputs(*values: object) -> Outputs:
    return Outputs(tuple(f"{i}.png" for i in range(len(values))), tuple(np.asarray(v, np.float64) for v in values))


def test_classification_by_hand() -> None:
    floats = outputs([0.1, 0.9, 0, 0, 0, 0], [0.5, 0.4, 0.3, 0.2, 0.1, 0.0], [1, 0, 0, 0, 0, 0])
    program = outputs([0.1, 0.9, 0, 0, 0, 0], [0.1, 0.2, 0.3, 0.4, 0.5, 0.0], [0.0, 1, 1, 1, 1, 1])
    score = score_classification(floats, program, {0: 1, 1: 4})
    found = {m.name: (m.value, m.float_value) for m in score.metrics}
    assert found["top1_agreement"] == (pytest.approx(1 / 3), None)
    assert found["top5_agreement"] == (pytest.approx(2 / 3), None)  # the third has class 0 last of six
    assert found["top1_accuracy"] == (1.0, 0.5)
    assert found["top5_accuracy"] == (1.0, 1.0)


def test_verification_by_hand() -> None:
    """Four descriptors of two people on a line; distances 1 within, 10 and more between, but for one near pair."""
    features = np.asarray([[0.0], [1.0], [1.5], [12.0]])
    pairs = all_pairs(["a", "a", "b", "b"])
    scores = pair_scores(features, pairs, "l2")
    assert sorted(-scores) == [0.5, 1.0, 1.5, 10.5, 11.0, 12.0]
    strict = verify_pairs(scores, pairs.same, 0.01)  # no pair of two people may pass
    assert strict.threshold == -0.5
    assert strict.recall == 0.0
    loose = verify_pairs(scores, pairs.same, 0.5)  # two of four may pass: the threshold is the third-nearest
    assert loose.threshold == -11.0
    assert loose.recall == 1.0
    # best: pass up to distance 1: one of two same pairs, three of four different ones; or up to 10.5: 2/2 and 2/4
    assert strict.accuracy == pytest.approx(0.75)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(1, 12), st.floats(0.01, 0.99))
def test_recall_and_accuracy_equal_a_search_over_all_thresholds(seed: int, p: int, n: int, rate: float) -> None:
    generator = np.random.default_rng(seed)
    scores = generator.integers(0, 8, p + n).astype(np.float64)  # with ties
    same = np.arange(p + n) < p
    result = verify_pairs(scores, same, rate)
    best, accuracy = 0.0, 0.5
    for threshold in [*np.unique(scores), -1.0]:
        passing = scores > threshold
        recall, false = passing[same].mean(), passing[~same].sum()
        accuracy = max(accuracy, (recall + 1 - false / n) / 2)
        if false <= int(rate * n):
            best = max(best, recall)
    assert result.recall == pytest.approx(best)
    assert result.accuracy == pytest.approx(accuracy)


def test_a_kept_threshold_lets_more_false_pairs_pass() -> None:
    pairs = all_pairs(["a", "a", "b", "b"])
    floats = outputs([0.0], [1.0], [11.0], [12.0])
    program = outputs([0.0], [1.0], [1.5], [12.0])
    score = score_verification(floats, program, pairs, "l2", 0.3)
    found = {m.name: (m.value, m.float_value) for m in score.metrics}
    # float: distances between people 10, 11, 11, 12; one of four may pass: the threshold is 11. Quantised: 0.5, 1.5,
    # 11, 12, of which two are nearer.
    assert found["false_positives_at_float_threshold"] == (pytest.approx(2 / 4), pytest.approx(1 / 4))
    assert score.facts["same_pairs"] == 2
    assert score.facts["different_pairs"] == 4


def test_a_zero_descriptor_is_like_nothing() -> None:
    scores = pair_scores(np.asarray([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]]), all_pairs(["a", "a", "a"]), "cosine")
    assert scores.tolist() == [0.0, 0.0, 1.0]


def test_overlap_by_hand() -> None:
    assert overlap(Box(1, 1, 0, 0, 2, 2), Box(1, 1, 1, 1, 3, 3)) == pytest.approx(1 / 7)
    assert overlap(Box(1, 1, 0, 0, 1, 1), Box(1, 1, 1, 0, 2, 1)) == 0.0


def test_average_precision_by_hand() -> None:
    """Three true boxes; found in order of score: right, wrong, right. Precision 1, 1/2, 2/3 at recall 1/3, 1/3, 2/3.

    Made monotone: 1 up to 1/3, 2/3 up to 2/3: area 1/3 + 2/9.
    """
    truth = [[Box(1, 1, 0, 0, 1, 1), Box(1, 1, 2, 0, 3, 1), Box(1, 1, 4, 0, 5, 1)]]
    found = [[Box(1, 0.9, 0, 0, 1, 1), Box(1, 0.8, 8, 0, 9, 1), Box(1, 0.7, 2, 0, 3, 1)]]
    assert mean_average_precision(found, truth, 0.5) == pytest.approx(1 / 3 + 2 / 9)
    twice = [[Box(1, 0.9, 0, 0, 1, 1), Box(1, 0.8, 0, 0, 1, 1)]]
    assert mean_average_precision(twice, truth, 0.5) == pytest.approx(1 / 3)  # a box counts once
    assert mean_average_precision([[Box(2, 0.9, 0, 0, 1, 1)]], truth, 0.5) == 0.0


def test_detections_of_the_float_network_are_found_again() -> None:
    rows = np.asarray([[[0, 1, 0.9, 0, 0, 0.5, 0.5], [0, 1, 0.6, 0.5, 0.5, 1, 1], [-1, 0, 0, 0, 0, 0, 0]]])
    ours = np.asarray([[[0, 1, 0.8, 0, 0, 0.5, 0.5], [-1, 0, 0, 0, 0, 0, 0], [-1, 0, 0, 0, 0, 0, 0]]])
    assert len(boxes_of(rows)) == 2
    score = score_detection(outputs(rows), outputs(ours), {0: [Box(1, 1, 0, 0, 0.5, 0.5)]}, 0.5, 0.5)
    found = {m.name: (m.value, m.float_value) for m in score.metrics}
    assert found["detection_agreement"] == (0.5, None)
    assert found["mean_overlap"] == (1.0, None)
    assert found["mean_average_precision"] == (1.0, 1.0)


HALF = Box(1, 0.9, 0, 0, 1, 0.5)
"""Overlaps the unit square by exactly a half."""
SQUARE = Box(1, 1, 0, 0, 1, 1)


@pytest.mark.parametrize(("least_overlap", "precision"), [(0.5, 1.0), (np.nextafter(0.5, 1.0), 0.0)])
def test_an_overlap_at_the_limit_counts_for_precision(least_overlap: float, precision: float) -> None:
    assert mean_average_precision([[HALF]], [[SQUARE]], least_overlap) == precision


@pytest.mark.parametrize(("least_overlap", "agreement"), [(0.5, 1.0), (np.nextafter(0.5, 1.0), 0.0)])
def test_an_overlap_at_the_limit_counts_for_agreement(least_overlap: float, agreement: float) -> None:
    floats, ours = ([[0, 1, 0.9, 0, 0, 1, bottom]] for bottom in (1.0, 0.5))
    score = score_detection(outputs(floats), outputs(ours), None, least_overlap, 0.5)
    found = {metric.name: metric.value for metric in score.metrics}
    assert found["detection_agreement"] == agreement
    assert found["mean_overlap"] == (0.5 if agreement else pytest.approx(float("nan"), nan_ok=True))


@pytest.mark.parametrize(("least_score", "wanted"), [(0.5, 1), (np.nextafter(0.5, 1.0), 0)])
def test_a_score_at_the_limit_is_wanted(least_score: float, wanted: int) -> None:
    rows = [[0, 1, 0.5, 0, 0, 1, 1]]
    assert score_detection(outputs(rows), outputs(rows), None, 0.5, least_score).facts["float_detections"] == wanted


def test_rows_of_a_negative_image_are_empty_those_of_image_zero_are_not() -> None:
    assert boxes_of(np.array([[-1, 1, 1, 0, 0, 1, 1], [0, 1, 1, 0, 0, 1, 1]])) == [SQUARE]


def test_boxes_without_area_overlap_nothing() -> None:
    line = Box(1, 1, 0, 0, 0, 1)
    assert overlap(line, line) == 0.0
    assert overlap(line, SQUARE) == 0.0


def test_label_files(tmp_path) -> None:  # type: ignore[no-untyped-def]
    images = ["a/1.png", "a/2.png", "b/1.png"]
    classes = tmp_path / "labels.csv"
    classes.write_text("image,class\n# two of three\na/1.png,3\n2.png,0\n")
    assert read_classes(classes, images) == {0: 3, 1: 0}
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("a/1.png,a/2.png,1\na/1.png,b/1.png,0\nelsewhere.png,b/1.png,0\n")
    found = read_pairs(pairs, images)
    assert (found.first.tolist(), found.second.tolist(), found.same.tolist()) == ([0, 0], [1, 2], [True, False])
    boxes = tmp_path / "boxes.csv"
    boxes.write_text("2.png\na/1.png,1,0,0,0.5,0.5\n")
    assert read_boxes(boxes, images) == {1: [], 0: [Box(1, 1.0, 0.0, 0.0, 0.5, 0.5)]}


def test_a_class_that_the_network_does_not_have(tmp_path) -> None:  # type: ignore[no-untyped-def]
    classes = tmp_path / "labels.csv"
    classes.write_text("a.png,2\nelsewhere.png,9\nb.png,3\n")
    assert read_classes(classes, ["a.png", "b.png"], ClassNames(4)) == {
        0: 2,
        1: 3,
    }  # 9 labels no image that is verified on
    with pytest.raises(
        UserFileError, match=r"labels.csv:3: 'b.png' has class 3, but the network has 3 classes, 0 to 2"
    ) as e:
        read_classes(classes, ["a.png", "b.png"], ClassNames(3))
    assert "take 1 off" in str(e.value)
    with pytest.raises(UserFileError, match="1 class, 0") as e:
        read_classes(classes, ["a.png"], ClassNames(1))
    assert "take 1 off" not in str(e.value)


def test_classes_may_be_names(tmp_path) -> None:  # type: ignore[no-untyped-def]
    """In the order of a file, or in alphabetical order, as torchvision's ImageFolder has them."""
    labels, listed = tmp_path / "labels.csv", tmp_path / "classes.txt"
    labels.write_text("a/1.png,stop\na/2.png,go\nb/1.png,wait\n")
    listed.write_text("wait\nstop\n\ngo\n")
    images = ["a/1.png", "a/2.png", "b/1.png"]
    assert read_classes(labels, images, ClassNames(3)) == {0: 1, 1: 0, 2: 2}
    assert read_classes(labels, images, read_class_names(listed, 3)) == {0: 1, 1: 2, 2: 0}
    with pytest.raises(
        UserFileError, match=r"3 class names .go, stop, wait., and the network has 5 classes"
    ) as caught:
        read_classes(labels, images, ClassNames(5))
    assert "classes: classes.txt" in caught.value.remedy
    with pytest.raises(UserFileError, match="3 names, and the network has 5 classes"):
        read_class_names(listed, 5)
    labels.write_text("a/1.png,stpo\n")
    with pytest.raises(UserFileError, match="there is no class 'stpo'") as caught:
        read_classes(labels, images, read_class_names(listed, 3))
    assert "did you mean 'stop'?" in caught.value.remedy


def test_folders_may_be_classes(tmp_path) -> None:  # type: ignore[no-untyped-def]
    images = ["p/stop/1.png", "p/go/1.png", "p/stop/2.png"]
    assert classes_by_folder(images, ClassNames(2), "") == {0: 1, 1: 0, 2: 1}
    assert classes_by_folder(["3/a.png", "0/a.png"], ClassNames(4), "") == {0: 3, 1: 0}
    listed = tmp_path / "classes.txt"
    listed.write_text("stop\nwait\ngo\n")
    assert classes_by_folder(images, read_class_names(listed, 3), "") == {0: 0, 1: 2, 2: 0}
    with pytest.raises(UserFileError, match=r"2 class names .go, stop., and the network has 3 classes"):
        classes_by_folder(images, ClassNames(3), "recipe.yaml:9:3")
    with pytest.raises(UserFileError, match="the folder '7' is no class: the network has 4 classes, 0 to 3"):
        classes_by_folder(["7/a.png"], ClassNames(4), "recipe.yaml:9:3")


@pytest.mark.parametrize(
    ("reader", "content", "said"),
    [
        (read_classes, "1.png,3\n", "labels.csv"),
        (
            read_classes,
            "a/1.png,three\na/2.png,1\n",
            "'three' is a name here, and class 1 a number in .*labels.csv:2",
        ),
        (read_boxes, "a/1.png,three,0,0,1,1\n", "labels.csv:1: this must be a number, not 'three'"),
        (read_classes, "a/1.png,-1\n", "negative"),
        (read_classes, "a/1.png\n", "1 value in this line"),
        (read_classes, "other.png,1\n", "none of its images"),
        (read_pairs, "1.png,a/2.png,1\n", "stands for 2 images"),
        (read_pairs, "a/1.png,a/2.png,yes\n", "neither 0 nor 1"),
        (read_pairs, "x,y,1\n", "none of its pairs"),
        (read_boxes, "a/1.png,1,0,0,200,200\n", "outside 0..1"),
    ],
)
def test_bad_label_files_say_where(tmp_path, reader, content: str, said: str) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "labels.csv"
    path.write_text(content)
    if content == "1.png,3\n":  # a name that stands for several images labels all of them
        assert reader(path, ["a/1.png", "b/1.png"]) == {0: 3, 1: 3}
        return
    with pytest.raises(UserFileError, match=said) as caught:
        reader(path, ["a/1.png", "a/2.png", "b/1.png"])
    assert "labels.csv" in str(caught.value)


@pytest.mark.parametrize(
    ("metric", "numbers"),
    [
        (Metric("recall", 0.5), (0.5, None)),
        (Metric("recall", 0.5, 0.25), (0.5, 0.25)),
        (Metric("recall", float("nan"), float("inf")), (None, None)),
    ],
)
def test_what_is_no_number_or_was_not_measured_is_null(metric: Metric, numbers: tuple[float | None, ...]) -> None:
    entry = metric.as_json()
    assert (entry["program"], entry["float"]) == numbers


def test_boxes_without_a_side_overlap_nothing() -> None:
    flat = Box(1, 1.0, 0.0, 0.0, 1.0, 0.0)
    assert overlap(flat, flat) == 0.0
