"""Makes one edit and compares every output with what the edit says that it is, by ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from nnkit.errors import InternalError, ModelError
from nnkit.graph import Model
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.rewrite.edit import Edit, Edited, Expected
from nnkit.rewrite.equivalence import FLOAT_ROUNDING, Difference, largest_error
from nnkit.rewrite.log import RewriteEntry
from nnkit.samples import NetworkInputs


def apply_edit(model: Model, edit: Edit, samples: Sequence[NetworkInputs]) -> tuple[Edited, RewriteEntry]:
    """The edited network with what was said of it, and the entry in the log.

    Args:
        samples: inputs of `model` to compare on; none: nothing is compared.

    Raises:
        RecipeError, ModelError: the edit cannot be made.
        InternalError: an output is not what the edit says.
    """
    edited = edit.apply(model)
    difference = _compare(model, edit, edited, samples) if samples else None
    entry = RewriteEntry(
        name=edit.name,
        exact=True,
        fired=edited.sites,
        max_error=None if difference is None else difference.max_error,
        relative_error=None if difference is None else difference.relative_error,
        effect=edited.effect,
    )
    return edited, entry


def _compare(model: Model, edit: Edit, edited: Edited, samples: Sequence[NetworkInputs]) -> Difference:
    before = FloatSession(model, edited.fetch) if edited.fetch else None
    after = FloatSession(edited.model)
    worst = relative = 0.0
    for sample in samples:
        values = before.run(sample) if before is not None else {}
        try:
            results = after.run(edited.feeds(sample))
        except ModelError as error:
            reason = f"edit '{edit.name}' left a network that does not run: {error.reason}"
            raise InternalError(reason, where=error.where) from error
        for name, expected in edited.expected(values).items():
            error_size = _error(edit, name, expected, results[name])
            worst = max(worst, error_size)
            relative = max(relative, error_size / expected.magnitude if expected.magnitude else error_size)
    return Difference(worst, relative)


def _error(edit: Edit, name: str, expected: Expected, result: NDArray[Any]) -> float:
    if expected.value.size != result.size:
        raise InternalError(
            f"edit '{edit.name}' made '{name}' of {result.size} values, but it says {expected.value.size}", where=name
        )
    error = largest_error(expected.value.reshape(-1), result.reshape(-1))
    allowed = FLOAT_ROUNDING.relative * expected.magnitude
    if not error <= allowed:
        raise InternalError(
            f"edit '{edit.name}': '{name}' differs by {error:.3g} from what it says, where rounding explains "
            f"{allowed:.3g}",
            where=name,
        )
    return error
