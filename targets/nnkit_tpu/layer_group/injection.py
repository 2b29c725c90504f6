"""Our groups given to the vendor's compiler, and what its own simulator and final program say of them.

The compiler takes cuts and slices from its group cache (`LOAD_TPU_GROUP`), and the order of ops from the order of the
lines in the lowered program; load times and addresses it chooses itself. A group that its placement cannot hold is
refused by it, or placed wrongly without a word, which the audit of the final program finds (`audit.py`): both are
outcomes here, not errors. Layers that it cannot compile outside of groups are put into some
(`lone_convolutions.py`).
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nnkit.errors import InternalError, ToolError
from nnkit_tpu.chips import Chip
from nnkit_tpu.layer_group.audit import Audit, audit_local_memory
from nnkit_tpu.layer_group.final_program import final_ops
from nnkit_tpu.layer_group.from_lowered import LoweredFunction, read_lowered
from nnkit_tpu.layer_group.groups import GroupedGraph
from nnkit_tpu.layer_group.lone_convolutions import groups_around, lone_convolutions
from nnkit_tpu.layer_group.suspects import with_suspects
from nnkit_tpu.layer_group.vendor_files import (
    Command,
    InjectedGroup,
    Profile,
    Traffic,
    group_cache_name,
    named_commands,
    op_cycles_by_name,
    read_groups,
    read_profile,
    read_traffic,
    write_group_cache,
)
from nnkit_tpu.model_stamp import without_time
from nnkit_tpu.toolchain.find import Toolchain
from nnkit_tpu.toolchain.room import working_folder
from nnkit_tpu.toolchain.run import CompilerError, run_tpuc_opt

_SEARCH, _AS_MANY_AS_FIT, _NONE = 2, 1, 0  # the compiler's two ways to form groups, and to form none
_FORM = (
    "--layer-group=opt={} group_by_cores=auto compress_mode=none debugger=0 disable_group_overlap=false lgcache=true"
)
_WAYS = (
    (_SEARCH, ""),
    (_AS_MANY_AS_FIT, "groups of as many layers as fit stand in"),
    (_NONE, "no groups stand in"),
)
_MAPS = "--affine-opt"  # transpositions, reshapes, slices and padding as maps of the groups' stores and loads
_AFTERWARDS = ("--core-parallel", "--after-layergroup-weight-reorder", "--address-assign", "--deinit")
_FAILED_GROUP = re.compile(r"failed for group (\d+)")
_CODEGEN_PASSES = ("--init", "--codegen=model_file={} embed_debug_info=False model_version={}", "--deinit")


@dataclass(frozen=True, eq=False)
class LoweredProgram:
    """A lowered program on disk, ready for grouping.

    folder: holds `file` and the weights it names. name: of its module. mode: as in the compiler's options.
    functions: empty where the text cannot be read, for the reason `unread`: then only the compiler can form groups.
    model_version: of the model that is made of it.
    """

    folder: Path
    file: str
    name: str
    chip: Chip
    mode: str
    text: str
    functions: tuple[LoweredFunction, ...]
    unread: str = ""
    model_version: str = "latest"

    @staticmethod
    def read(folder: Path, file: str, name: str, chip: Chip, mode: str) -> LoweredProgram:
        """Read what the compiler left after its last pass before `--layer-group`."""
        text = (folder / file).read_text(encoding="utf-8")
        try:
            return LoweredProgram(folder, file, name, chip, mode, text, read_lowered(text, chip))
        except (ToolError, InternalError) as error:
            return LoweredProgram(folder, file, name, chip, mode, text, (), error.reason)

    def reordered(self, function: str, names: Sequence[str]) -> LoweredProgram:
        """The same program with the ops of one function in the order of `names`."""
        target = next(item for item in self.functions if item.name == function)
        lines = self.text.splitlines()
        by_name = {op.name: lines[at] for op, at in zip(target.graph.ops, target.lines, strict=True)}
        moved = set(target.lines)
        start = max(i for i in range(min(moved)) if "func.func @" in lines[i])
        stop = next(i for i in range(max(moved), len(lines)) if lines[i].lstrip().startswith("return "))
        weights = [lines[i] for i in range(start + 1, stop) if i not in moved]
        body = [*lines[: start + 1], *weights, *(by_name[name] for name in names), *lines[stop:]]
        text = "\n".join(body) + "\n"
        return replace(self, text=text, functions=read_lowered(text, self.chip))


@dataclass(frozen=True, eq=False)
class Outcome:
    """What the compiler made of some groups. profile: None for chips without a simulator of cycles.

    refused: why it would not take the groups; then everything else is empty. culprit: function and group that this
    names, where it names one. op_cycles: compute by op name. commands: of the profile, labelled with names.
    audit: of the final program's local memory. set_aside: why the compiler's own groups do not stand, and what stands
    in for them; empty where they do.
    """

    groups: Mapping[str, tuple[InjectedGroup, ...]]
    profile: Profile | None = None
    traffic: Traffic | None = None
    op_cycles: Mapping[str, int] | None = None
    commands: tuple[Command, ...] = ()
    model: bytes = b""
    refused: str = ""
    culprit: tuple[str, InjectedGroup] | None = None
    audit: Audit | None = None
    set_aside: str = ""

    @property
    def cost(self) -> int:
        """What candidates are compared in: cycles, or bytes where there is no profile. A refusal costs infinitely."""
        if self.profile is not None:
            return self.profile.end_cycles
        return self.traffic.total_bytes if self.traffic is not None else 1 << 62


def groups_of(plan: GroupedGraph) -> tuple[InjectedGroup, ...]:
    """A plan's groups as the compiler numbers them."""
    position = {op.name: index for index, op in enumerate(plan.graph.ops)}
    return tuple(
        InjectedGroup(position[group.ops[0].name], position[group.ops[-1].name], group.slices.count)
        for group in plan.groups
    )


def compile_groups(
    toolchain: Toolchain,
    program: LoweredProgram,
    groups: Mapping[str, Sequence[InjectedGroup]] | None = None,
    *,
    keep: Path | None = None,
    search: bool = True,
) -> Outcome:
    """Compile with `groups` by function, or with the compiler's own choice (None).

    keep: a folder for the compiler's files; otherwise they are removed. search: whether that choice is the best that
    the compiler finds, which can take most of a build's time, or simply groups of as many layers as fit. These also
    stand in where the search does not end in time or fails, or where the audit refutes what it found; and where that
    happens to them too, no groups are formed.

    Raises ToolError where the compiler fails even without groups, or cannot be run at all.
    """
    if groups is not None:
        return _with_given(toolchain, program, groups, keep)
    reason, first = "", None
    for way, instead in _WAYS if search else _WAYS[1:]:
        try:
            outcome, _ = _compiled(toolchain, program, way, None, keep)
        except CompilerError as error:
            reason = reason or ("stopped" if error.timed_out else "failed")
            first = first or error
            continue
        conflicts = outcome.audit.conflicts if outcome.audit is not None else ()
        if not conflicts:
            return replace(outcome, set_aside=f"{reason}: {instead}" if reason else "")
        reason = reason or f"refuted ({conflicts[0]})"
    raise first or InternalError("a program without groups has conflicts", where="layer groups")


def compile_without_groups(toolchain: Toolchain, program: LoweredProgram, keep: Path, reason: str) -> Outcome:
    """Every layer on global memory. reason: why groups do not stand. Raises CompilerError where that fails."""
    outcome, _ = _compiled(toolchain, program, _NONE, None, keep)
    return replace(outcome, set_aside=f"{reason}: no groups stand in")


def _with_given(
    toolchain: Toolchain, program: LoweredProgram, groups: Mapping[str, Sequence[InjectedGroup]], keep: Path | None
) -> Outcome:
    """The outcome of given groups; those that cannot be audited are refused as those that the audit refutes."""
    taken = {name: tuple(items) for name, items in groups.items()}
    try:
        outcome, final = _compiled(toolchain, program, _SEARCH, groups, keep)
    except CompilerError as error:
        return Outcome(taken, refused=error.reason, culprit=_named_group(error.reason, program, taken))
    audit = outcome.audit
    if audit is not None and audit.conflicts:
        reason = f"the compiler's placement of these groups is broken: {audit.conflicts[0]}"
        return Outcome(taken, refused=reason, culprit=_placed_group(audit.conflicts[0], final, program))
    if audit is not None and audit.not_followed:
        return Outcome(taken, refused=audit.not_followed[0])
    return outcome


def _compiled(
    toolchain: Toolchain,
    program: LoweredProgram,
    way: int,
    groups: Mapping[str, Sequence[InjectedGroup]] | None,
    keep: Path | None,
) -> tuple[Outcome, str]:
    """One compilation and its final program. Raises CompilerError where it fails."""
    with working_folder("nnkit-groups-") as temporary:
        work = keep or temporary
        work.mkdir(parents=True, exist_ok=True)
        for weights in program.folder.glob("*.npz"):
            if not (work / weights.name).exists():
                shutil.copyfile(weights, work / weights.name)
        (work / "lowered.mlir").write_text(program.text, encoding="utf-8")
        suffix = "cvimodel" if program.chip.is_cv else "bmodel"
        final = _grouped(toolchain, program, way, groups, work)
        lone = lone_convolutions(final_ops(final), program.chip)
        if lone and program.functions:
            grouped = _with_lone_grouped(toolchain, program, final, lone, work)
            final = _grouped(toolchain, program, *((way, groups) if grouped is None else (_SEARCH, grouped)), work)
            lone = lone_convolutions(final_ops(final), program.chip)
        codegen = [text.format(f"net.{suffix}", program.model_version) for text in _CODEGEN_PASSES]
        arguments, integers = ["final.mlir", *codegen, "-o", "/dev/null"], program.mode == "INT8"
        try:
            what = "generating code"
            run_tpuc_opt(toolchain, arguments, work, log_name="codegen.log", what=what, in_integers=integers)
        except CompilerError as error:
            raise with_suspects(error, final_ops(final), lone) from None
        chosen = read_groups(final, program.functions)
        profile = _profile(work)
        measured = op_cycles_by_name(profile, program.functions, final) if profile is not None else None
        model = without_time((work / f"net.{suffix}").read_bytes())
        audit = audit_local_memory(final, program.chip)
        commands = named_commands(profile, program.functions, final) if profile is not None else ()
        return Outcome(chosen, profile, read_traffic(final), measured, commands, model, audit=audit), final


def _grouped(
    toolchain: Toolchain,
    program: LoweredProgram,
    way: int,
    groups: Mapping[str, Sequence[InjectedGroup]] | None,
    work: Path,
) -> str:
    """The final program in `work`, where the lowered one is. Raises CompilerError."""
    environment = {}
    if groups is not None:
        cache = work / group_cache_name(program.name, program.chip.name, program.mode)
        cache.write_text(write_group_cache(program.functions, groups), encoding="utf-8")
        environment = {"LOAD_TPU_GROUP": "1"}
    grouping = ["--init", *([] if way == _NONE else [_FORM.format(way), _MAPS]), *_AFTERWARDS]
    run_tpuc_opt(
        toolchain,
        ["lowered.mlir", *grouping, "-o", "final.mlir"],
        work,
        log_name="groups.log",
        what="forming layer groups",
        environment=environment,
        in_integers=program.mode == "INT8",
    )
    return (work / "final.mlir").read_text(encoding="utf-8")


def _with_lone_grouped(
    toolchain: Toolchain, program: LoweredProgram, final: str, lone: Sequence[str], work: Path
) -> Mapping[str, Sequence[InjectedGroup]] | None:
    """The groups of a final program and those that the layers `lone` fit into; None: they fit none."""
    kept, result = read_groups(final, program.functions), None
    for name in lone:
        for groups in groups_around(program.functions, kept, name):
            try:
                tried = _grouped(toolchain, program, _SEARCH, groups, work)
            except CompilerError as error:
                if error.timed_out:
                    raise
                continue
            if name not in lone_convolutions(final_ops(tried), program.chip):
                kept = result = read_groups(tried, program.functions)
                break
    return result


def _named_group(
    reason: str, program: LoweredProgram, groups: Mapping[str, tuple[InjectedGroup, ...]]
) -> tuple[str, InjectedGroup] | None:
    """The group of "... failed for group 3": the compiler counts groups and single layers of a function alike."""
    failed = _FAILED_GROUP.search(reason)
    if failed is None:
        return None
    number = int(failed.group(1))
    named = []
    for function in program.functions:
        starts = {group.first: group for group in groups.get(function.name, ())}
        position = 0
        for _ in range(number):
            position = starts[position].last + 1 if position in starts else position + 1
        if position in starts:
            named.append((function.name, starts[position]))
    return named[0] if len(named) == 1 else None


def _placed_group(conflict: str, final: str, program: LoweredProgram) -> tuple[str, InjectedGroup] | None:
    """The group of a sentence of the audit, "group 3: ...": it counts the groups of the final program."""
    number = int(conflict.partition(":")[0].removeprefix("group "))
    made = read_groups(final, program.functions)
    flat = [(name, group) for name, groups in made.items() for group in groups]
    return flat[number] if number < len(flat) else None


def _profile(work: Path) -> Profile | None:
    """The profile of the core that ends last."""
    profiles = [
        read_profile(path.read_text(errors="replace")) for path in sorted(work.glob("compiler_profile_*.txt"))
    ]
    return max(profiles, key=lambda profile: profile.end_cycles, default=None)
