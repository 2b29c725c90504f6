"""Files that say what is true, and gates that need them."""

from __future__ import annotations

from pathlib import Path

import pytest
from mistakes import Mistake, check_mistake


def labels(folder: Path) -> None:
    texts = {
        "right": "0.png,1",
        "wide": "0.png,1,2",
        "names": "0.png,cat",
        "other": "7.png,1",
        "twice": "0.png,1\n0.png,2",
        "beyond": "0.png,1000",
    }
    texts |= {"semicolon": "0.png;1", "tab": "0.png\t1"}
    for name, text in texts.items():
        (folder / f"{name}.csv").write_text(f"{text}\n")
    (folder / "empty.csv").write_text("")


MISTAKES = (
    Mistake(
        "not there",
        "verify: {",
        "verify: {task: {kind: classification, labels: no.csv}, ",
        "11:47",
        "the file of labels 'no.csv' does not exist",
        "it was looked for at",
        "verify: {task: {kind: classification, labels: right.csv}, ",
        prepare=labels,
    ),
    Mistake(
        "a column too many",
        "verify: {",
        "verify: {task: {kind: classification, labels: wide.csv}, ",
        "wide.csv:1",
        "image,class",
        "fix",
        "verify: {task: {kind: classification, labels: right.csv}, ",
        prepare=labels,
    ),
    Mistake(
        "names of classes",
        "verify: {",
        "verify: {task: {kind: classification, labels: names.csv}, ",
        "names.csv:1",
        "1 class names (cat), and the network has",
        "one a line: task: {classes: classes.txt}",
        "verify: {task: {kind: classification, labels: right.csv}, ",
        prepare=labels,
    ),
    Mistake(
        "beyond the classes",
        "verify: {",
        "verify: {task: {kind: classification, labels: beyond.csv}, ",
        "beyond.csv:1",
        "has class 1000, but the network has",
        "which count from 0",
        "verify: {task: {kind: classification, labels: right.csv}, ",
        prepare=labels,
    ),
    Mistake(
        "other pictures",
        "verify: {",
        "verify: {task: {kind: classification, labels: other.csv}, ",
        "other.csv",
        "image",
        "fix",
        "verify: {task: {kind: classification, labels: right.csv}, ",
        prepare=labels,
    ),
    Mistake(
        "twice",
        "verify: {",
        "verify: {task: {kind: classification, labels: twice.csv}, ",
        "twice.csv:2",
        "'0.png' has class 2 here, and class 1 in a line before",
        "keep the line that is true",
        "verify: {task: {kind: classification, labels: right.csv}, ",
        prepare=labels,
    ),
    Mistake(
        "semicolon",
        "verify: {",
        "verify: {task: {kind: classification, labels: semicolon.csv}, ",
        "semicolon.csv:1",
        "1 value in this line",
        "write commas between the values: image,class",
        "verify: {task: {kind: classification, labels: right.csv}, ",
        prepare=labels,
    ),
    Mistake(
        "tab",
        "verify: {",
        "verify: {task: {kind: classification, labels: tab.csv}, ",
        "tab.csv:1",
        "1 value in this line",
        "write commas between the values: image,class",
        "verify: {task: {kind: classification, labels: right.csv}, ",
        prepare=labels,
    ),
    Mistake(
        "empty",
        "verify: {",
        "verify: {task: {kind: classification, labels: empty.csv}, ",
        "empty.csv",
        "the file is empty",
        "write a line for each image",
        "verify: {task: {kind: classification, labels: right.csv}, ",
        prepare=labels,
    ),
    Mistake(
        "gate without task",
        "cosine: 0.99",
        "top1_accuracy: 0.9",
        "11:33",
        "'top1_accuracy' is measured for classification, but there is no task",
        "add task: {kind: classification, labels: FILE}",
        "cosine: 0.9",
    ),
    Mistake(
        "gate without labels",
        "verify: {gates: {cosine: 0.99",
        "verify: {task: {kind: classification}, gates: {top1_accuracy: 0.9",
        "11:63",
        "'top1_accuracy' needs what is true of the images",
        "add task: {labels: FILE}",
        "verify: {task: {kind: classification, labels: right.csv}, gates: {top1_accuracy: 0.9",
        prepare=labels,
    ),
    Mistake(
        "no pairs",
        "verify: {",
        "verify: {task: {kind: verification}, ",
        "11:16",
        "neither identity nor pairs is given",
        "write identity: parent_folder, or pairs: FILE",
        "verify: {task: {kind: verification, identity: parent_folder}, ",
    ),
)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_it_is_told_and_the_remedy_mends_it(
    mistake: Mistake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    check_mistake(mistake, tmp_path, monkeypatch, capsys)
