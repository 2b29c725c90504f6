"""A first recipe for a model file: what `nnkit init` writes, and `nnkit run MODEL` goes by."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from nnkit.api.preparing import load
from nnkit.errors import UsageError
from nnkit.output_file import write_output
from nnkit.reading import read_text
from nnkit.recipe.draft import Draft, DraftInput, Pictures, pictures_in, recipe_name, recipe_text, with_shapes
from nnkit.recipe.model_formats import FORMAT_OF_SUFFIX, remedy_for

if TYPE_CHECKING:
    import onnx

_STAMP = "# written by nnkit, until somebody changes it: "
_NORMALISES = ("Sub", "Add", "Mul", "Div", "BatchNormalization")


def drafted(model: Path, out: Path, *, targets: Sequence[str], images: Path | None) -> Path:
    """The recipe that `nnkit run MODEL` goes by: `<out>/<name>.yaml`, written unless it is there.

    Its last line holds a digest of the others, by which one that nobody has changed is known: it is written anew
    where the options are others.

    Raises UsageError where there is one that somebody has changed since, so that the options do not contradict it,
    UserFileError where what lies there is no text.
    """
    if model.suffix.lower() not in FORMAT_OF_SUFFIX:
        raise _not_read(model)
    path = out / f"{recipe_name(model)}.yaml"
    text = _stamped(_draft(model, path, targets=targets, images=images, shapes=()))
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


def _draft(model: Path, recipe: Path, *, targets: Sequence[str], images: Path | None, shapes: Sequence[str]) -> str:
    from nnkit.target import load_target, plugin_name, working_targets

    inputs, weights = _inputs(model)
    inputs = with_shapes(inputs, dict(_shape(text) for text in shapes))
    working = working_targets()[0]
    about = {key: load_target(plugin_name(key)).summary for key in targets or list(working)[:1]}
    others = {name: target.summary for name, target in working.items() if name not in about}
    pictures = Pictures() if images is None else pictures_in(images)
    folder = recipe.parent

    def inside(path: str) -> str:
        return os.path.relpath(path, folder) if path else ""

    return recipe_text(
        Draft(
            recipe_name(model),
            inside(str(model)),
            inside(weights),
            inputs,
            tuple(about.items()),
            tuple(others.items()),
            replace(pictures, calibration=inside(pictures.calibration), held_out=inside(pictures.held_out)),
        )
    )


def _shape(text: str) -> tuple[str, tuple[int, ...]]:
    """`NAME=1x3x224x224`."""
    name, separator, sides = text.rpartition("=")
    numbers = sides.lower().split("x")
    if not separator or not all(side.isdecimal() and int(side) > 0 for side in numbers):
        raise UsageError(f"{text!r} is no shape", where="--shape", remedy="write NAME=1x3x224x224")
    return name, tuple(int(side) for side in numbers)


def _inputs(model: Path) -> tuple[tuple[DraftInput, ...], str]:
    """The model's inputs, and the path of its weights where they have a file of their own."""
    from nnkit.importers.model_file import read_model_file

    if model.suffix.lower() == ".onnx":
        return _inputs_of(read_model_file(model).graph), ""
    if model.suffix.lower() == ".prototxt":
        return _caffe_inputs(model)
    if model.suffix.lower() == ".tflite":
        from nnkit.importers.tflite_importer import import_tflite

        return _inputs_of(import_tflite(model).model.proto().graph), ""
    raise _not_read(model)


def _not_read(model: Path) -> UsageError:
    return UsageError("this is not a model that nnkit reads", where=str(model), remedy=remedy_for(model.name))


def _caffe_inputs(model: Path) -> tuple[tuple[DraftInput, ...], str]:
    from nnkit.importers import import_caffe

    beside = sorted(model.parent.glob("*.caffemodel"))
    own = [path for path in beside if path.stem == model.stem] or beside
    if len(own) != 1:
        raise UsageError(
            f"{'no' if not own else len(own)} .caffemodel files beside it may hold its weights",
            where=str(model),
            remedy=f"put the weights beside it, as {model.stem}.caffemodel",
        )
    imported = import_caffe(model, own[0]).model
    return _inputs_of(imported.proto().graph), str(own[0])


def _inputs_of(graph: onnx.GraphProto) -> tuple[DraftInput, ...]:
    weights = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    readers: dict[str, list[onnx.NodeProto]] = {}
    for node in graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    return tuple(
        DraftInput(
            value.name,
            tuple(
                side.dim_value if side.HasField("dim_value") and side.dim_value > 0 else None
                for side in value.type.tensor_type.shape.dim
            ),
            any(_normalises(node, weights) for node in readers.get(value.name, ())),
        )
        for value in graph.input
        if value.name not in weights
    )


def _normalises(node: onnx.NodeProto, weights: Mapping[str, tuple[int, ...]]) -> bool:
    """Whether a network's first layer only shifts and scales pixels, or mixes their channels into at most three."""
    if node.op_type in _NORMALISES:
        return True
    kernel = weights.get(node.input[1], ()) if node.op_type == "Conv" and len(node.input) > 1 else ()
    return len(kernel) == 4 and kernel[0] <= 3 and kernel[2:] == (1, 1)
