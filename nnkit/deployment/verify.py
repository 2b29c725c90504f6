"""The whole pipeline in Python against what runners compute: results, values of stages, and the stored gallery."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nnkit.deployed import Deployed
from nnkit.deployed.session import (
    ENROL,
    LOAD,
    NETWORK,
    REMOVE,
    SAVE,
    SEARCH,
    Answer,
    Command,
    Session,
    command_bytes,
    trace_bytes,
)
from nnkit.errors import UserFileError
from nnkit.inputs import verification_samples
from nnkit.pipeline import Prepared
from nnkit.program.inputs import quantized_inputs
from nnkit.simulate import simulate
from nnkit.verify.artifact import ArtifactVerdict

if TYPE_CHECKING:
    from nnkit.deployment.build import DeploymentBuild
    from nnkit.target import PipelineRun, PipelineRunner

_AFTERWARDS = 2  # frames that are searched again after the gallery was stored, loaded, and lost a person


@dataclass(frozen=True, eq=False)
class PipelineVerdict:
    """runs: a comparison for each runner. stages: by runner, of each stage how often it ran and what that took.

    answers: of the whole session, in Python; frames: the file behind each of its commands, empty without one.
    """

    runs: tuple[ArtifactVerdict, ...]
    stages: Mapping[str, Mapping[str, tuple[int, int]]]
    counts: Mapping[str, str]
    answers: tuple[Answer, ...]
    files: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class _Told:
    """A command and the file that its frame is from."""

    command: Command
    file: str = ""


def verify_pipeline(
    build: DeploymentBuild, prepared: Mapping[str, Prepared], deployed: Deployed, artifact: Path, folder: Path
) -> PipelineVerdict:
    """Run a session in Python and on each runner, and compare all.

    Raises UserFileError for a frame of another size.
    """
    session = _session(build, prepared, deployed)
    programs = {part.name: part.program for part in deployed.parts}
    known: dict[tuple[str, bytes], Mapping[str, NDArray[Any]]] = {}

    def run(network: str, inputs: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
        key = network, b"".join(np.ascontiguousarray(value).tobytes() for value in inputs.values())
        if key not in known:
            known[key] = simulate(programs[network], inputs)
        return known[key]

    python = Session(deployed.parts, deployed.stages, run)
    with build.progress.stage("simulate pipeline", len(session)) as step:
        answers = []
        for told in session:
            answers.append(python.answer(told.command))
            step.advance(1)
        searched = sum(told.command.code == SEARCH for told in session)
        step.detail = f"{len(session)} commands, {searched} frames searched"
    verdicts, stages, counts = [], {}, {}
    for runner in build.deployer.runners(build.options):
        counts[runner.name] = runner.counts
        commands = [told.command for told in (_shortened(session) if runner.emulated else session)]
        reason = "skipped by --no-qemu" if runner.emulated and not build.emulate else runner.missing()
        with build.progress.stage(f"verify {runner.name}") as step:
            if reason is not None:
                verdicts.append(ArtifactVerdict(runner.name, "not_run", reason=reason))
                step.detail = f"NOT RUN: {reason}"
                continue
            wanted = Session(deployed.parts, deployed.stages, run)
            expected = [wanted.answer(command) for command in commands]
            made = runner.run(artifact, deployed, command_bytes(deployed.parts, deployed.stages, commands))
            verdict = _compared(runner, made, wanted, expected, deployed)
            stages[runner.name] = made.stages
            verdicts.append(verdict)
            step.detail = f"{verdict.mismatches} of {verdict.values:,} bytes differ"
    return PipelineVerdict(tuple(verdicts), stages, counts, tuple(answers), tuple(told.file for told in session))


def _session(build: DeploymentBuild, prepared: Mapping[str, Prepared], deployed: Deployed) -> list[_Told]:
    """Each network alone on its first verification input; then people are enrolled and frames searched."""
    session = []
    for part in deployed.parts:
        own = prepared[part.name]
        samples = verification_samples(own.build.recipe, own.restructured.model)
        session.append(_Told(Command(NETWORK, part.name, quantized_inputs(part.program, samples[0]))))
    pipeline = build.recipe.deployment.pipeline
    if pipeline is None or pipeline.verify is None:
        return session
    enrolled = [
        (name, path) for name, globs in pipeline.verify.enrol.items() for glob in globs for path in glob.matches()
    ]
    frames = [path for glob in pipeline.verify.frames for path in glob.matches()]
    session += [
        _Told(Command(ENROL, frame=read_frame(path, pipeline.frame), name=name), path.name) for name, path in enrolled
    ]
    searches = [_Told(Command(SEARCH, frame=read_frame(path, pipeline.frame)), path.name) for path in frames]
    session += [*searches, _Told(Command(SAVE)), _Told(Command(LOAD))]
    session += [_Told(Command(REMOVE, name=enrolled[0][0]))] if enrolled else []
    session += [_Told(Command(REMOVE, name="?")), *searches[:_AFTERWARDS], _Told(Command(SAVE))]
    return session


def _shortened(session: Sequence[_Told]) -> list[_Told]:
    """What a slow runner gets: networks alone, the first person, one frame, and all that takes no network."""
    seen: set[int] = set()
    short = []
    for told in session:
        if told.command.code not in (ENROL, SEARCH) or told.command.code not in seen:
            short.append(told)
        seen.add(told.command.code)
    return short


def read_frame(path: Path, size: tuple[int, int]) -> NDArray[np.uint8]:
    """A picture as the camera gives it: [height, width] of gray. Raises UserFileError for another size."""
    from nnkit.preprocess.decode import decode_image

    picture = decode_image(path).convert("L")
    if (picture.height, picture.width) != size:
        raise UserFileError(
            f"it has {picture.height}x{picture.width} pixels, a frame has {size[0]}x{size[1]}",
            where=str(path),
            remedy="scale it, or correct deployment.pipeline.frame",
        )
    return np.asarray(picture, np.uint8)


def _compared(
    runner: PipelineRunner, made: PipelineRun, wanted: Session, expected: Sequence[Answer], deployed: Deployed
) -> ArtifactVerdict:
    """Byte by byte: what every command gave, what every stage wrote, and what the store holds."""
    results = b"".join(answer.result for answer in expected)
    stored = b"".join(wanted.store.slots) if wanted.store is not None else b""
    values = mismatches = 0
    first = ""
    pairs = [("the results", results, made.results), ("the store", stored, made.store)]
    pairs.insert(0, ("the stages", trace_bytes(wanted.trace), made.trace))
    for what, ours, theirs in pairs:
        differing = _differing(ours, theirs)
        values += max(len(ours), len(theirs))
        mismatches += len(differing)
        if len(differing) and not first:
            place = _stage_at(wanted, deployed, int(differing[0])) if what == "the stages" else ""
            first = f"byte {int(differing[0])} of {what}{place}"
    return ArtifactVerdict(
        runner.name,
        "exact",
        values,
        mismatches,
        inputs=len(expected),
        measured=made.measured,
        first_difference=first,
    )


def _differing(ours: bytes, theirs: bytes) -> NDArray[np.intp]:
    """Places of bytes that differ; what one has more counts too."""
    length = min(len(ours), len(theirs))
    a, b = np.frombuffer(ours, np.uint8, length), np.frombuffer(theirs, np.uint8, length)
    return np.concatenate([np.flatnonzero(a != b), np.arange(length, max(len(ours), len(theirs)))])


def _stage_at(wanted: Session, deployed: Deployed, byte: int) -> str:
    """The stage whose record holds a byte of the trace."""
    end = 0
    for each in wanted.trace:
        end += 8 + len(each.data)
        if byte < end and deployed.stages is not None:
            return f", in {deployed.stages.NAMES[each.stage]}"
    return ""
