"""Verification: are two images of one person? Recall at a false-positive rate, and accuracy, over pairs.

Scores rank pairs: cosine similarity, or the negative Euclidean distance. A pair passes where its score lies above
the threshold. The threshold of a false-positive rate r over n pairs of two people is the (floor(r n) + 1)-largest of
their scores: no more than floor(r n) of them pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nnkit.verify.tasks.score import Metric, Outputs, TaskScore

_ROC_POINTS = 200

MetricName: TypeAlias = Literal["cosine", "l2"]


@dataclass(frozen=True, eq=False)
class Pairs:
    """first, second: [P] indices of images. same: [P] whether both are of one person."""

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    same: NDArray[np.bool_]


@dataclass(frozen=True)
class VerificationResult:
    """How well one set of descriptors tells people apart.

    threshold: the score above which `false_positive_rate` of the pairs of two people pass; recall: the share of pairs
    of one person that pass. accuracy: at the threshold that is best for it, both kinds of pairs weighted equally.
    """

    threshold: float
    recall: float
    accuracy: float


def all_pairs(identities: Sequence[str]) -> Pairs:
    """Every pair of images once; `same` where the identities are equal."""
    count = len(identities)
    first, second = np.triu_indices(count, 1)
    names = np.asarray(identities)
    same = names[first] == names[second] if count else np.zeros(0, bool)
    return Pairs(first.astype(np.int64), second.astype(np.int64), np.asarray(same, bool))


def pair_scores(features: NDArray[Any], pairs: Pairs, metric: MetricName) -> NDArray[np.float64]:
    """[N, D] descriptors -> [P] scores, larger is more alike. A descriptor of zeros is like nothing: cosine 0."""
    values = np.asarray(features, np.float64)
    a, b = values[pairs.first], values[pairs.second]
    if metric == "l2":
        return np.asarray(-np.linalg.norm(a - b, axis=1))
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    return np.asarray(np.divide(np.sum(a * b, axis=1), norms, out=np.zeros(len(norms)), where=norms > 0))


def verify_pairs(scores: NDArray[np.float64], same: NDArray[np.bool_], rate: float) -> VerificationResult:
    """Recall and accuracy; NaN where there are no pairs of one of the two kinds."""
    positive, negative = scores[same], np.sort(scores[~same])[::-1]
    if not positive.size or not negative.size:
        return VerificationResult(float("nan"), float("nan"), float("nan"))
    threshold = float(negative[min(int(rate * negative.size), negative.size - 1)])
    recall = float(np.mean(positive > threshold))
    return VerificationResult(threshold, recall, _best_accuracy(positive, negative))


def _best_accuracy(positive: NDArray[np.float64], negative: NDArray[np.float64]) -> float:
    """The largest mean of both kinds' shares of right decisions over all thresholds."""
    thresholds = np.unique(np.concatenate([positive, negative]))
    passed = 1.0 - np.searchsorted(np.sort(positive), thresholds, side="right") / positive.size
    refused = np.searchsorted(np.sort(negative), thresholds, side="right") / negative.size
    return float(max(0.5, np.max((passed + refused) / 2)))


def score_verification(floats: Outputs, program: Outputs, pairs: Pairs, metric: MetricName, rate: float) -> TaskScore:
    """Both networks on the same pairs.

    false_positives_at_float_threshold: the share of pairs of two people that pass the float network's threshold in
    the quantised one: what happens where the threshold of a product is kept. changed_decisions: the share of all
    pairs decided otherwise, each network at its own threshold.
    """
    scores = [pair_scores(_matrix(o), pairs, metric) for o in (program, floats)]
    own, reference = (verify_pairs(s, pairs.same, rate) for s in scores)
    negative = ~pairs.same
    passing = float(np.mean(scores[0][negative] > reference.threshold)) if negative.any() else float("nan")
    allowed = float(np.mean(scores[1][negative] > reference.threshold)) if negative.any() else float("nan")
    changed = (scores[0] > own.threshold) != (scores[1] > reference.threshold)
    metrics = (
        Metric("recall", own.recall, reference.recall),
        Metric("verification_accuracy", own.accuracy, reference.accuracy),
        Metric("false_positives_at_float_threshold", passing, allowed),
        Metric("changed_decisions", float(np.mean(changed)) if changed.size else float("nan")),
    )
    facts = {
        "images": float(len(program.images)),
        "same_pairs": float(pairs.same.sum()),
        "different_pairs": float(negative.sum()),
        "false_positive_rate": rate,
    }
    drawing = {"roc": {side: _roc(s, pairs.same) for side, s in zip(("program", "float"), scores, strict=True)}}
    return TaskScore("verification", metrics, facts, drawing)


def _roc(scores: NDArray[np.float64], same: NDArray[np.bool_]) -> list[list[float]]:
    """[false-positive rate, recall] at falling thresholds, from (0, 0) to (1, 1): at most `_ROC_POINTS` of them."""
    if not same.any() or same.all():
        return []
    thresholds = np.unique(scores)[::-1]
    if thresholds.size > _ROC_POINTS:
        thresholds = thresholds[np.unique(np.linspace(0, thresholds.size - 1, _ROC_POINTS).astype(np.int64))]
    sides = [np.sort(scores[~same]), np.sort(scores[same])]
    passed = [1.0 - np.searchsorted(side, thresholds, side="left") / side.size for side in sides]
    return [[0.0, 0.0], *([round(float(f), 5), round(float(r), 5)] for f, r in zip(*passed, strict=True))]


def _matrix(outputs: Outputs) -> NDArray[np.float64]:
    return np.stack([np.asarray(value, np.float64).ravel() for value in outputs.values])
