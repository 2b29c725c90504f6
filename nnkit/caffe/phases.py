"""Which layers of a prototxt are in use: Caffe's include and exclude rules, with the phase TEST."""

from __future__ import annotations

from typing import Any

_TEST = 1


def in_deployment(layer: Any, state: Any) -> bool:
    """Whether a layer (of either form) is part of the network in use.

    state: the net's NetState; its level and stages count, its phase is TEST whatever it says.
    As in Caffe: one met rule of `include` lets a layer in, one met rule of `exclude` keeps it out.
    """
    stages = set(state.stage)
    if layer.include:
        return any(_met(rule, state.level, stages) for rule in layer.include)
    return not any(_met(rule, state.level, stages) for rule in layer.exclude)


def _met(rule: Any, level: int, stages: set[str]) -> bool:
    if rule.HasField("phase") and rule.phase != _TEST:
        return False
    if rule.HasField("min_level") and level < rule.min_level:
        return False
    if rule.HasField("max_level") and level > rule.max_level:
        return False
    return stages.issuperset(rule.stage) and stages.isdisjoint(rule.not_stage)
