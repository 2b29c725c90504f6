"""Makes one edit and compares every output with what the edit says that it is, by ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.errors import InternalError, ModelError
from nnkit.graph import Model
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.rewrite.edit import Edit, Edited, Expected, Sample
from nnkit.rewrite.log import RewriteEntry

ROUNDING = 1e-5
"""Of an output's magnitude: what float32 rounding may come to, as for rewrites (see `nnkit.rewrite.equivalence`)."""


@dataclass(frozen=True)
class _Difference:
    max_error: float = 0.0
    relative_error: float = 0.0


def make_edit(model: Model, edit: Edit, samples: Sequence[Sample]) -> tuple[Edited, RewriteEntry]:
    """The edited network with what was said of it, and the entry in the log.

    Args:
        samples: inputs of `model` to compare on; none: nothing is compared.

    Raises:
        RecipeError, ModelError: the edit cannot be made.
        InternalError: an output is not what the edit says.
    """
    edited = edit.apply(model)
    found = _compare(model, edit, edited, samples) if samples else None
    entry = RewriteEntry(
        name=edit.name,
        exact=True,
        fired=edited.sites,
        max_error=None if found is None else found.max_error,
        relative_error=None if found is None else found.relative_error,
        effect=edited.effect,
    )
    return edited, entry


def _compare(model: Model, edit: Edit, edited: Edited, samples: Sequence[Sample]) -> _Difference:
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
    return _Difference(worst, relative)


def _error(edit: Edit, name: str, expected: Expected, found: NDArray[Any]) -> float:
    wanted, got = (np.asarray(array, np.float64).reshape(-1) for array in (expected.value, found))
    if wanted.shape != got.shape:
        raise InternalError(
            f"edit '{edit.name}' made '{name}' of {got.size} values, but it says {wanted.size}", where=name
        )
    same = (wanted == got) | (np.isnan(wanted) & np.isnan(got))
    with np.errstate(invalid="ignore"):
        gap = np.where(same, 0.0, np.abs(wanted - got))
    error = float(np.where(np.isnan(gap), np.inf, gap).max(initial=0.0))
    if not error <= ROUNDING * expected.magnitude:
        raise InternalError(
            f"edit '{edit.name}': '{name}' differs by {error:.3g} from what it says, where rounding explains "
            f"{ROUNDING * expected.magnitude:.3g}",
            where=name,
        )
    return error
