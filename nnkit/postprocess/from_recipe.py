"""The recipe's CPU stages with what only the Program knows: lengths and number formats of the tensors they touch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from nnkit.errors import RecipeError, UsageError
from nnkit.postprocess import DescriptorMatch, FaceCrop, PcaCombine, Stage
from nnkit.program import Fixed, Program, Tensor

if TYPE_CHECKING:
    from nnkit.recipe import Recipe


def stages_of(recipe: Recipe, program: Program) -> list[Stage]:
    """Parameters of every stage, in the recipe's order.

    The crop writes the network's input (one gray channel, square), the match reads the descriptor, both in that
    tensor's own format.
    Raises RecipeError where a stage names a tensor that is not there, or one of another shape or format, or where
    the crop's gray levels are not what the network takes.
    """
    stages: list[Stage] = []
    for index, written in enumerate(recipe.postprocess):
        place = recipe.where("postprocess", index)
        if written.kind == "face_crop":
            tensor = _tensor(program, program.inputs, written.input, place, "input")
            _check_crop(recipe, tensor, written.size, place)
            with _placed(place):
                crop = FaceCrop(written.size[0], written.border, written.fill, _format(tensor, place))
            stages.append(crop)
        elif written.kind == "pca_combine":
            stages.append(_combine(program, written.outputs or program.outputs, written.components, place))
        else:
            tensor = _tensor(program, program.outputs, written.output, place, "output")
            number = _format(tensor, place)
            with _placed(place):
                match = DescriptorMatch(
                    tensor.elements, number, written.capacity, written.threshold, written.normalize
                )
            stages.append(match)
    return stages


def _combine(program: Program, names: tuple[str, ...], components: int, place: str) -> PcaCombine:
    """The merge of two halves, each of which gives the named outputs, in order."""
    tensors = [_tensor(program, program.outputs, name, place, "output") for name in names]
    length = sum(tensor.elements for tensor in tensors)
    formats = {_format(tensor, place) for tensor in tensors}
    if len(formats) > 1:
        shown = ", ".join(f"'{tensor.name}' {tensor.format}" for tensor in tensors)
        reason = f"the outputs have different formats: {shown}"
        raise RecipeError(reason, where=place, remedy="give them one format")
    if length % 2 or length // 2 <= components:
        raise RecipeError(
            f"the outputs have {length} values, which are not 2 x {components} components and a feature twice",
            where=place,
            remedy="write the components of the PCA file that split_full_face_pca was given",
        )
    with _placed(place):
        return PcaCombine(length // 2 - components, components, formats.pop())


def _check_crop(recipe: Recipe, tensor: Tensor, size: tuple[int, int], place: str) -> None:
    height, width = size
    if height != width or tensor.shape != (1, height, width):
        shape = "x".join(str(side) for side in tensor.shape)
        raise RecipeError(
            f"face_crop makes 1x{height}x{width}, but input '{tensor.name}' is {shape}",
            where=place,
            remedy="the crop is square and has one gray channel: write the network's size",
        )
    spec = recipe.model.inputs.get(tensor.name)
    preprocess = spec.preprocess if spec is not None else None
    if preprocess is not None and (set(preprocess.mean) != {0.0} or set(preprocess.scale) != {1.0}):
        raise RecipeError(
            f"face_crop feeds pixels as they are, but the preprocessing of input '{tensor.name}' changes them",
            where=place,
            remedy="normalise in the network (it folds into the first layer) and write mean: 0, scale: 1",
        )


def _format(tensor: Tensor, place: str) -> Fixed:
    if not isinstance(tensor.format, Fixed):
        raise RecipeError(
            f"'{tensor.name}' holds {tensor.format} numbers; CPU stages work on fixed-point tensors",
            where=place,
            remedy="remove the stage, or the _cpu tag of the layer that touches the tensor",
        )
    return tensor.format


def _tensor(program: Program, names: tuple[str, ...], wanted: str | None, place: str, what: str) -> Tensor:
    if wanted is None and len(names) == 1:
        return program.tensors[names[0]]
    if wanted not in names:
        reason = f"the network has no {what} '{wanted}'" if wanted else f"the network has {len(names)} {what}s"
        raise RecipeError(reason, where=place, remedy=f"write {what}: one of {', '.join(names)}")
    return program.tensors[wanted]


@contextmanager
def _placed(place: str) -> Iterator[None]:
    """A value that a stage refuses is the recipe's: the error gets the recipe's line."""
    try:
        yield
    except UsageError as error:
        raise RecipeError(f"{error.where}: {error.reason}", where=place, remedy=error.remedy) from error
