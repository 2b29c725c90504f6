"""Face verification on people the network has never seen: float against quantised, and a small ablation.

A pair of pictures is taken for one person where the L2 distance of the two raw descriptors is at most a
threshold. The threshold is chosen on pairs of people who take no further part; accuracy, recall and flipped
decisions are then counted on at least 20,000 pairs of other people, half of them of one person.

    python verification.py --model reid.onnx --build int16=out/gap8_reid/gap8 --build int8=out8/gap8_reid/gap8

A describer is any function from pictures, uint8 [N, 1, 128, 128], to descriptors, float [N, 512], so that the
float network, a simulator and a program are measured by the same code: see `ablation`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from draw_faces import draw, identity, picture_rng

ByteArray = npt.NDArray[np.uint8]
FloatArray = npt.NDArray[np.floating[Any]]
Describer = Callable[[ByteArray], FloatArray]
"""Pictures [N, 1, 128, 128] uint8 to descriptors [N, 512]."""

FIRST_PERSON = 1_000_000
"""Where the held-out identities begin; training and its validation use smaller numbers."""
FALSE_POSITIVE_RATE = 0.01
CONDITIONS = ((True, False), (True, True), (False, False), (False, True))
"""(box jitter, alignment) of the ablation; the first is what the camera's pipeline gives."""


@dataclass(frozen=True)
class Population:
    """Who is drawn, and how often: `threshold_people` choose the threshold, `people` are judged by it."""

    people: int = 230
    threshold_people: int = 100
    pictures: int = 10
    first_person: int = FIRST_PERSON


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of pictures, by index into the pictures of a `Population`, [n] each."""

    first: npt.NDArray[np.intp]
    second: npt.NDArray[np.intp]
    same: npt.NDArray[np.bool_]
    for_threshold: npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Result:
    """Verification by one describer. All but `threshold` is counted on the pairs that did not choose it."""

    pairs: int
    accuracy: float
    threshold: float
    recall: float
    """Share of the pairs of one person that are found where `FALSE_POSITIVE_RATE` of the others are too."""
    decisions: npt.NDArray[np.bool_]
    """[pairs]: taken for one person."""


@dataclass(frozen=True, eq=False)
class Row:
    """A line of the ablation; `flipped` counts the decisions that differ from those of the first describer."""

    describer: str
    box_jitter: bool
    align: bool
    result: Result
    flipped: int


def pictures(population: Population, *, box_jitter: bool = True, align: bool = False) -> ByteArray:
    """All pictures of a population, person by person, those for the threshold first: [N, 1, 128, 128] uint8."""
    count = population.threshold_people + population.people
    faces = []
    for person in range(population.first_person, population.first_person + count):
        face = identity(person)
        for picture in range(population.pictures):
            faces.append(draw(face, picture_rng(person, picture), box_jitter=box_jitter, align=align))
    return np.stack(faces)[:, None]


def pairs(population: Population) -> Pairs:
    """All pairs of pictures of one person, and as many of two people, drawn without repetition.

    Both parts of the population are paired within themselves only.
    """
    rng = np.random.default_rng([17, population.first_person])
    found = []
    parts = ((0, population.threshold_people, True), (population.threshold_people, population.people, False))
    for start, people, for_threshold in parts:
        count = people * population.pictures
        person = np.arange(count) // population.pictures
        first, second = np.triu_indices(count, k=1)
        same = person[first] == person[second]
        equal, other = np.flatnonzero(same), np.flatnonzero(~same)
        chosen = np.concatenate([equal, rng.choice(other, size=len(equal), replace=False)])
        offset = start * population.pictures
        found.append((first[chosen] + offset, second[chosen] + offset, same[chosen], for_threshold))
    return Pairs(
        np.concatenate([part[0] for part in found]),
        np.concatenate([part[1] for part in found]),
        np.concatenate([part[2] for part in found]),
        np.concatenate([np.full(len(part[0]), part[3]) for part in found]),
    )


def best_threshold(distance: FloatArray, same: npt.NDArray[np.bool_]) -> float:
    """The threshold of the highest accuracy: half-way between two neighbouring distances."""
    order = np.argsort(distance, kind="stable")
    ascending = distance[order]
    correct = np.cumsum(np.where(same[order], 1, -1))
    correct[:-1][ascending[:-1] == ascending[1:]] = np.iinfo(correct.dtype).min
    best = int(np.argmax(correct))
    above = ascending[min(best + 1, len(ascending) - 1)]
    return float((ascending[best] + above) / 2)


def recall_at(rate: float, distance: FloatArray, same: npt.NDArray[np.bool_]) -> float:
    """Share of the same-person pairs nearer than the threshold that lets `rate` of the other pairs pass."""
    others = np.sort(distance[~same])
    allowed = int(np.floor(rate * len(others)))
    return float(np.mean(distance[same] < others[allowed]))


def evaluate(descriptors: FloatArray, chosen: Pairs, *, normalise: bool = False) -> Result:
    """Judges all pairs by the L2 distance of their descriptors [N, 512], scaled to length 1 if `normalise`."""
    points = np.asarray(descriptors, dtype=np.float64)
    if normalise:
        points = points / np.maximum(np.linalg.norm(points, axis=1, keepdims=True), 1e-12)
    distance = np.linalg.norm(points[chosen.first] - points[chosen.second], axis=1)
    choosing = chosen.for_threshold
    threshold = best_threshold(distance[choosing], chosen.same[choosing])
    distance, same = distance[~choosing], chosen.same[~choosing]
    decisions = distance <= threshold
    return Result(
        pairs=len(same),
        accuracy=float(np.mean(decisions == same)),
        threshold=threshold,
        recall=recall_at(FALSE_POSITIVE_RATE, distance, same),
        decisions=decisions,
    )


def flipped(one: Result, other: Result) -> int:
    """Number of pairs on which two describers, each with its own threshold, decide differently."""
    return int(np.count_nonzero(one.decisions != other.decisions))


def ablation(
    describers: Mapping[str, Describer],
    population: Population | None = None,
    *,
    conditions: Sequence[tuple[bool, bool]] = CONDITIONS,
    normalise: bool = False,
) -> list[Row]:
    """Every describer under every condition (box jitter, alignment); the first one is the reference."""
    population = population or Population()
    chosen = pairs(population)
    rows = []
    for box_jitter, align in conditions:
        images = pictures(population, box_jitter=box_jitter, align=align)
        reference: Result | None = None
        for name, describe in describers.items():
            result = evaluate(describe(images), chosen, normalise=normalise)
            reference = reference or result
            rows.append(Row(name, box_jitter, align, result, flipped(reference, result)))
    return rows


def float_describer(model: Path, *, batch: int = 64, threads: int = 2) -> Describer:
    """The float network in ONNX Runtime; a model whose batch is pinned to 1 is fed picture by picture."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    source = session.get_inputs()[0]
    step = source.shape[0] if isinstance(source.shape[0], int) else batch

    def describe(images: ByteArray) -> FloatArray:
        parts = [images[at : at + step].astype(np.float32) for at in range(0, len(images), step)]
        return np.concatenate([session.run(None, {source.name: part})[0] for part in parts])

    return describe


def build_describer(folder: Path, *, processes: int = 2) -> Describer:
    """A build of nnkit (`out/gap8_reid/gap8`), executed by the bit-exact simulator; the C gives the same."""

    def describe(images: ByteArray) -> FloatArray:
        parts = np.array_split(images, processes)
        with ProcessPoolExecutor(processes) as pool:
            return np.concatenate(list(pool.map(_simulated, [folder] * processes, parts)))

    return describe


def _simulated(folder: Path, images: ByteArray) -> FloatArray:
    from nnkit.builds import open_build
    from nnkit.simulate import simulate

    program = open_build(folder).program
    source, result = program.tensors[program.inputs[0]], program.tensors[program.outputs[0]]
    stored = [simulate(program, {source.name: source.fixed.quantize(image)})[result.name] for image in images]
    return result.fixed.dequantize(np.stack(stored)).reshape(len(images), -1)


def as_json(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The ablation without the single decisions, for machines."""
    return [
        {
            "describer": row.describer,
            "box_jitter": row.box_jitter,
            "align": row.align,
            "pairs": row.result.pairs,
            "accuracy": row.result.accuracy,
            "recall": row.result.recall,
            "false_positive_rate": FALSE_POSITIVE_RATE,
            "threshold": row.result.threshold,
            "flipped": row.flipped,
        }
        for row in rows
    ]


def as_table(rows: Sequence[Row]) -> str:
    """The ablation as a Markdown table."""
    lines = [
        f"| box jitter | alignment | network | accuracy | recall at {FALSE_POSITIVE_RATE:.0%} | flipped |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        jitter, align = ("yes" if flag else "no" for flag in (row.box_jitter, row.align))
        numbers = f"{row.result.accuracy:.4f} | {row.result.recall:.4f} | {row.flipped}"
        lines.append(f"| {jitter} | {align} | {row.describer} | {numbers} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model", type=Path, default=Path(__file__).with_name("reid.onnx"))
    parser.add_argument("--build", action="append", default=[], metavar="NAME=FOLDER", help="a build (repeatable)")
    parser.add_argument("--normalise", action="store_true", help="scale descriptors to length 1 first")
    parser.add_argument("--json", type=Path, help="write the numbers to this file too")
    arguments = parser.parse_args()
    describers = {"float": float_describer(arguments.model)}
    for text in arguments.build:
        name, _, folder = text.partition("=")
        describers[name] = build_describer(Path(folder))
    rows = ablation(describers, normalise=arguments.normalise)
    print(f"{rows[0].result.pairs} pairs")
    print(as_table(rows))
    if arguments.json:
        arguments.json.write_text(json.dumps(as_json(rows), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
