"""Our groups given to the vendor's compiler, and what its own simulator and final program say of them.

The compiler takes cuts and slices from its group cache (`LOAD_TPU_GROUP`), and the order of ops from the order of the
lines in the lowered program; load times and addresses it chooses itself. A group that its placement cannot hold is
refused by it, or placed wrongly without a word, which the audit of the final program finds (`audit.py`): both are
outcomes here, not errors.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nnkit.errors import ToolError
from nnkit_tpu.chips import Chip
from nnkit_tpu.layer_group.audit import Audit, audit_local_memory
from nnkit_tpu.layer_group.from_lowered import LoweredFunction, read_lowered
from nnkit_tpu.layer_group.groups import GroupedGraph
from nnkit_tpu.layer_group.vendor_files import (
    InjectedGroup,
    Profile,
    Traffic,
    group_cache_name,
    op_cycles_by_name,
    read_groups,
    read_profile,
    read_traffic,
    write_group_cache,
)
from nnkit_tpu.model_stamp import without_time
from nnkit_tpu.toolchain.find import Toolchain
from nnkit_tpu.toolchain.run import CompilerError, run_tpuc_opt

_SEARCH, _AS_MANY_AS_FIT = 2, 1  # the compiler's two ways to form groups
_GROUP_PASSES = (
    "--init",
    "--layer-group=opt={} group_by_cores=auto compress_mode=none debugger=0 disable_group_overlap=false lgcache=true",
    "--core-parallel",
    "--after-layergroup-weight-reorder",
    "--address-assign",
    "--deinit",
)
_FAILED_GROUP = re.compile(r"failed for group (\d+)")
_CODEGEN_PASSES = ("--init", "--codegen=model_file={} embed_debug_info=False model_version=latest", "--deinit")


@dataclass(frozen=True, eq=False)
class LoweredProgram:
    """A lowered program on disk, ready for grouping.

    folder: holds `file` and the weights it names. name: of its module. mode: as in the compiler's options.
    """

    folder: Path
    file: str
    name: str
    chip: Chip
    mode: str
    text: str
    functions: tuple[LoweredFunction, ...]

    @staticmethod
    def read(folder: Path, file: str, name: str, chip: Chip, mode: str) -> LoweredProgram:
        """Read what the compiler left after its last pass before `--layer-group`."""
        text = (folder / file).read_text(encoding="utf-8")
        return LoweredProgram(folder, file, name, chip, mode, text, read_lowered(text, chip))

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
        return LoweredProgram(
            self.folder, self.file, self.name, self.chip, self.mode, text, read_lowered(text, self.chip)
        )


@dataclass(frozen=True, eq=False)
class Outcome:
    """What the compiler made of some groups. profile: None for chips without a simulator of cycles.

    refused: why it would not take the groups; then everything else is empty. culprit: function and group that this
    names, where it names one. op_cycles: compute by op name. audit: of the final program's local memory. searched:
    False where the compiler's own search did not end in time, and groups of as many layers as fit stand in.
    """

    groups: Mapping[str, tuple[InjectedGroup, ...]]
    profile: Profile | None = None
    traffic: Traffic | None = None
    op_cycles: Mapping[str, int] | None = None
    model: bytes = b""
    refused: str = ""
    culprit: tuple[str, InjectedGroup] | None = None
    audit: Audit | None = None
    searched: bool = True

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
    the compiler finds, which can take most of a build's time, or simply groups of as many layers as fit; these also
    where the search does not end in time.

    Raises ToolError where the compiler fails without given groups, or cannot be run at all.
    """
    with tempfile.TemporaryDirectory(prefix="nnkit-groups-") as temporary:
        work = keep or Path(temporary)
        work.mkdir(parents=True, exist_ok=True)
        for weights in program.folder.glob("*.npz"):
            if not (work / weights.name).exists():
                shutil.copyfile(weights, work / weights.name)
        (work / "lowered.mlir").write_text(program.text, encoding="utf-8")
        cache = work / group_cache_name(program.name, program.chip.name, program.mode)
        environment = {}
        if groups is not None:
            cache.write_text(write_group_cache(program.functions, groups), encoding="utf-8")
            environment = {"LOAD_TPU_GROUP": "1"}
        suffix = "cvimodel" if program.chip.is_cv else "bmodel"
        grouping = [text.format(_SEARCH if search else _AS_MANY_AS_FIT) for text in _GROUP_PASSES]
        codegen = [text.format(f"net.{suffix}") for text in _CODEGEN_PASSES]
        try:
            for arguments, log, what in (
                (["lowered.mlir", *grouping, "-o", "final.mlir"], "groups.log", "forming layer groups"),
                (["final.mlir", *codegen, "-o", "/dev/null"], "codegen.log", "generating code"),
            ):
                run_tpuc_opt(toolchain, arguments, work, log_name=log, what=what, environment=environment)
        except ToolError as error:
            if groups is None and search and isinstance(error, CompilerError) and error.timed_out:
                return replace(compile_groups(toolchain, program, keep=keep, search=False), searched=False)
            if groups is None:
                raise
            taken = {name: tuple(items) for name, items in groups.items()}
            return Outcome(taken, refused=error.reason, culprit=_named_group(error.reason, program, taken))
        final = (work / "final.mlir").read_text(encoding="utf-8")
        audit = audit_local_memory(final, program.chip)
        if audit.conflicts and groups is not None:
            taken = {name: tuple(items) for name, items in groups.items()}
            reason = f"the compiler's placement of these groups is broken: {audit.conflicts[0]}"
            return Outcome(taken, refused=reason, culprit=_placed_group(audit.conflicts[0], final, program))
        chosen = read_groups(final, program.functions)
        profile = _profile(work)
        measured = op_cycles_by_name(profile, program.functions, final) if profile is not None else None
        model = without_time((work / f"net.{suffix}").read_bytes())
        return Outcome(chosen, profile, read_traffic(final), measured, model, audit=audit)


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
