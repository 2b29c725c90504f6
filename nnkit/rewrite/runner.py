"""Runs rules over a Model: each to its fixpoint, in order of priority, and holds each to what it promises.

Edits stand among the rules where the recipe puts them: one is made, once, when the rules before it have come to
rest; at the end all rules run to rest together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from nnkit.errors import InternalError, ModelError
from nnkit.graph import Model
from nnkit.graph.refusal import Refused
from nnkit.rewrite.edit import Edit
from nnkit.rewrite.edit_runner import apply_edit
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.equivalence import FLOAT_ROUNDING, Tolerance, Values, compare, evaluate, largest, sample_inputs
from nnkit.rewrite.log import DeclinedSite, RewriteEntry, RewriteLog
from nnkit.rewrite.reading import computes_whole_numbers
from nnkit.rewrite.rule import AnyRule
from nnkit.rewrite.tag_moves import Asked, tag_moves, tagged_layers
from nnkit.rewrite.validation import validate
from nnkit.samples import NetworkInputs

if TYPE_CHECKING:
    import onnx_ir as ir

_NEAR_THE_END = 1e30
"""What rounding explains where values lie within a few thousand times of the largest float32."""
_UNIT = 2.0**-22
"""Twice the distance of neighbouring float32 numbers, as a share of the number."""

_DAMAGED = "its weights are damaged: export the network again"


def restructure(
    model: Model,
    rules: Sequence[AnyRule],
    *,
    check_inputs: Sequence[NetworkInputs] | None = None,
    tolerance: Tolerance = FLOAT_ROUNDING,
) -> tuple[Model, RewriteLog]:
    """Apply `rules` until none of them fires any more.

    Order is priority: a rule is tried only when none of the rules before it fires, so a rule late in the list is a
    last resort. After every rule that fired the graph is validated, the tags are accounted for, and all values that
    exist before and after are compared by ONNX Runtime. Calling it is also the dry run: `model` never changes, and
    the log says what would fire, what would decline and why.

    Args:
        model: static shapes, constants as initializers, opset 13 or newer, batch 1.
        rules: see `nnkit.rewrite.catalogue`.
        check_inputs: sample inputs by input name; None takes two deterministic ones, an empty list compares nothing.
        tolerance: what counts as float rounding.

    Raises:
        ModelError: ONNX Runtime cannot run the model as it came.
        InternalError: a rule broke its promise; the message names the rule and the layer.
    """
    done = restructure_steps(model, rules, check_inputs=check_inputs, tolerance=tolerance)
    return done.model, done.log


@dataclass(frozen=True, eq=False)
class Restructuring:
    """What became of a network: the model, the log, and the network that the model must be compared with.

    reference: the network as the last edit left it, or as it came where there was none. Rewrites keep its numbers.
    """

    model: Model
    log: RewriteLog
    reference: Model


def restructure_steps(
    model: Model,
    steps: Sequence[AnyRule | Edit],
    *,
    check_inputs: Sequence[NetworkInputs] | None = None,
    tolerance: Tolerance = FLOAT_ROUNDING,
) -> Restructuring:
    """As `restructure`, with edits among the rules.

    Raises:
        RecipeError: an edit does not suit the network.
        ModelError, InternalError: as `restructure`; an edit that is not what it says is a bug, too.
    """
    samples = sample_inputs(model) if check_inputs is None else list(check_inputs)
    entries: list[_State | RewriteEntry] = []
    reference = model
    asked = tagged_layers(model)
    for step in steps:
        if not isinstance(step, Edit):
            entries.append(_State(step))
            continue
        model = _to_rest(model, entries, samples, tolerance, asked)
        edited, entry = apply_edit(model, step, samples)
        entry = replace(entry, tags=tag_moves(model, edited.model, asked))
        asked |= tagged_layers(edited.model) - tagged_layers(model)
        model = reference = edited.model
        samples = sample_inputs(model) if check_inputs is None else [dict(edited.feeds(s)) for s in samples]
        entries.append(entry)
    model = _to_rest(model, entries, samples, tolerance, asked)
    log = RewriteLog(tuple(entry.entry() if isinstance(entry, _State) else entry for entry in entries))
    return Restructuring(model, log, reference)


def _to_rest(
    model: Model,
    entries: Sequence[_State | RewriteEntry],
    samples: Sequence[NetworkInputs],
    tolerance: Tolerance,
    asked: Asked,
) -> Model:
    """The model after all rules among the entries, none of which fires any more."""
    values = evaluate(model, samples) if samples else {}
    states = [entry for entry in entries if isinstance(entry, _State)]
    for state in states:
        state.declined.clear()
    editor = Editor(model)
    at_once = not samples and not asked  # nobody asks what each rule did
    index, rounds = 0, 0
    nodes = editor.nodes()
    waiting: list[str] = []
    while index < len(states):
        rounds += 1
        if rounds > 100 * (len(states) + 1):
            raise InternalError(
                f"the rewrites do not come to rest: '{states[index].rule.name}' fires again and again"
            )
        state = states[index]
        fired = _to_fixpoint(state, editor, nodes)
        if not fired:
            index += 1
            continue
        index, nodes = 0, editor.nodes()
        if at_once:
            waiting.append(state.rule.name)
            continue
        candidate = editor.finish()
        validate(model, candidate, state.rule.name)
        state.tags.update(dict.fromkeys(tag_moves(model, candidate, asked)))
        if samples:
            values = _compare(state, fired, model, values, candidate, samples, tolerance)
        model = candidate
    if not waiting:
        return model
    candidate = editor.finish()
    validate(model, candidate, ", ".join(dict.fromkeys(waiting)))
    return candidate


@dataclass(eq=False)
class _State:
    """What is known of one rule so far; `declined` is by the anchor's layer; a site that fires later leaves it."""

    rule: AnyRule
    fired: list[str] = field(default_factory=list)
    tags: dict[str, None] = field(default_factory=dict)  # sentences, each once
    declined: dict[str, DeclinedSite] = field(default_factory=dict)
    max_error: float | None = None
    relative_error: float | None = None

    def entry(self) -> RewriteEntry:
        return RewriteEntry(
            name=self.rule.name,
            exact=self.rule.exact,
            fired=tuple(self.fired),
            declined=tuple(self.declined.values()),
            max_error=self.max_error,
            relative_error=self.relative_error,
            tags=tuple(self.tags),
        )


def _to_fixpoint(state: _State, editor: Editor, nodes: Sequence[ir.Node]) -> list[str]:
    """Fire the rule wherever it applies until it applies nowhere; returns the sites. nodes: as they are now."""
    fired: list[str] = []
    limit = 10 * len(nodes) + 10
    while True:
        count = len(fired)
        for node in nodes:
            if node.graph is not None:
                fired += _try_at(state, editor, node)
        if len(fired) == count:
            state.fired += fired
            return fired
        if len(fired) > limit:
            raise InternalError(f"rewrite '{state.rule.name}' fires without end", where=fired[-1])
        nodes = editor.nodes()


def _try_at(state: _State, editor: Editor, node: ir.Node) -> list[str]:
    rule = state.rule
    nodes = rule.pattern(editor, node)
    if nodes is None:
        return []
    site = " + ".join(editor.layer(n) for n in nodes)
    anchor = editor.layer(node)
    tagged = [n for n in nodes if editor.is_cpu(n)] if rule.cpu == "blocks" else []
    whole = [] if rule.whole_numbers else [n for n in nodes if computes_whole_numbers(n)]
    try:
        if whole:
            raise Refused(f"'{editor.layer(whole[0])}' computes integers")
        if tagged:
            raise Refused(f"'{editor.layer(tagged[0])}' is tagged `_cpu`, which keeps it an op of its own")
        match = rule.check(editor, nodes)
    except Refused as refusal:
        state.declined[anchor] = DeclinedSite(site, refusal.reason)
        return []
    rule.rewrite(editor, match)
    state.declined.pop(anchor, None)
    return [site]


def _compare(
    state: _State,
    fired: list[str],
    before: Model,
    before_values: Values,
    after: Model,
    samples: Sequence[NetworkInputs],
    tolerance: Tolerance,
) -> Values:
    """Record how far the values moved; returns the values after.

    Raises:
        ModelError: values overflow float32 where they are computed in another order.
        InternalError: the rule is exact, and a value moved further than float rounding explains; or the new graph
            does not run.
    """
    try:
        after_values = evaluate(after, samples)
    except ModelError as error:
        reason = f"rewrite '{state.rule.name}' left a network that does not run: {error.reason}"
        raise InternalError(reason, where=fired[-1]) from error
    difference = compare(before, before_values, after_values, samples, tolerance)
    state.max_error = max(state.max_error or 0.0, difference.max_error)
    state.relative_error = max(state.relative_error or 0.0, difference.relative_error)
    if state.rule.exact and difference.offending_value:
        value = difference.offending_value
        overflows = difference.offending_error == math.inf and difference.allowed_error > _NEAR_THE_END
        read = _largest_read(before, before_values, value)
        if overflows or read > _NEAR_THE_END:
            reason = "the values of this layer come so near to the largest float32 that they overflow with a rounding"
            raise ModelError(reason, where=_layer_of(after, value), remedy=_DAMAGED)
        if difference.offending_error <= _UNIT * read:
            reason = f"this layer reads values of {read:.3g}, a rounding of which is as much as its results"
            raise ModelError(reason, where=_layer_of(after, value), remedy=_DAMAGED)
        raise InternalError(
            f"rewrite '{state.rule.name}' is exact, yet it changed value '{difference.offending_value}' by "
            f"{difference.offending_error:.3g} where float rounding explains {difference.allowed_error:.3g} "
            f"(sites: {', '.join(fired)})",
            where=_layer_of(after, difference.offending_value),
        )
    return after_values


def _largest_read(model: Model, values: Values, value: str) -> float:
    """The largest magnitude that the layer which gives a value reads."""
    read = next((node.input for node in model.proto().graph.node if value in node.output), ())
    return max((largest(array) for name in read for array in values.get(name, [])), default=0.0)


def _layer_of(model: Model, value: str) -> str:
    for node in model.proto().graph.node:
        if value in node.output:
            return str(node.name or value)
    return value
