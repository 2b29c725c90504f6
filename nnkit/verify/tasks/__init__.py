"""Scores by what the network is for, float beside quantised."""

from nnkit.verify.tasks.from_recipe import TaskScorer, task_scorer
from nnkit.verify.tasks.score import Metric, OutputPairs, Outputs, TaskScore

__all__ = ["Metric", "OutputPairs", "Outputs", "TaskScore", "TaskScorer", "task_scorer"]
