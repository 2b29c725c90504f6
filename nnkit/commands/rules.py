"""`nnkit rules`: what a recipe can name under `restructure`."""

from __future__ import annotations

from typing import Any

from nnkit.commands.common import print_json
from nnkit.did_you_mean import suggestion
from nnkit.errors import UsageError
from nnkit.rewrite import DEFAULT_RULES, Edit
from nnkit.rewrite.catalogue import EDITS, OPTIONAL_RULES, available_rules
from nnkit.rewrite.documentation import details_of, without_options
from nnkit.rewrite.rule import AnyRule
from nnkit.terminal import print_line, print_lines


def rules_command(name: str | None, *, json: bool) -> None:
    """What a rule or an edit does; a line for each without a name. Raises UsageError for an unknown one."""
    rules = available_rules()
    items: dict[str, AnyRule | Edit] = {**rules, **{edit: without_options(edit) for edit in EDITS}}
    groups = {"default": DEFAULT_RULES, "named": OPTIONAL_RULES, "edit": EDITS}
    if name is not None and name not in items:
        raise UsageError(
            f"there is no rule {name!r}",
            where="NAME",
            remedy=suggestion(name, sorted(items), "rules", listed="`nnkit rules`"),
        )
    told: list[dict[str, Any]] = [
        {"name": each, "kind": kind, "title": items[each].title, "details": details_of(items[each])}
        for kind, names in groups.items()
        for each in names
        if name in (None, each)
    ]
    if json:
        print_json(told if name is None else told[0])
    elif name is None:
        width = max(map(len, items))
        heads = {
            "default": "rules of most targets' default set",
            "named": "rules that must be named",
            "edit": "edits",
        }
        for kind, head in heads.items():
            print_line(f"{head}:")
            for each in told:
                if each["kind"] == kind:
                    print_line(f"  {each['name']:<{width}}  {each['title']}")
    else:
        print_line(f"{name}: {told[0]['title']}")
        print_lines(told[0]["details"])
