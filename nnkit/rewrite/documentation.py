"""docs/rewrites.md, made from the rules themselves: `python -m nnkit.rewrite.documentation > docs/rewrites.md`."""

from __future__ import annotations

import sys

from nnkit.rewrite.catalogue import DEFAULT_RULES, available_rules
from nnkit.rewrite.rule import AnyRule

_HEAD = """# Rewrites

This page is generated from the rules: `python -m nnkit.rewrite.documentation > docs/rewrites.md`.

A recipe names the rewrites it wants under `restructure:`; without that key the target's default set is used. The
order is the priority: a rewrite is tried only when none of those before it applies, and the whole list is repeated
until nothing applies any more.

After each rewrite the graph is checked (valid ONNX, all shapes known, same inputs and outputs, no tag lost), and
every value that exists before and after it is compared by ONNX Runtime on sample inputs. An *exact* rewrite may
differ by float rounding alone: by 1e-5 of the value's largest magnitude, or, where the network amplifies rounding,
by 32 times what moving every constant and input by one unit in the last place does. The report holds the largest
difference, what fired, and what declined with its reason. `nnkit plan` shows the same without building anything.

A value name that exists before and after a rewrite stands for the same numbers. Fusion leaves the graph as it is and
marks the absorbed op with `nnkit.fuse_into` in its metadata: the value of the op that computes it too.

Tags: `_hp` and the names of the original layers move to the op that takes over the arithmetic; where several do, to
each of them. `_cpu` keeps its op from being removed or fused; where a rewrite replaces an op one to one, the tag
goes along.

| rewrite | what it does | equal up to | an op tagged `_cpu` |
|---|---|---|---|
"""


def rewrites_markdown() -> str:
    """The page as Markdown, ending in a newline."""
    rules = available_rules()
    rows = [
        f"| [`{name}`](#{name}) | {rules[name].title} | {_equality(rules[name])} | {_cpu(rules[name])} |"
        for name in DEFAULT_RULES
    ]
    sections = [
        f"## {name}\n\n{rules[name].title}.\n\n```text\n{_details(rules[name])}\n```\n" for name in DEFAULT_RULES
    ]
    return _HEAD + "\n".join(rows) + "\n\n" + "\n".join(sections)


def _equality(rule: AnyRule) -> str:
    return "float rounding" if rule.exact else "a reported error"


def _cpu(rule: AnyRule) -> str:
    return "is left alone" if rule.cpu == "blocks" else "keeps its tag"


def _details(rule: AnyRule) -> str:
    return "\n".join(rule.summary.strip().splitlines()[1:]).strip()


if __name__ == "__main__":
    sys.stdout.write(rewrites_markdown())
