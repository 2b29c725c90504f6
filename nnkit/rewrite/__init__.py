"""Restructuring: rewrite rules over the ONNX graph that keep its numbers and its tags."""

from nnkit.rewrite.catalogue import DEFAULT_RULES, available_rules, resolve_rules
from nnkit.rewrite.equivalence import Tolerance
from nnkit.rewrite.log import DeclinedSite, RewriteEntry, RewriteLog
from nnkit.rewrite.rule import FUSE_INTO, AnyRule, Declined, Rule
from nnkit.rewrite.runner import restructure

__all__ = [
    "DEFAULT_RULES",
    "FUSE_INTO",
    "AnyRule",
    "Declined",
    "DeclinedSite",
    "RewriteEntry",
    "RewriteLog",
    "Rule",
    "Tolerance",
    "available_rules",
    "resolve_rules",
    "restructure",
]
