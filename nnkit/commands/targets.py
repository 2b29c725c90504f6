"""`nnkit targets list|show`."""

from __future__ import annotations

import json as json_module
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nnkit.commands.common import byte_count, print_json
from nnkit.terminal import print_line

if TYPE_CHECKING:
    from nnkit.target.operators import Taken


def list_command(*, json: bool) -> None:
    """The installed targets, one a line."""
    from nnkit.target import working_targets

    targets, broken = working_targets()
    summaries = {name: target.summary for name, target in targets.items()}
    summaries |= {name: f"BROKEN: {reason}" for name, reason in broken.items()}
    if json:
        print_json(summaries)
        return
    for name, summary in summaries.items():
        print_line(f"{name:<10}{summary}")


def show_command(name: str, *, json: bool) -> None:
    """One target: memories, options with defaults, limits, operators, runners, rewrites."""
    from nnkit.target import example_options, load_target
    from nnkit.target.operators import operators_taken

    target = load_target(name)
    options = example_options(target)
    machine = target.machine(options)
    fields = {
        key: {
            "default": None if field.is_required() else field.get_default(call_default_factory=True),
            "required": field.is_required(),
            "description": field.description or "",
        }
        for key, field in target.options.model_fields.items()
    }
    operators = operators_taken(target, options)
    runners = [runner.name for runner in target.runners(options)]
    if json:
        print_json(
            {
                "name": name,
                "summary": target.summary,
                "memory": {r.name: r.capacity_bytes for r in machine.regions},
                "options": {k: {**v, "default": _plain(v["default"])} for k, v in fields.items()},
                "limits": list(target.limits()),
                "operators": {each.operator: {"on": each.on, "reason": each.reason} for each in operators},
                "runners": runners,
                "default_rules": list(target.default_rules),
                "corrections": list(target.corrections),
            }
        )
        return
    print_line(f"{name}: {target.summary}")
    print_line(machine.description)
    if machine.regions:
        print_line("memory")
    for region in machine.regions:
        print_line(f"  {region.name:<18}{byte_count(region.capacity_bytes)}")
    print_line("options")
    width = max(18, *(len(key) + 1 for key in fields))
    for key, field in fields.items():
        default = "required" if field["required"] else _as_written(_plain(field["default"]))
        print_line(f"  {key:<{width}}{default}: {field['description']}")
    print_line("limits")
    for text in target.limits():
        print_line(f"  {text}")
    _print_operators(operators)
    print_line(f"runs on: {', '.join(runners)}")
    print_line(f"default rewrites: {', '.join(target.default_rules)}")
    offered = target.corrections_with(options)
    others = [name for name in target.corrections if name not in offered]
    print_line(f"corrections: {', '.join(offered) or 'none'}")
    if others:
        print_line(f"corrections with other options: {', '.join(others)}")


def _print_operators(operators: Sequence[Taken]) -> None:
    """Those that are taken in a paragraph, the others with the reason."""
    for on, title in (
        ("yes", "operators behind a convolution"),
        ("CPU", "on its CPU"),
        ("float", "in float, between integers"),
    ):
        names = [each.operator for each in operators if each.on == on]
        if names:
            print_line(title)
            print_line(textwrap.fill(", ".join(names), 100, initial_indent="  ", subsequent_indent="  "))
    refused = [each for each in operators if not each.on]
    if refused:
        print_line("refused, as its options are by default")
    for each in refused:
        print_line(f"  {each.operator:<24}{each.reason}")


def _plain(value: object) -> object:
    dump = getattr(value, "model_dump", None)
    return dump(mode="json") if dump is not None else value


def _as_written(value: object) -> str:
    """The value as a recipe writes it."""
    return value if isinstance(value, str) else json_module.dumps(value)
