"""docs/rewrites.md, made from rules and edits: `python -m nnkit.rewrite.documentation > docs/rewrites.md`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from nnkit.recipe.restructure import OPTION_MODELS
from nnkit.rewrite.catalogue import DEFAULT_RULES, EDITS, OPTIONAL_RULES, available_rules, edit_with
from nnkit.rewrite.edit import Edit
from nnkit.rewrite.rule import AnyRule

_HEAD = """# Rewrites

This page is generated from the rules: `python -m nnkit.rewrite.documentation > docs/rewrites.md`.

A recipe names the rewrites it wants under `restructure:`; without that key the target's default set is used. The
entry `default` stands for that set: `restructure: [default, norm_from_concat]`. The order is the priority: a rewrite
is tried only when none of those before it applies, and the whole list is repeated until nothing applies any more.

After each rewrite the graph is checked (valid ONNX, all shapes known, same inputs and outputs, no tag lost), and
every value that exists before and after it is compared by ONNX Runtime on sample inputs. An *exact* rewrite may
differ by float rounding alone: by 1e-5 of the value's largest magnitude, or, where the network amplifies rounding,
by 32 times what moving every constant and input by one unit in the last place does. The report holds the largest
difference, what fired, and what declined with its reason. `nnkit plan` shows the same without building anything.

A value name that exists before and after a rewrite stands for the same numbers. Fusion leaves the graph as it is and
marks the absorbed op with `nnkit.fuse_into` in its metadata: the value of the op that computes it too.

A rule with options is an entry with one key, `- norm_from_concat: {reduce: mean}`; the
[recipe reference](recipe_reference.md) lists all options. [Edits](#edits) change what the network computes.

Tags: `_hp` and the names of the original layers move to the op that takes over the arithmetic; where several do, to
each of them: `_hp` on an activation that is fused into a convolution is the convolution's. The report and
`nnkit plan` name every tag that holds for another layer since. `_cpu` keeps its op from being removed or fused; where
a rewrite replaces an op one to one, the tag goes along.

## Rewrites of the default set

| rewrite | what it does | equal up to | an op tagged `_cpu` |
|---|---|---|---|
"""


_OPTIONAL = """

## Rewrites that must be named

They bring a network into the form that particular hardware has layers for; the pages of targets show them at work.

| rewrite | what it does | equal up to | an op tagged `_cpu` |
|---|---|---|---|
"""

_EDITS = """

## Edits

An edit changes the inputs, the outputs, or what the layers between them compute. It is made once, when the rewrites
that stand before it have come to rest; at the end all rewrites of the list run again. Each edit says what the new
outputs are in terms of the network before it, and ONNX Runtime holds it to that on sample inputs, up to 1e-5 of the
magnitude of the sums that it takes. What cannot be edited as asked is an error at the recipe's line. The network as
the last edit leaves it is the float reference of everything that follows.

| edit | what it does |
|---|---|
"""


def rewrites_markdown() -> str:
    """The page as Markdown, ending in a newline."""
    rules = available_rules()
    edits = {name: without_options(name) for name in EDITS}

    def rows(names: Sequence[str]) -> str:
        return "\n".join(
            f"| [`{name}`](#{name}) | {rules[name].title} | {_equality(rules[name])} | {_cpu(rules[name])} |"
            for name in names
        )

    edit_rows = "\n".join(f"| [`{name}`](#{name}) | {edits[name].title} |" for name in EDITS)
    items: list[AnyRule | Edit] = [*rules.values(), *edits.values()]
    sections = [f"## {item.name}\n\n{item.title}.\n\n```text\n{details_of(item)}\n```\n" for item in items]
    tables = rows(DEFAULT_RULES) + _OPTIONAL + rows(OPTIONAL_RULES) + _EDITS + edit_rows
    return _HEAD + tables + "\n\n" + "\n".join(sections)


def without_options(name: str) -> Edit:
    """An edit, as it is documented."""
    return edit_with(name, OPTION_MODELS[name].model_construct())


def _equality(rule: AnyRule) -> str:
    return "float rounding" if rule.exact else "a reported error"


def _cpu(rule: AnyRule) -> str:
    return "is left alone" if rule.cpu == "blocks" else "keeps its tag"


def details_of(item: AnyRule | Edit) -> str:
    """What its file says of it below the title: the pattern and the algebra."""
    return "\n".join(item.summary.strip().splitlines()[1:]).strip()


if __name__ == "__main__":
    sys.stdout.write(rewrites_markdown())
