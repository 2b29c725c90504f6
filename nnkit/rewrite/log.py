"""RewriteLog: what each rule did, what it declined and why, and how far the floats moved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class DeclinedSite:
    """A place that has a rule's pattern and was left alone: the layer's name and the reason, a sentence."""

    site: str
    reason: str


@dataclass(frozen=True)
class RewriteEntry:
    """What one rule did.

    fired: the sites, each as the names of its layers joined by " + ".
    max_error: largest absolute difference of any value that exists before and after, over the sample inputs;
        None when nothing fired or no samples were given.
    relative_error: the same, divided by that value's largest magnitude.
    effect: of an edit, what it changed, one sentence; empty for a rewrite, which changes no number.
    tags: sentences on the user's tags that hold for another layer since.
    """

    name: str
    exact: bool
    fired: tuple[str, ...] = ()
    declined: tuple[DeclinedSite, ...] = ()
    max_error: float | None = None
    relative_error: float | None = None
    effect: str = ""
    tags: tuple[str, ...] = ()

    def report(self) -> dict[str, Any]:
        """The entry as `report.json` has it: `reason` is the sentence a reader needs, `sites` the details."""
        reasons = dict.fromkeys(f"{d.site}: {d.reason}" for d in self.declined)
        if not self.fired and not reasons:
            reasons = {"nothing in the graph has its pattern": None}
        return {
            "name": self.name,
            "exact": self.exact,
            "fired": len(self.fired),
            "sites": list(self.fired),
            "declined": [{"site": d.site, "reason": d.reason} for d in self.declined],
            "reason": "; ".join(reasons),
            "max_error": self.max_error,
            "relative_error": self.relative_error,
            **({"effect": self.effect} if self.effect else {}),
            **({"tags": list(self.tags)} if self.tags else {}),
        }


@dataclass(frozen=True)
class RewriteLog:
    """One entry for each rule and edit of the recipe, in the recipe's order."""

    entries: tuple[RewriteEntry, ...] = ()

    def of(self, name: str) -> RewriteEntry:
        """The entry of the rule `name`; raises KeyError when the rule was not asked for."""
        for entry in self.entries:
            if entry.name == name:
                return entry
        raise KeyError(name)

    def report(self) -> list[dict[str, Any]]:
        """The list `rewrites` of `report.json`."""
        return [entry.report() for entry in self.entries]
