"""Scores by what the network is for, float beside quantised."""

from nnkit.verify.tasks.from_recipe import TaskScorer, task_reading, task_scorer
from nnkit.verify.tasks.judge import JUDGING_METRICS, TaskJudge
from nnkit.verify.tasks.score import Metric, OneOutput, Outputs, TaskReading, TaskScore, output_pairs

__all__ = [
    "JUDGING_METRICS",
    "Metric",
    "OneOutput",
    "Outputs",
    "TaskJudge",
    "TaskReading",
    "TaskScore",
    "TaskScorer",
    "output_pairs",
    "task_reading",
    "task_scorer",
]
