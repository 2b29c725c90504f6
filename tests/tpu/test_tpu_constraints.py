"""Constraints: each states its limit and its remedy, and `nnkit targets show tpu` lists it."""

from __future__ import annotations

import inspect

from nnkit.constraints import constraint_remedy, constraint_text
from nnkit.target import load_target
from nnkit_tpu import constraints


def test_every_constraint_has_a_remedy_and_is_listed() -> None:
    written = {
        function
        for _, function in inspect.getmembers(constraints, inspect.isfunction)
        if function.__module__ == constraints.__name__ and "\nfix: " in (inspect.getdoc(function) or "")
    }
    listed = {*constraints.LAYER_CONSTRAINTS, *constraints.CV_CONSTRAINTS, *constraints.PROGRAM_CONSTRAINTS}
    assert written == listed
    limits = load_target("tpu").limits()
    for constraint in listed:
        assert constraint_text(constraint, constraints.ChipLimits()) in limits
        assert constraint_remedy(constraint, constraints.ChipLimits())
