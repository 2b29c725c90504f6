"""The mapper's cfg file, from the template of its generation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nnkit.c.sources import c_environment
from nnkit.errors import RecipeError
from nnkit.visible import visible
from nnkit_nnie.chips import CHIPS
from nnkit_nnie.layer_kinds import ROI_KINDS
from nnkit_nnie.mapper.input_settings import InputSettings
from nnkit_nnie.network import Network
from nnkit_nnie.options import NnieOptions

if TYPE_CHECKING:
    from jinja2 import Environment

_RECURRENT = frozenset({"LSTM", "RNN"})


@dataclass(frozen=True)
class CfgInput:
    """One group of keys: the input and its files, relative to the cfg."""

    settings: InputSettings
    image_list: str
    mean_file: str


def net_type(network: Network) -> int:
    """0: convolutional; 1: with ROI layers; 2: recurrent."""
    kinds = {layer.kind for layer in network.layers if layer.placement == "npu"}
    if kinds & _RECURRENT:
        return 2
    return 1 if kinds & ROI_KINDS else 0


def render_cfg(
    network: Network, inputs: Sequence[CfgInput], options: NnieOptions, *, stem: str, roi_files: Sequence[str] = ()
) -> str:
    """The cfg's text. stem: of the prototxt and caffemodel. roi_files: relative to the cfg.

    Raises RecipeError where the mapper of this chip has no such key, or ROI files do not belong to ROI layers.
    """
    chip = CHIPS[options.chip]
    if options.gfpq_param_file is not None and chip.generation == "1.1":
        raise RecipeError(
            f"the mapper of {chip.title} reads no gfpq_param_file", remedy="remove it, or choose a chip with NNIE 1.2"
        )
    kind = net_type(network)
    if roi_files and kind != 1:
        raise RecipeError(
            "roi_coordinate_files are given, but the network has no ROI layer", remedy="remove roi_coordinate_files"
        )
    template = environment().get_template(chip.template)
    text = template.render(
        stem=stem,
        inputs=inputs,
        net_type=kind,
        options=options,
        compress_mode=1 if options.compress_mode == "bypass" else 0,
        is_simulation=int(options.is_simulation),
        rgb_order=_rgb_order(inputs),
        data_scale=_data_scale(inputs),
        roi_files=roi_files,
        recurrent=kind == 2,
        gfpq_param_file=None if options.gfpq_param_file is None else "gfpq_param.txt",
    )
    return text


def _rgb_order(inputs: Sequence[CfgInput]) -> str:
    """One key for the whole network: the inputs of three channels must agree."""
    orders = {each.settings.rgb_order for each in inputs if each.settings.is_image and each.settings.shape[1] == 3}
    if len(orders) > 1:
        raise RecipeError(
            "the cfg has one order of colours for all inputs, the recipe has rgb and bgr",
            remedy="swap the input channels of the first convolution behind one of them",
        )
    return orders.pop() if orders else "BGR"


def _data_scale(inputs: Sequence[CfgInput]) -> float | None:
    """One key for the whole network: the inputs that are scaled must agree."""
    scales = {each.settings.data_scale for each in inputs if each.settings.norm_type in (3, 4, 5)}
    if len(scales) > 1:
        raise RecipeError(
            f"the cfg has one scale for all inputs, the recipe has {sorted(scales)}",
            remedy="put the factors into the first layers, and scale: 1.0 into the recipe",
        )
    return scales.pop() if scales else None


def environment() -> Environment:
    """Jinja2 over the templates of the target's files: C, and a page for people with names of the network."""
    templates = c_environment("nnkit_cfg_templates", "nnie")
    templates.filters |= {"visible": visible, "code_span": _code_span}
    return templates


def _code_span(name: str) -> str:
    """A name as code in Markdown, which it cannot end."""
    plain = visible(name).replace("`", "'")
    return f"`{plain}`"
