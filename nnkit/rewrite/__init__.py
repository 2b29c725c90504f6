"""Restructuring: rewrite rules over the ONNX graph that keep its numbers and its tags."""

from nnkit.rewrite.catalogue import (
    DEFAULT_RULES,
    INTEGER_FORM,
    available_rules,
    entry_key,
    known_names,
    resolve_rules,
    resolve_steps,
)
from nnkit.rewrite.edit import Edit
from nnkit.rewrite.equivalence import Tolerance
from nnkit.rewrite.log import DeclinedSite, RewriteEntry, RewriteLog
from nnkit.rewrite.rule import AnyRule, Rule
from nnkit.rewrite.runner import Restructuring, restructure, restructure_steps

__all__ = [
    "DEFAULT_RULES",
    "INTEGER_FORM",
    "AnyRule",
    "DeclinedSite",
    "Edit",
    "Restructuring",
    "RewriteEntry",
    "RewriteLog",
    "Rule",
    "Tolerance",
    "available_rules",
    "entry_key",
    "known_names",
    "resolve_rules",
    "resolve_steps",
    "restructure",
    "restructure_steps",
]
