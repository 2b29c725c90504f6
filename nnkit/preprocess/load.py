"""Loading: a picture or an .npy file to the array that the network is fed with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnkit.errors import UserFileError
from nnkit.preprocess.decode import check_regular_file, decode_image, picture_size
from nnkit.preprocess.settings import CropBox, Preprocess, Resize, check_shape
from nnkit.reading import read_array, read_array_header

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image


def load_input(path: Path, preprocess: Preprocess, shape: Sequence[int], *, where: str = "") -> NDArray[np.float32]:
    """The network's input from a file: `.npy` is taken as it is, anything else is a picture.

    Args:
        shape: of the network's input, batch 1.
        where: the place in the recipe, for messages about the settings.

    Raises:
        UserFileError: the file cannot be used. RecipeError: the settings do not give that input.
    """
    if path.suffix.lower() == ".npy":
        return load_array(path, shape)
    return load_image(path, preprocess, shape, where=where)


def load_image(path: Path, preprocess: Preprocess, shape: Sequence[int], *, where: str = "") -> NDArray[np.float32]:
    """Decode a picture and preprocess it.

    Returns:
        [1, C, H, W] float32, as `Preprocess` says.

    Raises:
        UserFileError: the picture cannot be decoded, is smaller than its crop, or has another size than the input
            and there is no resize. RecipeError: the settings do not give an input of that shape.
    """
    check_shape(preprocess, shape, where=where)
    return preprocess_image(decode_image(path), preprocess, shape, where=str(path))


def preprocess_image(
    image: Image, preprocess: Preprocess, shape: Sequence[int], *, where: str = "image"
) -> NDArray[np.float32]:
    """A decoded picture (`L`, `RGB` or `F`, values 0..255) to the network's input.

    Args:
        where: the picture's name, for messages.

    Returns:
        [1, C, H, W] float32; mean and scale are applied in float64 and rounded once.

    Raises:
        UserFileError, RecipeError: as `load_image`.
    """
    import numpy as np
    from PIL.Image import Transpose

    height, width = check_shape(preprocess, shape)
    check_picture_size(image.height, image.width, preprocess, shape, where=where)
    if preprocess.color == "gray" and image.mode == "RGB":
        image = image.convert("L")
    box = _crop_box(image.height, image.width, preprocess, height, width)
    if box is not None:
        image = image.crop((box.left, box.top, box.left + box.width, box.top + box.height))
    if preprocess.flip:
        image = image.transpose(Transpose.FLIP_LEFT_RIGHT)
    if preprocess.resize is not None:
        image = _resized(image, preprocess.resize)
    pixels = np.asarray(image)
    planes = np.moveaxis(pixels, 2, 0) if pixels.ndim == 3 else pixels[np.newaxis]  # [C, H, W]
    if preprocess.color == "bgr":
        planes = planes[::-1]
    mean, scale = (
        np.broadcast_to(np.asarray(each, np.float64), preprocess.channels)
        for each in (preprocess.mean, preprocess.scale)
    )
    planes = np.broadcast_to(planes, (preprocess.channels, height, width))  # a gray picture for a colour network
    result = np.empty((1, preprocess.channels, height, width), np.float32)
    for plane, channel_mean, channel_scale, values in zip(planes, mean, scale, result[0], strict=True):
        if plane.dtype == np.uint8:
            np.take(((np.arange(256.0) - channel_mean) * channel_scale).astype(np.float32), plane, out=values)
        else:  # gray with fractions; bicubic and lanczos overshoot
            values[...] = (np.clip(plane.astype(np.float64), 0.0, 255.0) - channel_mean) * channel_scale
    return result


def _resized(image: Image, resize: Resize) -> Image:
    from PIL import Image as PillowImage

    height, width = resize.fitted(image.height, image.width)
    image = image.resize((width, height), PillowImage.Resampling[resize.filter.upper()])
    if (height, width) == (resize.height, resize.width):
        return image
    level = (resize.fill,) * 3 if image.mode == "RGB" else resize.fill
    framed = PillowImage.new(image.mode, (resize.width, resize.height), level)
    framed.paste(image, ((resize.width - width) // 2, (resize.height - height) // 2))
    return framed


def check_picture_size(
    picture_height: int, picture_width: int, preprocess: Preprocess, shape: Sequence[int], *, where: str
) -> None:
    """Whether a picture of that size becomes the network's input, [1, C, H, W].

    Raises:
        UserFileError: it is smaller than its crop, or has another size than the input and there is no resize.
    """
    height, width = int(shape[2]), int(shape[3])
    box = _crop_box(picture_height, picture_width, preprocess, height, width)
    if box is not None and (
        min(box.left, box.top) < 0 or box.left + box.width > picture_width or box.top + box.height > picture_height
    ):
        raise UserFileError(
            f"the crop of {box.height} x {box.width} pixels (height x width) at left {box.left}, top {box.top} does "
            f"not lie in the picture of {picture_height} x {picture_width}",
            where=where,
            remedy="make the crop smaller, or use crop: center with a resize",
        )
    left = (picture_height, picture_width) if box is None else (box.height, box.width)
    if preprocess.resize is None and left != (height, width):
        raise UserFileError(
            f"the picture is {left[0]} x {left[1]} pixels (height x width), the network takes {height} x {width}",
            where=where,
            remedy=f"add resize: {{size: [{height}, {width}]}} to the input's preprocess",
        )


def check_header(path: Path, preprocess: Preprocess, shape: Sequence[int], *, where: str = "") -> None:
    """What `load_input` would refuse that can be told from the head of the file, without decoding it.

    Raises UserFileError, RecipeError.
    """
    if path.suffix.lower() == ".npy":
        check_regular_file(path)
        read_array_header(path, lambda stored, dtype: _check_array(str(path), stored, dtype, tuple(shape)))
        return
    check_shape(preprocess, shape, where=where)
    check_picture_size(*picture_size(path), preprocess, shape, where=str(path))


def _crop_box(
    picture_height: int, picture_width: int, preprocess: Preprocess, height: int, width: int
) -> CropBox | None:
    """The window that is cut out of a picture for an input of that size; None: all of it."""
    if preprocess.crop is None or isinstance(preprocess.crop, CropBox):
        return preprocess.crop
    return _center_box(picture_height, picture_width, height, width, keep_size=preprocess.resize is None)


def _center_box(image_height: int, image_width: int, height: int, width: int, *, keep_size: bool) -> CropBox:
    """The centred window: the network's own size, or the largest one of its aspect ratio, rounded down."""
    if keep_size:
        box_height, box_width = height, width
    elif image_width * height >= image_height * width:
        box_height, box_width = image_height, max(1, image_height * width // height)
    else:
        box_height, box_width = max(1, image_width * height // width), image_width
    return CropBox((image_width - box_width) // 2, (image_height - box_height) // 2, box_width, box_height)


def load_array(path: Path, shape: Sequence[int]) -> NDArray[np.float32]:
    """An `.npy` file that already is the network's input, in real units (nothing is applied to it).

    Args:
        shape: of the network's input; the file's may lack the leading batch axis of 1.

    Returns:
        float32 of `shape`, C order.

    Raises:
        UserFileError: missing, broken, an array of another shape, not of numbers, or with NaN or infinite values.
            The header is checked before any data is read, so that a false size takes no memory.
    """
    check_regular_file(path)
    stored = read_array(
        path,
        what="the array",
        remedy="save it with numpy.save",
        check=lambda stored_shape, dtype: _check_array(str(path), stored_shape, dtype, tuple(shape)),
    )
    return as_network_input(stored, shape, where=str(path))


def as_network_input(values: NDArray[Any], shape: Sequence[int], *, where: str) -> NDArray[np.float32]:
    """An array that already is the network's input, in real units, checked.

    Args:
        values: real numbers of any type; the leading batch axis of 1 may be missing.
        where: the array's name, for messages.

    Returns:
        float32 of `shape`, C order.

    Raises:
        UserFileError: another shape, not of numbers, or with NaN, infinite or too large values.
    """
    import numpy as np

    _check_array(where, values.shape, values.dtype, tuple(shape))
    with np.errstate(over="ignore"):
        converted = np.ascontiguousarray(values, dtype=np.float32).reshape(tuple(shape))
    if not np.isfinite(converted).all():
        reason = "the array holds NaN, infinity or numbers beyond float32"
        raise UserFileError(reason, where=where, remedy="inputs must be finite numbers")
    return converted


def _check_array(where: str, stored: tuple[int, ...], dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    if dtype.kind not in "fiub":
        reason = f"the array is of type {dtype}, not of real numbers"
        raise UserFileError(reason, where=where, remedy="save it as float32")
    if stored != shape and (shape[:1] != (1,) or stored != shape[1:]):
        whole = stored if len(stored) == len(shape) else (1, *stored)
        if len(shape) > 2 and whole == (shape[0], *shape[2:], shape[1]):
            reason = f"the array has shape {list(stored)}, its channels last; nnkit takes them first: {list(shape)}"
            axis = len(stored) - len(shape) + 1
            raise UserFileError(reason, where=where, remedy=f"save numpy.moveaxis(array, -1, {axis})")
        reason = f"the array has shape {list(stored)}, the network takes {list(shape)}"
        raise UserFileError(reason, where=where, remedy="an .npy file is the network's input after preprocessing")
