"""Calibration data for the mapper: a list for each input, of copied pictures, of the user's files, or of vectors."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nnkit.errors import RecipeError
from nnkit.preprocess import Preprocess
from nnkit.samples import Sample
from nnkit_nnie.mapper.caffe_pair import safe_name
from nnkit_nnie.mapper.cfg import CfgInput
from nnkit_nnie.mapper.input_settings import (
    CHANNEL_MEAN,
    CHANNEL_MEAN_SCALE,
    MEAN_FILE,
    MEAN_FILE_SCALE,
    InputSettings,
)

_FEW, _MANY = 20, 50


def pixels(settings: InputSettings, values: NDArray[np.float32]) -> NDArray[np.uint8]:
    """The 8-bit pixels [C, H, W] that the chip turns into these values [1, C, H, W]: x / scale + mean, rounded."""
    mean = np.asarray(settings.mean or (0.0,), np.float64).reshape(-1, 1, 1)
    raw = np.asarray(values[0], np.float64) / settings.data_scale + mean
    return np.clip(np.rint(raw), 0, 255).astype(np.uint8)


def image_file(settings: InputSettings, values: NDArray[np.float32]) -> bytes:
    """A PNG of one sample, whose colours a reader sees right whatever order the network has them in."""
    from PIL import Image

    planes = pixels(settings, values)
    if planes.shape[0] == 1:
        image = Image.fromarray(planes[0], "L")
    else:
        ordered = planes if settings.rgb_order == "RGB" else planes[::-1]
        image = Image.fromarray(np.ascontiguousarray(ordered.transpose(1, 2, 0)), "RGB")
    stream = io.BytesIO()
    image.save(stream, format="PNG", optimize=False)
    return stream.getvalue()


def mean_file(settings: InputSettings) -> tuple[str, bytes] | None:
    """(file name, content) of the mean; None where the cfg says `null`."""
    if settings.norm_type in (CHANNEL_MEAN, CHANNEL_MEAN_SCALE):
        return f"mean_{safe_name(settings.name)}.txt", "".join(f"{value:.9g}\n" for value in settings.mean).encode()
    if settings.norm_type in (MEAN_FILE, MEAN_FILE_SCALE):
        from nnkit.caffe.weights import write_mean_file

        values = np.asarray(settings.mean, np.float32).reshape(-1, 1, 1)
        mean = np.ascontiguousarray(np.broadcast_to(values, settings.shape[1:]))
        return f"mean_{safe_name(settings.name)}.binaryproto", write_mean_file(mean)
    return None


def write_inputs(
    settings: Sequence[InputSettings],
    samples: Sequence[Sample],
    referenced: Mapping[str, Sequence[Path]] | None,
    folder: Path,
) -> tuple[CfgInput, ...]:
    """Lists, pictures and means of all inputs, in the order of the cfg.

    referenced: files to name instead of copies, by input name.
    """
    groups = []
    for each in settings:
        mean = mean_file(each)
        if mean is not None:
            (folder / mean[0]).write_bytes(mean[1])
        plain = safe_name(each.name)
        list_name = f"images_{plain}.txt"
        if not each.is_image:
            text = "".join(
                " ".join(f"{v:.9g}" for v in sample.inputs[each.name].ravel()) + "\n" for sample in samples
            )
        elif referenced is not None:
            text = "".join(f"{path.resolve()}\n" for path in referenced[each.name])
        else:
            pictures = folder / "images" / plain
            pictures.mkdir(parents=True, exist_ok=True)
            text = ""
            for index, sample in enumerate(samples):
                name = f"{index:04d}.png"
                (pictures / name).write_bytes(image_file(each, sample.inputs[each.name]))
                text += f"./images/{plain}/{name}\n"
        (folder / list_name).write_text(text, encoding="utf-8")
        groups.append(CfgInput(each, f"./{list_name}", f"./{mean[0]}" if mean is not None else "null"))
    return tuple(groups)


def check_referenced(preprocess: Mapping[str, Preprocess]) -> None:
    """The mapper scales pictures to the input's size itself, and does nothing else. Raises RecipeError."""
    for name, given in preprocess.items():
        if given.crop is not None or given.flip or (given.resize is not None and given.resize.letterbox):
            raise RecipeError(
                f"input {name}: the recipe crops, flips or letterboxes its images, the mapper does not",
                remedy="use image_list: copy",
            )


def count_note(count: int) -> str | None:
    """What is to be said of the number of calibration images."""
    if count < _FEW:
        return f"{count} calibration images for the mapper; {_FEW} to {_MANY} typical ones are recommended"
    return None
