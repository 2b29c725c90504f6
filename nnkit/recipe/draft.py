"""A first recipe for a model: what its file says of itself, and proposals where it says nothing.

The text is for a person who goes on from there: each line that is a guess says so, and what it rests on.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nnkit.errors import UsageError
from nnkit.reading import matching
from nnkit.recipe.inputs import CHANNELS, looks_channels_last
from nnkit.recipe.model_formats import ModelFormat
from nnkit.recipe.variables import escape

Shape = tuple[int | None, ...]

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".pgm", ".ppm", ".bmp", ".webp", ".npy")
_CALIBRATION = ("calibration", "train", "training")
_HELD_OUT = ("held_out", "verification", "val", "validation", "test")
"""Names of subfolders whose pictures have a purpose already."""

_LEAST_SIDE = 8  # of a picture; below it is a vector, or a state
_LEAST_DIVIDED = 10  # pictures; of fewer all are needed to calibrate


@dataclass(frozen=True)
class DraftInput:
    """An input as the model declares it: shape batch first, None for what is open.

    normalised: whether the network's first layer shifts or scales it, so that it takes pixels as they are.
    numbers: whether it may hold pixels at all: no integers of 64 bits, no state that the network gives again.
    """

    name: str
    shape: Shape
    normalised: bool
    numbers: bool = True

    def is_picture(self, kind: ModelFormat) -> bool:
        """Whether it looks like a picture: of one or three channels, and larger than a vector is."""
        if not self.numbers or len(self.shape) != 4 or self.shape[0] not in (1, None):
            return False
        turned = kind == "onnx" and looks_channels_last(self.shape)
        sides = self.shape[1:3] if turned else self.shape[2:]
        channels = self.shape[3] if turned else self.shape[1]
        return channels in CHANNELS.values() and all(side is not None and side >= _LEAST_SIDE for side in sides)


@dataclass(frozen=True)
class Pictures:
    """Globs of the pictures to calibrate and to verify on; empty where there are none. aside: whether the second are
    taken from the first, and how, in words."""

    calibration: str = ""
    held_out: str = ""
    aside: str = ""


@dataclass(frozen=True)
class Draft:
    """What a recipe is written from.

    model, weights: as paths in the recipe.
    images: globs as in the recipe, by the input's name.
    targets: key of each build, its options and one line about its target; others: of the other installed targets, for
    comments. detections: whether the network gives a list of detections. one_scale: whether a target takes no others.
    anew: those of the targets that cannot keep the integers of the network, which is quantised already.
    """

    name: str
    model: str
    weights: str
    inputs: tuple[DraftInput, ...]
    targets: tuple[tuple[str, str, str], ...]
    others: tuple[tuple[str, str, str], ...]
    images: Mapping[str, Pictures]
    kind: ModelFormat = "onnx"
    detections: bool = False
    one_scale: bool = False
    anew: tuple[str, ...] = ()


def recipe_text(draft: Draft) -> str:
    """The recipe. Its first line tells editors that complete YAML where the schema is."""
    lines = [
        "# yaml-language-server: $schema=recipe.schema.json  (write it: nnkit schema > recipe.schema.json)",
        "nnkit: 1",
        f"name: {draft.name}",
        "model:",
        f"  path: {_path(draft.model)}",
        *([f"  weights: {_path(draft.weights)}"] if draft.weights else []),
        *([f"  dequantize: true  # {_no_integers(draft.anew)}"] if draft.anew else []),
        "  inputs:",
    ]
    for each in draft.inputs:
        lines += _input_lines(each, draft)
    lines += ["targets:", *(f"  {key}: {options}  # {about}" for key, options, about in draft.targets)]
    lines += [f"  # {key}: {options}  # {about}" for key, options, about in draft.others]
    lines += ["verify:"]
    fed = {each.name: draft.images[each.name] for each in draft.inputs if _glob(each, draft)}
    if fed and all(files.held_out for files in fed.values()):
        globs = {name: _path(files.held_out) for name, files in fed.items()}
        held_out = next(iter(globs.values()))
        if len(draft.inputs) > 1:
            held_out = f"{{{', '.join(f'{_quoted(name)}: {glob}' for name, glob in globs.items())}}}"
        words = next(iter(fed.values())).aside
        aside = f"  # held out: {words}" if words else ""
        lines += [f"  images: {held_out}{aside}", "  count: 100  # at most, evenly spread"]
    else:
        lines += [_held_out_comment(draft)]
    if draft.detections:
        lines += [
            "  task: {kind: detection}",
            "  gates: {detection_agreement: 0.95}  # share of detections that both networks have: docs/accuracy.md",
        ]
    else:
        lines += [
            "  gates: {cosine: 0.99}  # what the quantised network must keep; add the task's own: docs/accuracy.md"
        ]
    lines += ["release: {version: 0.1.0}"]
    return "\n".join(lines) + "\n"


def _held_out_comment(draft: Draft) -> str:
    """How inputs to verify on would be given: arrays for what is no picture, by name where there are several."""
    suffixes = {each.name: "png" if each.is_picture(draft.kind) else "npy" for each in draft.inputs}
    globs = [f"{_quoted(name)}: held_out/*.{suffix}" for name, suffix in suffixes.items()]
    given = f"{{{', '.join(globs)}}}" if len(globs) > 1 else f"held_out/*.{''.join(suffixes.values())}"
    what = "inputs" if "npy" in suffixes.values() else "pictures"
    return f"  # images: {given}  # {what} that calibration has not seen; else the figures flatter"


def _no_integers(targets: Sequence[str]) -> str:
    names = " and ".join(targets)
    return f"its integers cannot be kept by {names}: what they stand for is quantised anew"


def _glob(each: DraftInput, draft: Draft) -> str:
    """The files that an input is calibrated on."""
    files = draft.images.get(each.name, Pictures())
    return files.calibration if _takes(each, files, draft.kind) else ""


def _takes(each: DraftInput, files: Pictures, kind: ModelFormat) -> bool:
    """Pictures for what looks like one, arrays for all."""
    return each.is_picture(kind) or files.calibration.endswith(".npy")


def _input_lines(each: DraftInput, draft: Draft) -> list[str]:
    lines = [f"    {_quoted(each.name)}:"]
    image, files = each.is_picture(draft.kind), draft.images.get(each.name, Pictures())
    if each.shape and (len(each.shape) != 4 or each.shape[0] == 1):  # else it is for the import to refuse
        lines += [f"      shape: [{', '.join(str(side) for side in each.shape)}]"]
    if image and looks_channels_last(each.shape):
        lines += [
            "      layout: nhwc  # channels last: nnkit takes it, and .npy files, as [1, channels, height, width]"
        ]
    if image:
        lines += _preprocess_lines(each, draft.kind, one_scale=draft.one_scale)
    kind = "some dozens, like the real ones" if image else "arrays of this shape, as .npy files"
    glob = _glob(each, draft)
    if glob:
        kind = "the others: some are held out for verification" if files.aside else kind
        if sum(_glob(other, draft) == glob for other in draft.inputs) > 1:
            kind = f"the same files for several inputs: give each a folder of its own, named {_quoted(each.name)}"
        return [*lines, f"      calibration: {{images: {_path(glob)}, count: 100}}  # {kind}"]
    glob = "calibration/*.png" if image else "calibration/*.npy"
    comment = f"      # calibration: {{images: {glob}, count: 100}}  # {kind}"
    return [*lines, comment] if len(lines) > 1 else [f"{lines[0]} {{}}", comment]


def _preprocess_lines(each: DraftInput, kind: ModelFormat, *, one_scale: bool) -> list[str]:
    _, channels, height, width = each.shape
    if looks_channels_last(each.shape):
        _, height, width, channels = each.shape
    color = "gray" if channels == 1 else "bgr" if kind == "caffe" else "rgb"
    about = {"gray": "", "bgr": "  # as Caffe has it", "rgb": "  # bgr for networks from Caffe"}
    lines = [
        "      preprocess:",
        f"        color: {color}{about[color]}",
        f"        resize: {{size: [{height}, {width}]}}",
    ]
    if each.normalised:
        return [*lines, "        # pixels 0..255 as they are: the network's first layer normalises them"]
    if channels == 1:
        return [
            *lines,
            "        # A guess: pixels / 255. It must be as in training: x = (pixel - mean) * scale",
            "        scale: 1/255",
        ]
    if color == "bgr":
        return [
            *lines,
            "        # A guess: Caffe's usual mean, as in training it must be: x = pixel - mean",
            "        mean: [104, 117, 123]",
        ]
    return [
        *lines,
        "        # A guess: torchvision's normalisation, as in training it must be: x = (pixel / 255 - mean) / std",
        "        mean: [0.485, 0.456, 0.406]",
        "        std: 0.226  # the chip has one scale for all channels: the mean of torchvision's 0.229, 0.224, 0.225"
        if one_scale
        else "        std: [0.229, 0.224, 0.225]",
    ]


def _path(text: str) -> str:
    """A path or glob as a value of a recipe, in which no variable is expanded."""
    return _quoted(escape(text))


def _quoted(text: str) -> str:
    """The text as a YAML scalar; characters that nothing shows are escapes."""
    if not text.isprintable():
        return (
            '"' + "".join(_escape(each) if not each.isprintable() or each in '"\\' else each for each in text) + '"'
        )
    plain = re.fullmatch(r"[A-Za-z_./][\w./-]*", text) and text not in ("y", "n", "yes", "no", "on", "off", "null")
    return text if plain else "'" + text.replace("'", "''") + "'"


def _escape(character: str) -> str:
    return f"\\U{ord(character):08x}"


def recipe_name(model: Path) -> str:
    """A valid name of a recipe from the model's file name."""
    name = re.sub(r"[^a-z0-9_]+", "_", model.stem.lower()).strip("_")
    return name if name[:1].isalpha() else f"net_{name}".rstrip("_")


def with_shapes(inputs: Sequence[DraftInput], given: Mapping[str, Sequence[int]]) -> tuple[DraftInput, ...]:
    """The inputs with what the user says of them; an open batch becomes 1.

    Raises UsageError for an input that there is not, and for sizes that stay open.
    """
    names = [each.name for each in inputs]
    for name in given:
        if name not in names:
            raise UsageError(
                f"the network has no input {name!r}", where="--shape", remedy=f"its inputs: {', '.join(names)}"
            )
    result = []
    for each in inputs:
        shape = tuple(given.get(each.name, each.shape))
        shape = (1, *shape[1:]) if shape and shape[0] is None else shape
        if None in shape:
            text = "x".join("?" if side is None else str(side) for side in shape)
            filled = "x".join("224" if side is None else str(side) for side in shape)
            raise UsageError(
                f"the model leaves sizes of input {each.name!r} open: {text}",
                where="--shape",
                remedy=f"give them, for example --shape {each.name}={filled}",
            )
        result.append(replace(each, shape=shape))
    return tuple(result)


def pictures_in(folder: Path) -> Pictures:
    """The pictures to calibrate and to verify on.

    Subfolders named for it are taken as they are (`calibration`, `train`; `held_out`, `val`, `test`). Where there are
    none, about a fifth is held out for verification, by a character of the names, so that plain globs say which.
    Raises UsageError for a folder without pictures.
    """
    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder}", where="--images", remedy="name a folder with pictures")
    named = {sub.name.lower(): sub for sub in sorted(folder.iterdir()) if sub.is_dir()}
    first = next((kind for name in _CALIBRATION if name in named and (kind := _kind(named[name]))), None)
    second = next((kind for name in _HELD_OUT if name in named and (kind := _kind(named[name]))), None)
    held_out = second.glob() if second else ""
    if first:
        return Pictures(first.glob(), held_out)
    everything = _kind(folder)
    if not everything:
        raise UsageError(
            f"no pictures in {folder}",
            where="--images",
            remedy=f"put some dozens there ({', '.join(IMAGE_SUFFIXES)}), like those of the application",
        )
    return Pictures(everything.glob(), held_out) if held_out else _divided(everything)


def pictures_for(inputs: Sequence[DraftInput], folder: Path, kind: ModelFormat) -> dict[str, Pictures]:
    """The files of each input by its name: of several inputs those in its own subfolder, where one is named as it is.

    Raises UsageError as `pictures_in` does, and where no input takes what is there.
    """
    names = [each.name for each in inputs]
    subfolders = {sub.name for sub in folder.iterdir() if sub.is_dir()} if folder.is_dir() else set()
    own = subfolders.intersection(names) if len(names) > 1 else set()
    pictures = {name: pictures_in(folder / name) for name in own} or dict.fromkeys(names, pictures_in(folder))
    if not any(_takes(each, pictures[each.name], kind) for each in inputs if each.name in pictures):
        shapes = ", ".join(f"{each.name} {'x'.join(str(side) for side in each.shape)}" for each in inputs)
        raise UsageError(
            f"no input of the network looks like a picture: {shapes}",
            where="--images",
            remedy="give a folder with arrays of these shapes, as .npy files, or leave --images out",
        )
    return pictures


@dataclass(frozen=True)
class _Kind:
    """Files of one suffix (`.*`: of any) in a folder, or below it where `below` is `**/`. stems: names without it."""

    folder: str
    below: str
    suffix: str
    stems: tuple[str, ...]

    def glob(self, name: str = "*") -> str:
        """name: a pattern of the names without their suffix."""
        return f"{self.folder}/{self.below}{name}{self.suffix}"


def _kind(folder: Path) -> _Kind | None:
    """The pictures in the folder or below it: all where there is nothing else, or the commonest kind; None: none."""
    for below in ("", "**/"):
        names = matching(f"{below}*", folder, where="--images")
        every = [path for path in (folder / name for name in names) if path.is_file()]
        files = [path for path in every if path.suffix.lower() in IMAGE_SUFFIXES]
        kinds = Counter(path.suffix for path in files if not path.name.startswith("."))
        plain = all(path.name.count(".") == 1 and path.suffix.lower() != ".npy" for path in files)
        if len(kinds) > 1 and plain and len(files) == len(every):
            return _Kind(folder.as_posix(), below, ".*", tuple(sorted(path.stem for path in files)))
        if kinds:
            suffix = min(kinds, key=lambda kind: (-kinds[kind], kind))
            stems = sorted(path.stem for path in files if path.suffix == suffix)
            return _Kind(folder.as_posix(), below, suffix, tuple(stems))
    return None


def _divided(kind: _Kind) -> Pictures:
    """About a fifth of the pictures, held out: by the last character of their names, or the first.

    Where there are few pictures, or neither character divides them so, all are for calibration.
    """
    total = len(kind.stems)
    for place, form, words in ((-1, "*[{}]", "end in"), (0, "[{}]*", "begin with")):
        counts = Counter(stem[place] for stem in kind.stems if stem[place].isascii() and stem[place].isalnum())
        aside, taken = "", 0
        for character, count in sorted(counts.items()):
            if (taken + count) * 5 <= total or (not aside and count * 5 <= 2 * total):
                aside, taken = aside + character, taken + count
        if total >= _LEAST_DIVIDED and taken * 10 >= total:
            share = f"{taken} of {total}, those whose names {words} {' or '.join(aside)}"
            return Pictures(kind.glob(form.format("!" + aside)), kind.glob(form.format(aside)), share)
    return Pictures(kind.glob())
