"""What the pictures of tasks are drawn from, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from nnkit.verify.tasks.classification import score_classification
from nnkit.verify.tasks.detection import Box, score_detection
from nnkit.verify.tasks.score import Outputs
from nnkit.verify.tasks.verification import all_pairs, score_verification


def outputs(*values: object) -> Outputs:
    return Outputs(tuple(f"{i}.png" for i in range(len(values))), tuple(np.asarray(v, np.float64) for v in values))


def test_confusion_by_labels_and_by_the_float_network() -> None:
    floats, program = outputs([1, 0, 0], [0, 1, 0], [0, 1, 0]), outputs([1, 0, 0], [0, 0, 1], [0, 1, 0])
    labelled = score_classification(floats, program, {0: 0, 1: 1, 2: 2}).drawing["confusion"]
    assert (labelled["classes"], labelled["truth"]) == ([0, 1, 2], "labels")
    assert labelled["program"] == [[1, 0, 0], [0, 0, 1], [0, 1, 0]]
    assert labelled["float"] == [[1, 0, 0], [0, 1, 0], [0, 1, 0]]
    alone = score_classification(floats, program, None).drawing["confusion"]
    assert (alone["truth"], alone["program"]) == ("float", [[1, 0, 0], [0, 1, 1], [0, 0, 0]])
    assert "float" not in alone


def test_of_many_classes_those_with_mistakes_are_shown() -> None:
    floats = outputs(*np.eye(50))
    wrong = np.eye(50)
    wrong[40], wrong[7] = np.eye(50)[7], np.eye(50)[40]
    drawn = score_classification(floats, outputs(*wrong), None).drawing["confusion"]
    assert (len(drawn["classes"]), drawn["all_classes"]) == (30, 50)
    assert {7, 40} <= set(drawn["classes"])


def test_roc_runs_through_every_threshold() -> None:
    """Distances 1 and 0.5 within, 1.5 and 10.5 to 12 between: the pair at 1.5 comes after both."""
    features = outputs([0.0], [1.0], [2.5], [3.0])
    pairs = all_pairs(["a", "a", "b", "b"])
    roc = score_verification(features, features, pairs, "l2", 0.1).drawing["roc"]
    assert roc["program"] == roc["float"]
    assert roc["program"][:3] == [[0.0, 0.0], [0.0, 0.5], [0.0, 1.0]]
    assert roc["program"][-1] == [1.0, 1.0]
    only_same = all_pairs(["a", "a", "a", "a"])
    assert score_verification(features, features, only_same, "l2", 0.1).drawing["roc"]["float"] == []


@pytest.mark.parametrize(("least", "count"), [(0.5, 1), (0.1, 2)])
def test_boxes_of_enough_score(least: float, count: int) -> None:
    rows = [[0, 3, 0.2, 0, 0, 1, 1], [0, 4, 0.9, 0.25, 0.5, 0.75, 1], [-1, 0, 0, 0, 0, 0, 0]]
    drawn = score_detection(outputs(rows), outputs(rows[:1]), {0: [Box(4, 1.0, 0, 0, 1, 1)]}, 0.5, least).drawing[
        "boxes"
    ]
    assert len(drawn["float"][0]) == count
    assert drawn["float"][0][0] == [4, 0.9, 0.25, 0.5, 0.75, 1.0]
    assert drawn["truth"] == [[[4, 1.0, 0.0, 0.0, 1.0, 1.0]]]
