"""What corrected weights do to the recipe's task: judged before they are kept, and said beside the build."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nnkit.mixed_precision.search import LayerSet
from nnkit.quantize.judge import Verdict
from nnkit.verify.tasks import JUDGING_METRICS
from nnkit_nnie.precision_table import AS_BUILT

if TYPE_CHECKING:
    from nnkit.program import Program
    from nnkit.verify.tasks import TaskJudge

_LARGER_IS_BETTER = frozenset({*JUDGING_METRICS, "verification_accuracy"})


class TaskOfCandidates:
    """Whether the recipe's task allows a correction, on the labelled images that the recipe names for that.

    judge: None where it names none, and all is allowed. start: the program without corrections.
    """

    def __init__(self, judge: TaskJudge | None, start: Program, say: Callable[[str], None]) -> None:
        self._judge, self._say = judge, say
        if judge is not None:
            self._metric, self._best = judge.metric(start, say)

    def verdict(self, correction: str, by_outputs: Verdict, candidate: Program) -> Verdict:
        """Keeps what the outputs keep, and the task's metric on the labelled images is no worse with."""
        if self._judge is None or not by_outputs.kept:
            return by_outputs
        _, now = self._judge.metric(candidate, self._say)
        kept = now >= self._best
        figures = f"{self._metric} {self._best:.4f} without, {now:.4f} with; {by_outputs.note.split(': ', 1)[1]}"
        if kept:
            self._best = now
        return Verdict(kept, f"{correction} {'kept' if kept else 'undone'}: {figures}")

    def __str__(self) -> str:
        """For the end of a note that says what judged."""
        if self._judge is None:
            return "; calibration.judged_on can name labelled images, by which the task judges too"
        return f", and by {self._metric} on the {self._judge.images} images of calibration.judged_on"


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
