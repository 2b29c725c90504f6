"""Files that say what is true: classes, pairs and boxes as CSV."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TypeVar

import numpy as np

from nnkit.did_you_mean import suggestion
from nnkit.errors import UserFileError
from nnkit.reading import read_csv, read_text
from nnkit.verify.tasks.detection import Box
from nnkit.verify.tasks.score import matching
from nnkit.verify.tasks.verification import Pairs

T = TypeVar("T")
_FROM_0 = "a class is a whole number from 0"


@dataclass(frozen=True)
class ClassNames:
    """How class names become numbers. names: in the order of the network's outputs, None where no file lists them.

    count: how many classes the network has; None where that is not known.
    """

    count: int | None = None
    names: tuple[str, ...] | None = None

    def numbers(self, told: Mapping[str, str]) -> dict[str, int]:
        """The number of each class in `told`; its values say where it stands first, for messages.

        Numbers stand for themselves. Raises UserFileError for names that cannot be numbered.
        """
        named = [text for text in told if not _is_number(text)]
        if not named:
            return {text: int(text) for text in told}
        if self.names is not None:
            return {text: int(text) if text not in named else self._listed(text, told[text]) for text in told}
        first = named[0]
        if len(named) < len(told):
            odd = next(text for text in told if text not in named)
            raise UserFileError(
                f"class {first!r} is a name here, and class {odd} a number in {told[odd]}",
                where=told[first],
                remedy="write numbers from 0 or names alone, or list the names with verify.task.classes",
            )
        if self.count is not None and len(named) != self.count:
            raise UserFileError(
                f"{len(named)} class names ({_some_of(sorted(named))}), and the network has {_classes(self.count)}",
                where=told[first],
                remedy="list all names in the order of the outputs, one a line: task: {classes: classes.txt}",
            )
        return {text: number for number, text in enumerate(sorted(named))}

    def _listed(self, text: str, where: str) -> int:
        names = self.names or ()
        if text not in names:
            raise UserFileError(
                f"there is no class {text!r}", where=where, remedy=suggestion(text, names, "the file of classes has")
            )
        return names.index(text)


ANY_CLASSES = ClassNames()


def read_class_names(path: Path, count: int | None) -> ClassNames:
    """A file of names, one a line, in the order of the network's outputs.

    Raises UserFileError for names that are there twice, or another number of them than the network has classes.
    """
    lines = read_text(path, what="the file of classes", remedy="write a name on each line").splitlines()
    names = tuple(line.strip() for line in lines if line.strip())
    twice = next((name for index, name in enumerate(names) if name in names[:index]), None)
    if twice is not None:
        raise UserFileError(f"class {twice!r} is there twice", where=str(path), remedy="keep one of the lines")
    if count is not None and len(names) != count:
        raise UserFileError(
            f"{len(names)} names, and the network has {_classes(count)}",
            where=str(path),
            remedy="write a name for each output of the network, in their order",
        )
    return ClassNames(count, names)


def classes_by_folder(images: Sequence[str], names: ClassNames, where: str) -> dict[int, int]:
    """Class number by index of the image, by the folder that each image is in. where: for messages."""
    folders = [PurePath(image).parent.name for image in images]
    numbers = names.numbers(dict.fromkeys(folders, where))
    beyond = next(
        (text for text, number in numbers.items() if names.count is not None and number >= names.count), None
    )
    if beyond is not None:
        raise UserFileError(
            f"the folder {beyond!r} is no class: the network has {_classes(names.count or 0)}",
            where=where,
            remedy="name folders by class, or name the classes in a file: labels: labels.csv",
        )
    return {index: numbers[folder] for index, folder in enumerate(folders)}


def read_classes(path: Path, images: Sequence[str], names: ClassNames = ANY_CLASSES) -> dict[int, int]:
    """Class number by index of the image. Images that the file does not name have none.

    Raises UserFileError for a line that is no `image,class`, for a class that the network does not have, or where no
    image is named.
    """
    classes: dict[int, int] = {}
    told: dict[str, str] = {}
    rows = _rows(path, 2, "image,class")
    first: dict[str, str] = {}
    for line, fields in rows:
        first.setdefault(fields[1], f"{path}:{line}")
    numbers = names.numbers(first)
    for line, (image, text) in rows:
        if told.setdefault(image, text) != text:
            raise UserFileError(
                f"{image!r} has class {text} here, and class {told[image]} in a line before",
                where=f"{path}:{line}",
                remedy="keep the line that is true",
            )
        category = numbers[text]
        if category < 0:
            raise UserFileError(f"class {text} is negative", where=f"{path}:{line}", remedy=_FROM_0)
        labelled = matching(image, images)
        if labelled and names.count is not None and category >= names.count:
            raise UserFileError(
                f"{image!r} has class {category}, but the network has {_classes(names.count)}",
                where=f"{path}:{line}",
                remedy="classes count from 0: take 1 off every number, if yours count from 1"
                if category == names.count
                else "give the numbers that the network was trained with, which count from 0; or name another output "
                "in verify.task.output",
            )
        classes.update(dict.fromkeys(labelled, category))
    return _some(classes, path)


def _is_number(text: str) -> bool:
    return text.removeprefix("-").isdecimal()


def _some_of(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")


def read_boxes(path: Path, images: Sequence[str]) -> dict[int, list[Box]]:
    """True boxes by index of the image. A line with the image alone says that it has none.

    Raises UserFileError for a line of another form, or where no image is named.
    """
    by_image: dict[int, list[Box]] = {}
    for line, fields in _rows(path, (1, 6), "image,class,x_min,y_min,x_max,y_max"):
        for index in matching(fields[0], images):
            boxes = by_image.setdefault(index, [])
            if len(fields) == 6:
                category = _number(fields[1], int, path, line, _FROM_0)
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
        raise UserFileError(f"this must be a number, not {text!r}", where=f"{path}:{line}", remedy=remedy) from error
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
