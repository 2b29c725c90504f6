"""Classification: top-1 and top-5 agreement with the float network, and accuracy where labels are known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.verify.tasks.score import Metric, Outputs, TaskScore

_MATRIX_CLASSES = 30  # that a matrix can show


def score_classification(floats: Outputs, program: Outputs, labels: Mapping[int, int] | None) -> TaskScore:
    """Scores [C] an image. labels: the true class by index of the image, for those that have one.

    top5_agreement: share of images whose float top-1 class is among the quantised network's five best. Of equal
    scores the lower class number ranks first.
    """
    own, reference = [_ranked(v) for v in program.values], [_ranked(v) for v in floats.values]
    count = len(own)
    metrics = [
        Metric("top1_agreement", _share(sum(int(a[0] == b[0]) for a, b in zip(own, reference, strict=True)), count)),
        Metric("top5_agreement", _share(sum(int(b[0] in a[:5]) for a, b in zip(own, reference, strict=True)), count)),
    ]
    facts: dict[str, float] = {"images": count}
    if labels:
        facts["labelled_images"] = len(labels)
        facts["classes"] = int(np.size(floats.values[0]))
        for key, step in (("float_right", 0), ("float_right_one_less", -1), ("float_right_one_more", 1)):
            facts[key] = sum(int(reference[i][0] == c + step) for i, c in labels.items())
        for best in (1, 5):
            hits = [sum(int(c in ranks[i][:best]) for i, c in labels.items()) for ranks in (own, reference)]
            metrics.append(Metric(f"top{best}_accuracy", _share(hits[0], len(labels)), _share(hits[1], len(labels))))
    answers, floats_answers = ([ranks[0] for ranks in side] for side in (own, reference))
    return TaskScore(
        "classification", tuple(metrics), facts, {"confusion": _confusion(answers, floats_answers, labels)}
    )


def _confusion(own: list[int], reference: list[int], labels: Mapping[int, int] | None) -> dict[str, Any]:
    """How often each class was taken for each: by the label where there are labels, else by the float network.

    classes: the class numbers of rows (true) and columns (answered), those with most mistakes where they are many.
    """
    truth = dict(labels) if labels else dict(enumerate(reference))
    sides = {"program": own, "float": reference} if labels else {"program": own}
    mistakes: dict[int, int] = {}
    for image, true in truth.items():
        for answers in sides.values():
            for category in {true, answers[image]}:
                mistakes[category] = mistakes.get(category, 0) + (true != answers[image])
    shown = sorted(sorted(mistakes, key=lambda c: (-mistakes[c], c))[:_MATRIX_CLASSES])
    place = {category: i for i, category in enumerate(shown)}
    matrices = {}
    for side, answers in sides.items():
        matrix = np.zeros((len(shown), len(shown)), np.int64)
        for image, true in truth.items():
            if true in place and answers[image] in place:
                matrix[place[true], place[answers[image]]] += 1
        matrices[side] = matrix.tolist()
    return {"classes": shown, "all_classes": len(mistakes), "truth": "labels" if labels else "float", **matrices}


def _ranked(scores: NDArray[Any]) -> list[int]:
    return [int(i) for i in np.argsort(-np.asarray(scores, np.float64).ravel(), kind="stable")[:5]]


def _share(hits: int, count: int) -> float:
    return hits / count if count else float("nan")
