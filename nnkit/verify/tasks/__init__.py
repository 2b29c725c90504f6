"""Scores by what the network is for, float beside quantised."""

from nnkit.verify.tasks.from_recipe import TaskScorer, task_reading, task_scorer
from nnkit.verify.tasks.score import Metric, OneOutput, Outputs, TaskReading, TaskScore, output_pairs

__all__ = [
    "Metric",
    "OneOutput",
    "Outputs",
    "TaskReading",
    "TaskScore",
    "TaskScorer",
    "output_pairs",
    "task_reading",
    "task_scorer",
]
