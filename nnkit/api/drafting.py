"""A first recipe for a model file: what `nnkit init` writes, and `nnkit run MODEL` goes by."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnkit.api.preparing import load
from nnkit.errors import NnkitError, SeveralError, UsageError, name_builds
from nnkit.graph.first_layers import NORMALISES, first_layers, readers_by_value
from nnkit.output_file import write_output
from nnkit.reading import read_text
from nnkit.recipe.draft import Draft, DraftInput, Pictures, pictures_for, recipe_name, recipe_text, with_shapes
from nnkit.recipe.model_formats import FORMAT_OF_SUFFIX, is_network, remedy_for
from nnkit.visible import Visible, visible

if TYPE_CHECKING:
    import onnx

    from nnkit.target import NamedTarget

_STAMP = "# written by nnkit, until somebody changes it: "
_PIXELS = (1, 2, 10, 11, 16)
"""Element types of ONNX that hold pixels: float, uint8, float16, double, bfloat16."""
_BYTES = 2


@dataclass(frozen=True)
class OfModel:
    """What a command line says of a network that has no recipe: a folder of pictures, sizes (`NAME=1x3x224x224`)."""

    images: Path | None = None
    shapes: tuple[str, ...] = ()


def drafted(
    model: Path, out: Path, *, targets: Sequence[str], images: Path | None, shapes: Sequence[str] = ()
) -> Path:
    """The recipe that `nnkit run MODEL` goes by: `<out>/<name>.yaml`, written unless it is there.

    Its last line holds a digest of the others, by which one that nobody has changed is known: it is written anew
    where the options are others.

    Raises UsageError where there is one that somebody has changed since, so that the options do not contradict it,
    UserFileError where what lies there is no text.
    """
    if model.suffix.lower() not in FORMAT_OF_SUFFIX:
        raise _not_read(model)
    path = out / f"{recipe_name(model)}.yaml"
    text = _stamped(_draft(model, path, targets=targets, images=images, shapes=shapes))
    remedy = f"remove {path}, and the recipe of these options is written there"
    there = read_text(path, what="the recipe of this model", remedy=remedy) if path.exists() else text
    if there not in (text, _stamped(there[: there.rfind(_STAMP)])):
        raise UsageError(
            "there is a recipe for this model, which is not the one that these options give",
            where=str(path),
            remedy=f"nnkit run {path}, or remove it",
        )
    write_output(path, text, sent=[out])
    return path


def _stamped(text: str) -> str:
    return f"{text}{_STAMP}{hashlib.sha256(text.encode()).hexdigest()[:16]}\n"


def write_draft(
    model: Path, out: Path, *, targets: Sequence[str], images: Path | None, shapes: Sequence[str]
) -> None:
    """The recipe's file; it is loaded once, so that what is written is valid."""
    write_output(out, _draft(model, out, targets=targets, images=images, shapes=shapes))
    load(out)


@contextmanager
def drafted_aside(path: Path, targets: Sequence[str], given: OfModel) -> Iterator[tuple[Path, tuple[str, ...]]]:
    """A recipe, and which of its builds are wanted: a network's first one, for a moment, where it is a network.

    Errors name the network then. Raises UsageError for pictures or sizes beside a recipe.
    """
    if not is_network(path):
        if given.images is not None:
            raise UsageError(
                "a recipe names its pictures itself",
                where="--images",
                remedy="set them: --set model.inputs.NAME.calibration.images=GLOB",
            )
        if given.shapes:
            raise UsageError(
                "a recipe names the sizes of its inputs itself",
                where="--shape",
                remedy="set them: --set 'model.inputs.NAME.shape=[1, 3, 224, 224]'",
            )
        yield path, tuple(targets)
        return
    if path.suffix.lower() not in FORMAT_OF_SUFFIX:
        raise _not_read(path)
    with tempfile.TemporaryDirectory(prefix="nnkit-") as folder:
        recipe = Path(folder) / f"{recipe_name(path)}.yaml"
        try:
            text = _draft(
                path.absolute(), recipe, targets=targets, images=given.images, shapes=given.shapes, absolute=True
            )
            write_output(recipe, text)
            yield recipe, ()
        except NnkitError as error:
            _rename(error, str(recipe), f"{path} (its first recipe)")
            raise


def _rename(error: NnkitError, old: str, new: str) -> None:
    error.where = Visible(error.where.replace(old, visible(new)))
    error.reason = Visible(error.reason.replace(old, visible(new)))
    for each in error.errors if isinstance(error, SeveralError) else ():
        _rename(each, old, new)


def refused(recipe: Path, *, images: bool) -> list[NnkitError]:
    """What keeps a recipe that was just written from running, one error a target.

    images: whether the files that it calibrates on have to be there.
    """
    from nnkit.api.preparing import Switches, builds
    from nnkit.pipeline import accept
    from nnkit.report.progress import Progress

    errors: dict[str, NnkitError] = {}
    tried = builds(load(recipe), (), Progress(quiet=True), Switches(emulate=False))
    for build in tried:
        try:
            accept(build, images=images)
        except NnkitError as error:
            errors[build.key] = error
    name_builds(errors, len(tried))
    return list({str(error): error for error in errors.values()}.values())


def _draft(
    model: Path,
    recipe: Path,
    *,
    targets: Sequence[str],
    images: Path | None,
    shapes: Sequence[str],
    absolute: bool = False,
) -> str:
    """absolute: whether the recipe names files by their whole path, not from its folder."""
    read = _read(model)
    inputs = with_shapes(read.inputs, dict(_shape(text) for text in shapes))
    named = _named(targets)
    anew = tuple(each.key for each in named if read.quantised and not _keeps_integers(each))
    chosen, others = _targets(named, recipe_name(model), quantised=read.quantised and not anew)
    pictures: dict[str, Pictures] = (
        {} if images is None else pictures_for(inputs, images, FORMAT_OF_SUFFIX[model.suffix.lower()])
    )
    folder = recipe.parent

    def inside(path: str) -> str:
        return (os.path.abspath(path) if absolute else os.path.relpath(path, folder)) if path else ""

    return recipe_text(
        Draft(
            recipe_name(model),
            inside(str(model)),
            inside(read.weights),
            inputs,
            chosen,
            others,
            {
                name: replace(files, calibration=inside(files.calibration), held_out=inside(files.held_out))
                for name, files in pictures.items()
            },
            FORMAT_OF_SUFFIX[model.suffix.lower()],
            read.detections,
            any(each.target.has_one_input_scale() for each in named),
            anew,
        )
    )


_Written = tuple[tuple[str, str, str], ...]
"""Targets: the key of each, its options as a recipe writes them, and a line about it."""


def _named(names: Sequence[str]) -> list[NamedTarget]:
    """The targets that are named, or the first of all. Raises UsageError."""
    from nnkit.target import named_target, with_what_is_required, working_targets

    return [with_what_is_required(named_target(name)) for name in names or list(working_targets()[0])[:1]]


def _keeps_integers(named: NamedTarget) -> bool:
    return named.target.keeps_integers(named.target.options(**named.settings))


def _targets(named: Sequence[NamedTarget], recipe: str, *, quantised: bool) -> tuple[_Written, _Written]:
    """The named targets; the others, by default. quantised: whether they keep the integers that the network has."""
    from nnkit.target import example_options, working_targets

    working = working_targets()[0]
    keys = [each.key for each in named]
    kept = {name: target.options_for_quantised() if quantised else {} for name, target in working.items()}
    chosen: dict[str, tuple[str, str]] = {}
    for each in named:
        key = each.own_key if keys.count(each.key) > 1 and each.settings else each.key
        about = each.target.summary
        if each.chip and not each.settings:
            about = f"{about}; on a {each.chip}: nnkit bench out/{recipe}/{key} --on {each.chip}"
        chosen[key] = (_section({**kept[each.target.name], **each.settings}), about)
    required = {
        name: {key: getattr(example_options(target), key) for key, field in fields.items() if field.is_required()}
        for name, target in working.items()
        if (fields := target.options.model_fields) and name not in {each.target.name for each in named}
    }
    return (
        tuple((key, *written) for key, written in chosen.items()),
        tuple(
            (name, _section({**kept[name], **options}), working[name].summary) for name, options in required.items()
        ),
    )


def _section(options: Mapping[str, Any]) -> str:
    return f"{{{', '.join(f'{key}: {value}' for key, value in options.items())}}}"


def _shape(text: str) -> tuple[str, tuple[int, ...]]:
    """`NAME=1x3x224x224`."""
    name, separator, sides = text.rpartition("=")
    numbers = sides.lower().split("x")
    if not separator or not all(side.isdecimal() and int(side) > 0 for side in numbers):
        raise UsageError(f"{text!r} is no shape", where="--shape", remedy="write NAME=1x3x224x224")
    return name, tuple(int(side) for side in numbers)


@dataclass(frozen=True)
class _Read:
    """What a model says of itself. weights: the path of their file, where they have one of their own. quantised:
    whether values between its layers are."""

    inputs: tuple[DraftInput, ...]
    weights: str = ""
    detections: bool = False
    quantised: bool = False


def _read(model: Path) -> _Read:
    """Raises UsageError, UserFileError, ModelError."""
    from nnkit.importers.model_file import read_model_file

    if model.suffix.lower() == ".onnx":
        return _of_graph(read_model_file(model).graph)
    if model.suffix.lower() == ".prototxt":
        return _read_caffe(model)
    if model.suffix.lower() == ".tflite":
        from nnkit.importers.tflite_importer import import_tflite

        return _of_graph(import_tflite(model).model.proto().graph)
    raise _not_read(model)


def _not_read(model: Path) -> UsageError:
    return UsageError("this is not a model that nnkit reads", where=str(model), remedy=remedy_for(model.name))


def _read_caffe(model: Path) -> _Read:
    from nnkit.importers import import_caffe

    beside = sorted(model.parent.glob("*.caffemodel"))
    own = [path for path in beside if path.stem == model.stem] or beside
    if len(own) != 1:
        raise UsageError(
            f"{'no' if not own else len(own)} .caffemodel files beside it may hold its weights",
            where=str(model),
            remedy=f"put the weights beside it, as {model.stem}.caffemodel",
        )
    return _of_graph(import_caffe(model, own[0]).model.proto().graph, str(own[0]))


def _of_graph(graph: onnx.GraphProto, caffe_weights: str = "") -> _Read:
    from nnkit.stages.task import lists_of_detections

    weights = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    readers = readers_by_value(graph)
    given = [value for value in graph.input if value.name not in weights]
    again = {_sides(value) for value in graph.output} if len(given) > 1 else set()
    inputs = tuple(
        DraftInput(
            value.name,
            _sides(value),
            value.type.tensor_type.elem_type == _BYTES
            or any(_normalises(node, weights) for node in first_layers(readers, value.name)),
            value.type.tensor_type.elem_type in _PIXELS and _sides(value) not in again,
        )
        for value in given
    )
    quantised = any(node.op_type == "QuantizeLinear" for node in graph.node)
    return _Read(inputs, caffe_weights, len(lists_of_detections(graph)) == 1, quantised)


def _sides(value: onnx.ValueInfoProto) -> tuple[int | None, ...]:
    return tuple(
        side.dim_value if side.HasField("dim_value") and side.dim_value > 0 else None
        for side in value.type.tensor_type.shape.dim
    )


def _normalises(node: onnx.NodeProto, weights: Mapping[str, tuple[int, ...]]) -> bool:
    """Whether a network's first layer only shifts and scales pixels, or mixes their channels into at most three."""
    if node.op_type in NORMALISES:
        return True
    kernel = weights.get(node.input[1], ()) if node.op_type == "Conv" and len(node.input) > 1 else ()
    return len(kernel) == 4 and kernel[0] <= 3 and kernel[2:] == (1, 1)
