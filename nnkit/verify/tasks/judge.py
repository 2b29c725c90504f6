"""Judging a change of the network by the metric of the recipe's task, on labelled images held out for it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from numpy.typing import NDArray

from nnkit.errors import RecipeError
from nnkit.graph import Model
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.program import Program
from nnkit.program.inputs import quantized_inputs
from nnkit.samples import Sample
from nnkit.simulate import simulate
from nnkit.verify.tasks.from_recipe import TaskScorer
from nnkit.verify.tasks.score import TaskScore, output_pairs

_BY_LABELS = ("recall", "top1_accuracy", "mean_average_precision")
_BY_THE_FLOAT_NETWORK = ("top1_agreement", "detection_agreement")
JUDGING_METRICS = (*_BY_LABELS, *_BY_THE_FLOAT_NETWORK)
"""One judges for each kind of task, of which more is better; what labels say goes before agreement with float."""


class TaskJudge:
    """Measures programs of one network by its task.

    model: the float network. samples: labelled, neither calibrated nor verified on. scorer: for these samples.
    where: of the recipe, for errors.
    """

    def __init__(self, model: Model, samples: Sequence[Sample], scorer: TaskScorer, where: str) -> None:
        self._model, self._samples, self._scorer, self._where = model, samples, scorer, where
        self._expected: list[NDArray[Any]] = []
        self.images = len(samples)

    def metric(self, program: Program, say: Callable[[str], None] = lambda text: None) -> tuple[str, float]:
        """The metric that judges, and what a program with the network's outputs has of it.

        Raises RecipeError where the samples have no pair, or no detection, to measure it on.
        """
        if not self._expected:
            session = FloatSession(self._model, fetch=program.outputs)
            self._expected = [self._scorer.read(session.run(sample.inputs)) for sample in self._samples]
        answers = []
        for number, sample in enumerate(self._samples, start=1):
            say(f"the task, image {number} of {self.images}")
            stored = simulate(program, quantized_inputs(program, sample))
            real = {name: program.tensors[name].format.dequantize(stored[name]) for name in program.outputs}
            answers.append(self._scorer.read(real))
        pairs = list(zip(self._expected, answers, strict=True))
        score = self._scorer.score(*output_pairs([sample.image for sample in self._samples], pairs))
        return self._measured(score)

    def _measured(self, score: TaskScore) -> tuple[str, float]:
        values = score.values()
        name = next(name for name in JUDGING_METRICS if name in values)
        if not math.isfinite(values[name]):
            raise RecipeError(
                f"{name} cannot be measured on the {self.images} images that judge corrections",
                where=self._where,
                remedy="name labelled images: of people at least two of one person and two of different ones; of "
                "detections some that the float network makes",
            )
        return name, values[name]
