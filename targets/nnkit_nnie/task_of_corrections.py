"""What corrected weights do to the recipe's task, said beside the build."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nnkit.mixed_precision.search import LayerSet
from nnkit_nnie.precision_table import AS_BUILT

_LARGER_IS_BETTER = frozenset(
    {
        "top1_agreement",
        "top1_accuracy",
        "detection_agreement",
        "mean_average_precision",
        "recall",
        "verification_accuracy",
    }
)


def task_of_corrections(rows: Sequence[Mapping[str, Any]], built: LayerSet) -> list[str]:
    """What corrected weights do to the recipe's task, for people: the build beside the same without corrections.

    Corrections are judged by the distance to the float network, on images without labels: a task may be worse all
    the same, and then the line says what to write. Empty without a task, and where nothing is corrected.
    """
    same = [row for row in rows if frozenset(row["layers"]) == built and "task" in row]
    if len(same) < 2 or same[-1]["choice"] != AS_BUILT:
        return []
    without, with_them = ({metric["name"]: metric for metric in row["task"]} for row in (same[0], same[-1]))
    figures, worse = list[str](), list[str]()
    for name, metric in without.items():
        values = metric["program"], with_them[name]["program"]
        if name not in _LARGER_IS_BETTER or None in values:
            continue
        figures.append(f"{name.replace('_', ' ')} {values[0]:.4f} without, {values[1]:.4f} with")
        if values[1] < values[0]:
            worse.append(name)
    if not figures:
        return []
    line = f"corrections  {'; '.join(figures)}, on {same[-1]['images']} images"
    if worse:
        line += ": worse, if it is more than chance; calibration: {corrections: []} leaves the weights as they are"
    return [line]
