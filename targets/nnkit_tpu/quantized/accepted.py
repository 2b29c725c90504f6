"""Which networks that are quantised already keep their integers, and with which options."""

from __future__ import annotations

from nnkit.errors import RecipeError
from nnkit.graph import Model
from nnkit.graph.quantised_already import refuse_quantised
from nnkit.graph.view import GraphView
from nnkit.target import Quantization
from nnkit_tpu.chips import CV_CHIPS
from nnkit_tpu.options import TpuOptions

_GIVE_FLOAT = "give the float network, or set `dequantize: true` below `model`, which has it quantised anew"


def check_accepted(model: Model, options: TpuOptions) -> None:
    """Raises ModelError for a chip or a precision without zero points, RecipeError for options that need none."""
    view, what = GraphView.of(model), "cannot run on the TPU"
    if options.chip in CV_CHIPS:
        refuse_quantised(view, what, f"the {options.chip} has no zero points", "choose a bm1684x or bm1688")
    if options.precision != "int8":
        refuse_quantised(view, what, f"{options.precision} has no steps", "set `precision: int8`")
    if options.fuse_preprocess:
        raise RecipeError(
            "the network is quantised already, and its own first rounding is not that of pixels",
            where="targets.tpu.fuse_preprocess",
            remedy=f"remove fuse_preprocess; or {_GIVE_FLOAT}",
        )


def check_corrections(quantization: Quantization) -> None:
    """Raises RecipeError for corrections that the recipe names."""
    if quantization.calibration.corrections:
        raise RecipeError(
            "the network is quantised already: `calibration.corrections` would change its integers",
            remedy="remove them, or give the float network",
        )


def refuse_search() -> None:
    """Raises RecipeError: there are no layers to choose."""
    raise RecipeError(
        "`hp: auto` chooses 16-bit layers, but the network is quantised already and keeps its formats",
        remedy="remove `hp: auto`, or give the float network",
    )
