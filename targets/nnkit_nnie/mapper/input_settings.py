"""How the board delivers each input, and what the chip does to it: image_type, norm_type, mean and scale."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from nnkit.errors import RecipeError
from nnkit.graph import InputSpec
from nnkit.graph.view import GraphView
from nnkit.inputs import preprocess_by_input
from nnkit.preprocess import Preprocess
from nnkit.recipe import Recipe
from nnkit_nnie.chips import CHIPS, NnieLimits
from nnkit_nnie.network import Network
from nnkit_nnie.options import IMAGE_TYPE_NUMBERS, NnieInput, NnieOptions

NONE, MEAN_FILE, CHANNEL_MEAN, SCALE, MEAN_FILE_SCALE, CHANNEL_MEAN_SCALE = range(6)
"""The mapper's norm_type: (x - mean) * scale, with the mean per pixel (file) or per channel, or left out."""

_LEAST_SCALE = 1.0 / 4096.0
_SINGLE = 1
_CAMERA = ("yvu420sp", "yvu422sp")


@dataclass(frozen=True)
class InputSettings:
    """One input. mean: one value a channel; empty where the chip subtracts none.

    image_type: `vector`, `u8`, `yvu420sp` or `yvu422sp`. rgb_order: of the network's channels.
    """

    name: str
    shape: tuple[int, ...]
    image_type: Literal["vector", "u8", "yvu420sp", "yvu422sp"]
    norm_type: int
    mean: tuple[float, ...]
    data_scale: float
    rgb_order: Literal["RGB", "BGR"]

    @property
    def image_type_number(self) -> int:
        """The number that the cfg has for `image_type`."""
        return IMAGE_TYPE_NUMBERS[self.image_type]

    @property
    def is_image(self) -> bool:
        """Whether the board delivers pixels."""
        return self.image_type != "vector"


def settings_of(recipe: Recipe, network: Network, options: NnieOptions) -> tuple[InputSettings, ...]:
    """The inputs as recipe and options deliver them."""
    model = network.graph.model
    preprocess = preprocess_by_input(recipe, model)
    written = recipe.model.inputs
    from_images = {
        spec.name: spec.name in written and written[spec.name].preprocess is not None for spec in model.inputs
    }
    return input_settings(model.inputs, preprocess, from_images, options)


def input_settings(
    inputs: Sequence[InputSpec],
    preprocess: Mapping[str, Preprocess],
    from_images: Mapping[str, bool],
    options: NnieOptions,
) -> tuple[InputSettings, ...]:
    """The settings of every input, in the order of the prototxt.

    from_images: by input name, whether the recipe makes it from images.

    Raises RecipeError where the recipe asks for what the chip cannot do; one message for each input's first fault.
    """
    for name in options.inputs:
        if name not in {spec.name for spec in inputs}:
            known = ", ".join(spec.name for spec in inputs)
            raise RecipeError(
                f"the network has no input '{name}'", where="targets.nnie.inputs", remedy=f"its inputs are: {known}"
            )
    return tuple(
        _settings(spec, preprocess[spec.name], from_images[spec.name], options.inputs.get(spec.name), options)
        for spec in inputs
    )


def _settings(
    spec: InputSpec,
    given: Preprocess,
    image: bool,
    wanted: NnieInput | None,
    options: NnieOptions,
) -> InputSettings:
    asked = wanted if wanted is not None else NnieInput()
    image_type = asked.image_type
    if image_type == "auto":
        image_type = "u8" if image else "vector"
    rgb_order: Literal["RGB", "BGR"] = "RGB" if given.color == "rgb" else "BGR"
    if image_type == "vector":
        return InputSettings(spec.name, spec.shape, "vector", NONE, (), 1.0, rgb_order)
    _check_image(spec, image_type, CHIPS[options.chip].limits)
    scale = _one_scale(spec.name, given)
    has_mean, has_scale = any(given.mean), scale != 1.0
    text = options.mean_file == "text"
    if has_mean and has_scale:
        norm_type = CHANNEL_MEAN_SCALE if text else MEAN_FILE_SCALE
    elif has_mean:
        norm_type = CHANNEL_MEAN if text else MEAN_FILE
    else:
        norm_type = SCALE if has_scale else NONE
    mean = given.mean if len(given.mean) == given.channels else given.mean * given.channels
    return InputSettings(spec.name, spec.shape, image_type, norm_type, mean if has_mean else (), scale, rgb_order)


def _one_scale(name: str, given: Preprocess) -> float:
    values = set(given.scale)
    if len(values) > _SINGLE:
        raise RecipeError(
            f"input {name}: the chip has one scale for all channels, the recipe has {sorted(values)}",
            remedy="let the network do it: put the factors into its first layers, and scale: 1.0 into the recipe",
        )
    scale = values.pop()
    if not _LEAST_SCALE < scale < math.inf:
        raise RecipeError(
            f"input {name}: the chip's scale lies above 1/4096, the recipe has {scale:g}",
            remedy="put the factor into the network's first layer, and scale: 1.0 into the recipe",
        )
    return scale


def _check_image(spec: InputSpec, image_type: str, limits: NnieLimits) -> None:
    least, most = limits.min_image_side, limits.max_image_side
    if len(spec.shape) != 4 or spec.shape[1] not in (1, 3) or not all(least <= s <= most for s in spec.shape[2:]):
        raise RecipeError(
            f"input {spec.name}: an image has 1 or 3 channels and sides of {least} to {most} pixels, "
            f"this input is {list(spec.shape)}",
            remedy="use image_type: vector, or another size",
        )
    height, width = spec.shape[2:]
    if image_type in _CAMERA and (width % 2 or (image_type == "yvu420sp" and height % 2)):
        raise RecipeError(
            f"input {spec.name}: a {image_type} frame has even sides, this input is {height} x {width}",
            remedy="use an even size, or image_type: u8",
        )
    if image_type in _CAMERA and spec.shape[1] != 3:
        raise RecipeError(
            f"input {spec.name}: a {image_type} frame has 3 channels, this input has {spec.shape[1]}",
            remedy="use image_type: u8 for gray",
        )


_NORMALISING = frozenset({"Sub", "Mul", "Add", "Div", "BatchNormalization"})


def doubled_normalization(graph: GraphView, settings: Sequence[InputSettings]) -> tuple[str, ...]:
    """Notes on inputs that both the chip and the network's first layer normalise."""
    notes = []
    for each in settings:
        if each.norm_type == NONE:
            continue
        for node in graph.consumers.get(each.name, ()):
            constant = any(name in graph.constants for name in node.inputs)
            if node.op_type in _NORMALISING and not node.domain and constant:
                notes.append(
                    f"input {each.name} may be normalised twice: by the chip (norm_type {each.norm_type}) and by the "
                    f"network's layer {node.name}"
                )
    return tuple(notes)
