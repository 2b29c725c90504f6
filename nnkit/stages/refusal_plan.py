"""What a user can do where a target refuses layers: lines for the recipe, each of which has been tried.

Tried are: rewrites of the default set that the recipe leaves out, the CPU for the refused layers, options
with which the target takes more, and an end of the network before the refused layers. The other installed targets are
asked whether they take the network as it is. What is called tried was built and run on this network (`trial_run.py`);
what nothing here can run, or not in time, is listed apart, and so is what loses an output of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from time import process_time

from nnkit.errors import InternalError, LayersNotTakenError, NnkitError
from nnkit.graph import Model
from nnkit.graph.view import GraphView, Node
from nnkit.names import yaml_name
from nnkit.recipe import TargetOptionsBase
from nnkit.recipe.restructure import ReplaceTail, RestructureEntry, RuleEntry, StripVar, entry_name
from nnkit.rewrite import RewriteLog
from nnkit.stages.model_stages import written_steps
from nnkit.stages.types import Build, Restructured
from nnkit.target import Lowered
from nnkit.visible import joined, with_lines

_KEPT = 0.5  # of the layers: what an end of the network before the refused ones has to leave
_NAMES = 12  # layers that one line names
_TRIAL_SECONDS = 20.0  # of this processor's time: nothing more is run for a refusal once trials have taken so much


def with_plan(error: LayersNotTakenError, build: Build, restructured: Restructured) -> LayersNotTakenError:
    """The same refusal with what would do in its remedy."""
    with build.progress.stage("look for a remedy") as step:
        tries = _Tries(build, restructured)
        proposals = _by_rules(tries, build, restructured) or _by_dequantizing(tries, build, restructured.reference)
        if not proposals:
            proposals = _by_cpu(tries, error, build, restructured) or _by_options(tries, build, restructured)
            proposals += _by_cut(tries, error, build, restructured)
        proposals += _other_targets(tries, build, restructured.reference)
        step.detail = f"{len(proposals)} {'proposal' if len(proposals) == 1 else 'proposals'}"
    remedy = error.remedy
    for words, lines in (
        ("tried, and each of these does", [each.line for each in proposals if each.ran and not each.loses]),
        ("taken too, but not run here", [each.line for each in proposals if not each.ran and not each.loses]),
        ("or less than the file gives", [each.line for each in proposals if each.loses]),
    ):
        if lines:
            began = with_lines(remedy, [f"{words}:"]) if "\n" in remedy else joined(remedy, f"; {words}:")
            remedy = with_lines(began, lines, indent="    ")
    return LayersNotTakenError(error.reason, error.layers, remedy=remedy) if proposals else error


@dataclass(frozen=True)
class _Found:
    """What would do. ran: it was built and run. loses: whether an output of the file is none any more."""

    line: str
    ran: bool
    loses: bool = False


@dataclass(frozen=True, eq=False)
class _Tried:
    """A network as a target would run it, and what the rewrites did. build: with that target and its options."""

    build: Build
    done: Restructured
    lowered: Lowered
    may_run: Callable[[], bool]

    @property
    def log(self) -> RewriteLog:
        """What the rewrites did."""
        return self.done.log

    def found(self, line: str, *, loses: bool = False) -> list[_Found]:
        """The line, where what it says runs, or cannot be run here, or not in time."""
        from nnkit.stages.trial_run import trial_run

        ran = trial_run(self.build, self.done, self.lowered) if self.may_run() else None
        return [] if ran is False else [_Found(line, bool(ran), loses)]


def _steps(build: Build) -> list[RestructureEntry]:
    """The rewrites of the build without those edits that `Restructured.reference` has behind it."""
    from nnkit.rewrite.catalogue import EDITS

    return [entry for _, entry in written_steps(build) if entry_name(entry) not in EDITS]


class _Tries:
    """The tries of one refusal.

    Those with the same rewrites of the same network differ in the target or its options alone, and rewrite it once.
    What rewrites do is not compared: that is done when the recipe with the line is run.
    """

    def __init__(self, build: Build, restructured: Restructured) -> None:
        self._rewritten: dict[tuple[str, str], Restructured | None] = {}
        self._began = process_time()
        steps = _steps(build)
        if len(steps) == len(written_steps(build)):  # no edit made another network
            self._rewritten[_key(restructured.reference, _legal(build, steps))] = restructured

    def _in_time(self) -> bool:
        return process_time() - self._began < _TRIAL_SECONDS

    def lower(self, build: Build, model: Model, entries: Sequence[RestructureEntry]) -> _Tried | None:
        """The network as the target would run it; None where that is refused."""
        steps = _legal(build, entries)
        key = _key(model, steps)
        if key not in self._rewritten:
            self._rewritten[key] = _rewritten(model, steps)
        done = self._rewritten[key]
        if done is None:
            return None
        try:
            return _Tried(build, done, build.target.lower(done.model, done.log, build.options), self._in_time)
        except InternalError:
            raise
        except NnkitError:
            return None


def _legal(build: Build, entries: Sequence[RestructureEntry]) -> list[RestructureEntry]:
    """The rewrites with those that the target asks for."""
    names = {entry for entry in entries if isinstance(entry, str)}
    return [*entries, *(name for name in build.target.legalisation(build.options) if name not in names)]


def _key(model: Model, steps: Sequence[RestructureEntry]) -> tuple[str, str]:
    return model.digest, repr(steps)


def _rewritten(model: Model, steps: Sequence[RestructureEntry]) -> Restructured | None:
    from nnkit import rewrite

    try:
        done = rewrite.restructure_steps(model, rewrite.resolve_steps(steps), check_inputs=[])
    except InternalError:
        raise
    except NnkitError:
        return None
    return Restructured(done.model, done.log, done.reference)


def _by_rules(tries: _Tries, build: Build, restructured: Restructured) -> list[_Found]:
    """Rewrites of the default set that the recipe does not name."""
    steps = _steps(build)
    lacking = [name for name in build.target.default_rules if name not in steps]
    tried = tries.lower(build, restructured.reference, [*steps, *lacking]) if lacking else None
    if tried is None:
        return []
    needed = [entry.name for entry in tried.log.entries if entry.fired and entry.name in lacking]
    for name in tuple(needed):
        others = [each for each in needed if each != name]
        fewer = tries.lower(build, restructured.reference, [*steps, *others])
        if fewer is not None:
            needed, tried = others, fewer
    return tried.found(f"restructure: [..., {', '.join(needed)}]   rewrites that take these layers away")


def _by_dequantizing(tries: _Tries, build: Build, model: Model) -> list[_Found]:
    """What the integers of a quantised network stand for, quantised anew; with wider options if need be."""
    from nnkit.quantize.affine.dequantized import dequantized
    from nnkit.quantize.affine.quantized_network import is_quantized

    if not is_quantized(model) or build.target.keeps_integers(build.options):
        return []
    anew = "model: {dequantize: true}   beside what is there"
    wider = {f", and targets: {{{build.key}: {{{text}}}}}": each for text, each in _wider(build).items()}
    for text, options in {"": build.options, **wider}.items():
        tried = tries.lower(replace(build, options=options), dequantized(model), _steps(build))
        proposals = [] if tried is None else tried.found(f"{anew}{text}{_in_brackets(_on_cpu(tried.lowered))}")
        if proposals:
            return proposals
    return []


def _wider(build: Build) -> Mapping[str, TargetOptionsBase]:
    return build.target.wider_options(build.options)


def _by_cpu(tries: _Tries, error: LayersNotTakenError, build: Build, restructured: Restructured) -> list[_Found]:
    """The refused layers on the CPU."""
    view, reference = GraphView.of(restructured.model), GraphView.of(restructured.reference)
    values = [node.output for node in _refused(view, error) if node.output in reference.producers]
    named = [reference.producers[value].name for value in values]
    if not values or len(named) > _NAMES:
        return []
    tags = restructured.reference.tags
    for value in values:
        tags = tags.with_tags(value, replace(tags.of(value), cpu=True))
    tried = tries.lower(build, replace(restructured.reference, tags=tags), _steps(build))
    if tried is None or all(segment.placement != "cpu" for segment in tried.lowered.segments):
        return []
    return tried.found(f"tags: {{cpu: [{_listed(named)}]}}   the CPU runs them")


def _by_options(tries: _Tries, build: Build, restructured: Restructured) -> list[_Found]:
    """The first of the target's wider options that takes the network."""
    for text, options in _wider(build).items():
        tried = tries.lower(replace(build, options=options), restructured.reference, _steps(build))
        line = f"targets: {{{build.key}: {{{text}}}}}   beside what is there"
        proposals = [] if tried is None else tried.found(f"{line}{_in_brackets(_on_cpu(tried.lowered))}")
        if proposals:
            return proposals
    return []


def _by_cut(tries: _Tries, error: LayersNotTakenError, build: Build, restructured: Restructured) -> list[_Found]:
    """The network ended before the refused layers, where most of it is left."""
    view = GraphView.of(restructured.model)
    refused = _refused(view, error)
    gone = {result for node in refused for result in node.results}
    for node in view.nodes:
        if gone & set(node.inputs):
            gone.update(node.results)
    kept = [node for node in view.nodes if not gone & set(node.results)]
    if not refused or len(kept) < _KEPT * len(view.nodes):
        return []
    ends = [
        value
        for value in dict.fromkeys(name for node in view.nodes if gone & set(node.results) for name in node.inputs)
        if value and value not in gone and value not in view.constants and value not in view.inputs
    ]
    first = [node.name for node in refused if not gone & set(node.inputs)]
    if len(ends) == 1 and all(spec.name in gone for spec in restructured.model.outputs):
        entry = RuleEntry(replace_tail=ReplaceTail(at=ends[0]))
        text = f"replace_tail: {{at: {yaml_name(ends[0])}, tail: []}}"
    elif len(first) <= _NAMES:
        entry = RuleEntry(strip_var=StripVar(layers=tuple(first), then="cut"))
        text = f"strip_var: {{layers: [{_listed(first)}], then: cut}}"
    else:
        return []
    tried = tries.lower(build, restructured.reference, [*_steps(build), entry])
    if tried is None:
        return []
    given = [spec.name for spec in tried.done.model.outputs]
    lost = [spec.name for spec in restructured.reference.outputs if spec.name not in given]
    instead = [name for name in given if name not in {spec.name for spec in restructured.reference.outputs}]
    written = "default" if build.recipe.restructure_for(build.key) is None else "..."
    host = f", which the host computes from {_listed(instead)}" if instead else ""
    return tried.found(
        f"restructure: [{written}, {{{text}}}]   ends the network before them: {len(kept)} of {len(view.nodes)} "
        f"layers stay; it loses {_listed(lost)}{host}",
        loses=bool(lost),
    )


def _other_targets(tries: _Tries, build: Build, model: Model) -> list[_Found]:
    """The installed targets that take the whole network with their default rewrites."""
    from nnkit.quantize.affine.quantized_network import is_quantized
    from nnkit.target import example_options, working_targets

    takers: dict[bool, list[str]] = {True: [], False: []}
    quantised = is_quantized(model)
    for name, target in working_targets()[0].items():
        if name == build.target.name:
            continue
        example = example_options(target)
        needed = {
            key: getattr(example, key) for key, each in target.options.model_fields.items() if each.is_required()
        }
        needed |= target.options_for_quantised() if quantised else {}
        options = build.recipe.targets.get(name) or target.options(**needed)
        recipe = build.recipe.model_copy(update={"targets": {**build.recipe.targets, name: options}})
        other = replace(build, recipe=recipe, key=name, target=target, options=options)
        tried = tries.lower(other, model, target.default_rules)
        if tried is not None:
            written = [] if name in build.recipe.targets else [f"{key}: {value}" for key, value in needed.items()]
            for each in tried.found(f"{name}{_in_brackets(*written, _on_cpu(tried.lowered))}"):
                takers[each.ran].append(each.line)
    return [
        _Found(f"targets: {' or '.join(names)}: take the network as it is", ran)
        for ran, names in takers.items()
        if names
    ]


def _on_cpu(lowered: Lowered) -> str:
    count = sum(len(segment.layers) for segment in lowered.segments if segment.placement == "cpu")
    whole = count == sum(len(segment.layers) for segment in lowered.segments)
    return f"{count} layer{'s' * (count > 1)} on its CPU" if count and not whole else ""


def _in_brackets(*words: str) -> str:
    return f" ({', '.join(filter(None, words))})" if any(words) else ""


def _refused(view: GraphView, error: LayersNotTakenError) -> list[Node]:
    return [node for node in view.nodes if node.name in error.layers]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(yaml_name, names))
