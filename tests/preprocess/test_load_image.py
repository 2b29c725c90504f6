"""Pictures to network inputs against OpenCV, numpy and hand-worked numbers."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image

from nnkit.errors import ExitCode, RecipeError, UserFileError
from nnkit.preprocess import CropBox, Preprocess, Resize, load_image, load_input

RNG = np.random.default_rng(6)


@pytest.fixture
def color_png(tmp_path: Path) -> Path:
    path = tmp_path / "color.png"
    cv2.imwrite(str(path), RNG.integers(0, 256, (6, 8, 3), dtype=np.uint8))
    return path


def _gray_png(path: Path, pixels: np.ndarray) -> Path:
    cv2.imwrite(str(path), pixels.astype(np.uint8))
    return path


def test_bgr_and_rgb_order_as_opencv_reads(color_png: Path) -> None:
    bgr = cv2.imread(str(color_png)).transpose(2, 0, 1)[np.newaxis]  # OpenCV's order is BGR
    loaded = load_image(color_png, Preprocess(color="bgr"), (1, 3, 6, 8))
    assert loaded.dtype == np.float32
    assert loaded.flags.c_contiguous
    assert np.array_equal(loaded, bgr)
    assert np.array_equal(load_image(color_png, Preprocess(color="rgb"), (1, 3, 6, 8)), bgr[:, ::-1])


def test_gray_is_itu_r_601(color_png: Path) -> None:
    blue, green, red = cv2.imread(str(color_png)).astype(np.float64).transpose(2, 0, 1)
    gray = load_image(color_png, Preprocess(color="gray"), (1, 1, 6, 8))
    assert np.abs(gray[0, 0] - (0.299 * red + 0.587 * green + 0.114 * blue)).max() <= 0.51
    assert np.abs(gray[0, 0] - cv2.imread(str(color_png), cv2.IMREAD_GRAYSCALE).astype(int)).max() <= 1


def test_gray_picture_for_a_colour_network(tmp_path: Path) -> None:
    path = _gray_png(tmp_path / "g.png", np.array([[1, 2], [3, 4]]))
    loaded = load_image(path, Preprocess(color="bgr", mean=(0.0, 1.0, 2.0)), (1, 3, 2, 2))
    assert loaded[0].tolist() == [[[1, 2], [3, 4]], [[0, 1], [2, 3]], [[-1, 0], [1, 2]]]


def test_mean_and_scale_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "c.png"
    cv2.imwrite(str(path), np.array([[[30, 20, 10]]], np.uint8))  # B, G, R
    settings = Preprocess(color="rgb", mean=(10.0, 0.0, 28.0), scale=(5.0, 0.25, 0.5))
    assert load_image(path, settings, (1, 3, 1, 1)).ravel().tolist() == [0.0, 5.0, 1.0]
    settings = Preprocess(color="bgr", mean=(127.0,), scale=(1 / 128,))
    expected = [np.float32((v - 127.0) / 128) for v in (30, 20, 10)]
    assert load_image(path, settings, (1, 3, 1, 1)).ravel().tolist() == expected


def test_flip_and_crop_box(tmp_path: Path) -> None:
    pixels = RNG.integers(0, 256, (5, 7))
    path = _gray_png(tmp_path / "g.png", pixels)
    crop = CropBox(left=1, top=2, width=4, height=3)
    loaded = load_image(path, Preprocess(crop=crop), (1, 1, 3, 4))
    assert np.array_equal(loaded[0, 0], pixels[2:5, 1:5])
    loaded = load_image(path, Preprocess(crop=crop, flip=True), (1, 1, 3, 4))
    assert np.array_equal(loaded[0, 0], pixels[2:5, 1:5][:, ::-1])


def test_center_crop_by_hand(tmp_path: Path) -> None:
    pixels = RNG.integers(0, 256, (4, 9))
    path = _gray_png(tmp_path / "g.png", pixels)
    # No resize: the network's own 2 x 5 window, in the middle.
    loaded = load_image(path, Preprocess(crop="center"), (1, 1, 2, 5))
    assert np.array_equal(loaded[0, 0], pixels[1:3, 2:7])
    # With a resize to 8 x 8: the largest square, 4 x 4 from column 2, then every pixel twice.
    settings = Preprocess(crop="center", resize=Resize(8, 8, "nearest"))
    loaded = load_image(path, settings, (1, 1, 8, 8))
    assert np.array_equal(loaded[0, 0], pixels[:, 2:6].repeat(2, 0).repeat(2, 1))
    # A tall aspect of 2 : 1 (height : width): 4 x 2 from column 3.
    settings = Preprocess(crop="center", resize=Resize(4, 2, "nearest"))
    assert np.array_equal(load_image(path, settings, (1, 1, 4, 2))[0, 0], pixels[:, 3:5])
    # A wide aspect of 1 : 9: 1 x 9 from row 1.
    settings = Preprocess(crop="center", resize=Resize(1, 9, "nearest"))
    assert np.array_equal(load_image(path, settings, (1, 1, 1, 9))[0, 0], pixels[1:2])


def test_resizers(tmp_path: Path) -> None:
    pixels = RNG.integers(0, 256, (12, 10))
    path = _gray_png(tmp_path / "g.png", pixels)
    box = load_image(path, Preprocess(resize=Resize(4, 5, "box")), (1, 1, 4, 5))[0, 0]
    assert np.abs(box - pixels.reshape(4, 3, 5, 2).mean((1, 3))).max() <= 1.0  # mean of 3 x 2 pixels, rounded twice
    bilinear = load_image(path, Preprocess(resize=Resize(36, 25, "bilinear")), (1, 1, 36, 25))[0, 0]
    opencv = cv2.resize(pixels.astype(np.uint8), (25, 36), interpolation=cv2.INTER_LINEAR)
    assert np.abs(bilinear - opencv).max() <= 1.0  # when enlarging, both are the textbook formula
    flat = _gray_png(tmp_path / "flat.png", np.full((9, 7), 77))
    for name in ("nearest", "bilinear", "bicubic", "lanczos", "box", "hamming"):
        settings = Preprocess(resize=Resize(5, 11, name))  # type: ignore[arg-type]
        assert np.unique(load_image(flat, settings, (1, 1, 5, 11))).tolist() == [77.0]
    results = {
        name: load_image(path, Preprocess(resize=Resize(7, 7, name)), (1, 1, 7, 7)).tobytes()  # type: ignore[arg-type]
        for name in ("nearest", "bilinear", "bicubic", "lanczos", "box", "hamming")
    }
    assert len(set(results.values())) == 6


def test_sixteen_bit_pictures_resize_like_eight_bit_ones(tmp_path: Path) -> None:
    pixels = RNG.integers(60, 190, (8, 8))
    eight = _gray_png(tmp_path / "8.png", pixels)
    cv2.imwrite(str(tmp_path / "16.png"), (pixels * 257).astype(np.uint16))
    settings = Preprocess(resize=Resize(13, 13, "bicubic"))
    of_eight = load_image(eight, settings, (1, 1, 13, 13))
    of_sixteen = load_image(tmp_path / "16.png", settings, (1, 1, 13, 13))
    assert np.abs(of_eight - of_sixteen).max() <= 1.5  # 8 bits are rounded after each direction
    edges = RNG.integers(0, 2, (8, 8)) * 65535  # where bicubic overshoots
    cv2.imwrite(str(tmp_path / "edges.png"), edges.astype(np.uint16))
    of_edges = load_image(tmp_path / "edges.png", settings, (1, 1, 13, 13))
    assert (of_edges.min(), of_edges.max()) == (0.0, 255.0)


def test_another_size_without_resize_names_the_remedy(tmp_path: Path) -> None:
    path = _gray_png(tmp_path / "g.png", np.zeros((5, 7)))
    with pytest.raises(UserFileError) as caught:
        load_image(path, Preprocess(), (1, 1, 6, 8))
    assert "5 x 7" in caught.value.reason
    assert "resize: {size: [6, 8]" in caught.value.remedy
    assert caught.value.where == str(path)


@pytest.mark.parametrize("crop", [CropBox(4, 0, 4, 2), CropBox(0, 4, 2, 2), CropBox(0, 0, 8, 1)])
def test_crop_outside_of_the_picture(tmp_path: Path, crop: CropBox) -> None:
    path = _gray_png(tmp_path / "g.png", np.zeros((5, 7)))
    with pytest.raises(UserFileError, match="does not lie in the picture of 5 x 7"):
        load_image(path, Preprocess(crop=crop), (1, 1, crop.height, crop.width))


def test_center_crop_larger_than_the_picture(tmp_path: Path) -> None:
    path = _gray_png(tmp_path / "g.png", np.zeros((5, 7)))
    with pytest.raises(UserFileError, match="does not lie in the picture"):
        load_image(path, Preprocess(crop="center"), (1, 1, 6, 6))


@pytest.mark.parametrize(
    ("settings", "shape", "remedy"),
    [
        (Preprocess(color="gray"), (1, 3, 4, 4), "rgb or bgr"),
        (Preprocess(color="rgb"), (1, 1, 4, 4), "color: gray"),
        (Preprocess(color="rgb"), (1, 4, 4, 4), ".npy"),
        (Preprocess(), (1, 10), ".npy"),
        (Preprocess(resize=Resize(8, 4, "bilinear")), (1, 1, 4, 8), "size: [4, 8]"),
    ],
)
def test_settings_that_cannot_give_the_input(
    tmp_path: Path, settings: Preprocess, shape: tuple[int, ...], remedy: str
) -> None:
    path = _gray_png(tmp_path / "g.png", np.zeros((4, 4)))
    with pytest.raises(RecipeError) as caught:
        load_image(path, settings, shape, where="recipe.yaml:7:3")
    assert caught.value.where == "recipe.yaml:7:3"
    assert remedy in caught.value.remedy
    assert caught.value.exit_code is ExitCode.USER


def test_load_input_tells_arrays_from_pictures(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.full((1, 1, 2, 2), 300.5))
    settings = Preprocess(mean=(9.0,), scale=(2.0,))  # not applied to arrays
    assert load_input(tmp_path / "a.npy", settings, (1, 1, 2, 2)).ravel().tolist() == [300.5] * 4
    path = _gray_png(tmp_path / "g.png", np.full((2, 2), 10))
    assert load_input(path, settings, (1, 1, 2, 2)).ravel().tolist() == [2.0] * 4


def test_real_photos_as_opencv_decodes_them(shared_dir: Path) -> None:
    photos = sorted((shared_dir / "images" / "photos").iterdir())[:4]
    assert photos
    for path in photos:
        expected = cv2.imread(str(path))
        height, width = expected.shape[:2]
        loaded = load_image(path, Preprocess(color="bgr"), (1, 3, height, width))[0].transpose(1, 2, 0)
        assert np.abs(loaded - expected).mean() < 0.5  # two JPEG decoders differ by rounding
        with Image.open(path) as image:
            assert np.array_equal(np.asarray(image.convert("RGB"))[..., ::-1], loaded)


@pytest.mark.parametrize(
    ("size", "to", "inner"),
    [
        ((40, 80), (32, 32), (8, 0, 16, 32)),
        ((80, 40), (32, 32), (0, 8, 32, 16)),
        ((30, 31), (20, 12), (4, 0, 12, 12)),
    ],
)
def test_a_letterbox_keeps_the_aspect_ratio(tmp_path, size, to, inner):
    """inner: top, left, height and width of the picture in the network's input, worked out by hand."""
    pixels = np.random.default_rng(0).integers(0, 200, (*size, 3)).astype(np.uint8)
    path = tmp_path / "a.png"
    Image.fromarray(pixels).save(path)
    settings = Preprocess(color="rgb", resize=Resize(*to, "bilinear", letterbox=True, fill=255))
    found = load_image(path, settings, (1, 3, *to))[0].transpose(1, 2, 0)
    top, left, height, width = inner
    expected = np.full((*to, 3), 255.0)
    expected[top : top + height, left : left + width] = Image.fromarray(pixels).resize((width, height), 2)
    assert np.array_equal(found, expected)
