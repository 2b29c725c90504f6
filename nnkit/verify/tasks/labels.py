"""Files that say what is true: classes, pairs and boxes as CSV."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np

from nnkit.errors import UserFileError
from nnkit.reading import read_csv
from nnkit.verify.tasks.detection import Box
from nnkit.verify.tasks.score import matching
from nnkit.verify.tasks.verification import Pairs

T = TypeVar("T")


def read_classes(path: Path, images: Sequence[str], count: int | None = None) -> dict[int, int]:
    """Class number by index of the image. Images that the file does not name have none.

    count: how many classes the network has; None where that is not known.

    Raises UserFileError for a line that is no `image,class`, for a class that the network does not have, or where no
    image is named.
    """
    classes: dict[int, int] = {}
    told: dict[str, int] = {}
    for line, fields in _rows(path, 2, "image,class"):
        category = _number(fields[1], int, path, line, "a class is a whole number from 0")
        if told.setdefault(fields[0], category) != category:
            raise UserFileError(
                f"{fields[0]!r} has class {category} here, and class {told[fields[0]]} in a line before",
                where=f"{path}:{line}",
                remedy="keep the line that is true",
            )
        labelled = matching(fields[0], images)
        if labelled and count is not None and category >= count:
            raise UserFileError(
                f"{fields[0]!r} has class {category}, but the network has {_classes(count)}",
                where=f"{path}:{line}",
                remedy="classes count from 0: take 1 off every number, if yours count from 1"
                if category == count
                else "give the numbers that the network was trained with, which count from 0; or name another output "
                "in verify.task.output",
            )
        classes.update(dict.fromkeys(labelled, category))
    return _some(classes, path)


def read_boxes(path: Path, images: Sequence[str]) -> dict[int, list[Box]]:
    """True boxes by index of the image. A line with the image alone says that it has none.

    Raises UserFileError for a line of another form, or where no image is named.
    """
    by_image: dict[int, list[Box]] = {}
    for line, fields in _rows(path, (1, 6), "image,class,x_min,y_min,x_max,y_max"):
        for index in matching(fields[0], images):
            boxes = by_image.setdefault(index, [])
            if len(fields) == 6:
                category = _number(fields[1], int, path, line, "a class is a whole number from 0")
                remedy = "corners are numbers from 0 to 1"
                corners = [_number(text, float, path, line, remedy) for text in fields[2:]]
                if not all(0.0 <= corner <= 1.0 for corner in corners):
                    raise UserFileError(
                        "a corner lies outside 0..1",
                        where=f"{path}:{line}",
                        remedy="divide pixels by width and height",
                    )
                boxes.append(Box(category, 1.0, *corners))
    return _some(by_image, path)


def read_pairs(path: Path, images: Sequence[str]) -> Pairs:
    """The pairs whose two images are there. Raises UserFileError for a bad line, an ambiguous name, or no pair."""
    first, second, same = [], [], []
    for line, fields in _rows(path, 3, "first,second,same"):
        ends = [matching(name, images) for name in fields[:2]]
        for name, indices in zip(fields[:2], ends, strict=True):
            if len(indices) > 1:
                raise UserFileError(
                    f"{name!r} stands for {len(indices)} images",
                    where=f"{path}:{line}",
                    remedy="write more of its path, e.g. folder/name",
                )
        if fields[2] not in ("0", "1"):
            raise UserFileError(f"{fields[2]!r} is neither 0 nor 1", where=f"{path}:{line}", remedy="1: one person")
        if ends[0] and ends[1]:
            first.append(ends[0][0])
            second.append(ends[1][0])
            same.append(fields[2] == "1")
    if not first:
        raise UserFileError("none of its pairs is among the images", where=str(path), remedy="compare the names")
    return Pairs(np.asarray(first, np.int64), np.asarray(second, np.int64), np.asarray(same, bool))


def _rows(path: Path, width: int | tuple[int, ...], form: str) -> list[tuple[int, list[str]]]:
    """The file's lines, numbered from 1, without comments (`#`), blank lines and a heading like `form`."""
    widths = (width,) if isinstance(width, int) else width
    rows = []
    for line, fields in read_csv(path, what="the file", remedy=f"a text file of lines {form}"):
        values = [field.strip() for field in fields]
        if not any(values) or values[0].startswith("#") or ",".join(values) == form:
            continue
        if len(values) not in widths:
            other = next((mark for mark in ";\t" if len(values[0].split(mark)) in widths), None)
            remedy = f"write {form}" if other is None else f"write commas between the values: {form}"
            number = "1 value" if len(values) == 1 else f"{len(values)} values"
            raise UserFileError(f"{number} in this line", where=f"{path}:{line}", remedy=remedy)
        rows.append((line, values))
    return rows


def _number(text: str, kind: Callable[[str], T], path: Path, line: int, remedy: str) -> T:
    try:
        value = kind(text)
    except ValueError as error:
        raise UserFileError(
            f"{text!r} is not a number of that kind", where=f"{path}:{line}", remedy=remedy
        ) from error
    if isinstance(value, int) and value < 0:
        raise UserFileError(f"{text} is negative", where=f"{path}:{line}", remedy=remedy)
    return value


def _classes(count: int) -> str:
    return "1 class, 0" if count == 1 else f"{count} classes, 0 to {count - 1}"


def _some(labels: dict[int, T], path: Path) -> dict[int, T]:
    if not labels:
        if not path.stat().st_size:
            raise UserFileError("the file is empty", where=str(path), remedy="write a line for each image")
        reason = "none of its images is among the verification images"
        raise UserFileError(reason, where=str(path), remedy="compare the names")
    return labels
