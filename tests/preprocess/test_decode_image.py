"""Decoding against hand-made files, OpenCV and the formulas of the formats."""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image

from nnkit.errors import ExitCode, UserFileError
from nnkit.preprocess import decode_image, first_frame_note

RNG = np.random.default_rng(5)


def _pgm(path: Path, samples: np.ndarray, maxval: int) -> Path:
    height, width = samples.shape
    stored = samples.astype(">u2" if maxval > 255 else "u1").tobytes()
    path.write_bytes(b"P5\n# a comment\n%d %d\n%d\n" % (width, height, maxval) + stored)
    return path


def _failure(path: Path) -> UserFileError:
    with pytest.raises(UserFileError) as caught:
        decode_image(path)
    assert caught.value.where == str(path)
    assert caught.value.reason
    assert caught.value.remedy
    assert caught.value.exit_code is ExitCode.USER
    return caught.value


def test_gray_pgm_binary_and_text(tmp_path: Path) -> None:
    pixels = np.array([[0, 1, 2], [100, 254, 255]])
    assert np.array_equal(np.asarray(decode_image(_pgm(tmp_path / "a.pgm", pixels, 255))), pixels)
    (tmp_path / "b.pgm").write_text("P2\n3 2\n255\n0 1 2\n100 254 255\n")
    assert np.array_equal(np.asarray(decode_image(tmp_path / "b.pgm")), pixels)


def test_pixels_lie_in_0_to_255_whatever_the_depth(tmp_path: Path) -> None:
    pixels = np.array([[0, 1, 77, 255]])
    sixteen = decode_image(_pgm(tmp_path / "a.pgm", pixels * 257, 65535))
    assert sixteen.mode == "F"
    assert np.array_equal(np.asarray(sixteen), pixels.astype(np.float32))
    cv2.imwrite(str(tmp_path / "a.png"), (pixels * 257).astype(np.uint16))
    assert np.array_equal(np.asarray(decode_image(tmp_path / "a.png")), pixels.astype(np.float32))
    cv2.imwrite(str(tmp_path / "a.tif"), (pixels * 257).astype(np.uint16))
    assert np.array_equal(np.asarray(decode_image(tmp_path / "a.tif")), pixels.astype(np.float32))
    four_bits = decode_image(_pgm(tmp_path / "b.pgm", np.array([[0, 1, 15]]), 15))
    assert np.asarray(four_bits).tolist() == [[0, 17, 255]]


def test_ten_bit_pgm_keeps_its_fractions(tmp_path: Path) -> None:
    samples = np.array([[0, 1, 512, 1022, 1023]])
    decoded = np.asarray(decode_image(_pgm(tmp_path / "a.pgm", samples, 1023)))
    assert np.allclose(decoded, samples / 1023 * 255, atol=0.5 / 257 + 1e-4)


def test_sixteen_bit_fraction(tmp_path: Path) -> None:
    decoded = np.asarray(decode_image(_pgm(tmp_path / "a.pgm", np.array([[1000]]), 65535)))
    assert decoded[0, 0] == np.float32(1000 / 257)


def test_palette_alpha_and_bilevel(tmp_path: Path) -> None:
    palette = Image.new("P", (2, 1))
    palette.putpalette([10, 20, 30, 200, 100, 50])
    palette.putdata([0, 1])
    for name, transparency in (("one", 1), ("table", bytes([255, 7]))):
        palette.save(tmp_path / f"{name}.png", transparency=transparency)
        assert np.asarray(decode_image(tmp_path / f"{name}.png")).tolist() == [[[10, 20, 30], [200, 100, 50]]]
    cv2.imwrite(str(tmp_path / "a.png"), np.array([[[30, 20, 10, 0], [50, 100, 200, 128]]], np.uint8))  # BGRA
    assert np.asarray(decode_image(tmp_path / "a.png")).tolist() == [[[10, 20, 30], [200, 100, 50]]]
    Image.fromarray(np.array([[[7, 0], [9, 255]]], np.uint8)).save(tmp_path / "la.png")
    assert np.asarray(decode_image(tmp_path / "la.png")).tolist() == [[7, 9]]
    (tmp_path / "b.pbm").write_text("P1\n2 1\n1 0\n")  # in PBM 1 is black
    assert np.asarray(decode_image(tmp_path / "b.pbm")).tolist() == [[0, 255]]


def test_cmyk(tmp_path: Path) -> None:
    inks = np.array([[[0, 0, 0, 0], [255, 0, 0, 0], [40, 80, 120, 60], [0, 0, 0, 255]]], np.uint8)
    expected = (255.0 - inks[..., :3]) * (255.0 - inks[..., 3:]) / 255.0
    Image.frombytes("CMYK", (4, 1), inks.tobytes()).save(tmp_path / "a.tif")
    assert np.allclose(np.asarray(decode_image(tmp_path / "a.tif")), expected, atol=1.01)
    Image.new("CMYK", (16, 16), (40, 80, 120, 60)).save(tmp_path / "a.jpg", quality=100)
    assert np.allclose(np.asarray(decode_image(tmp_path / "a.jpg"))[8, 8], expected[0, 2], atol=3)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_as_opencv_applies_it(tmp_path: Path, orientation: int) -> None:
    pixels = cv2.resize(RNG.integers(0, 256, (3, 4, 3), dtype=np.uint8), (64, 48), interpolation=cv2.INTER_CUBIC)
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(pixels).save(tmp_path / "a.jpg", exif=exif, quality=95)
    expected = cv2.imread(str(tmp_path / "a.jpg"), cv2.IMREAD_COLOR)[..., ::-1]
    decoded = np.asarray(decode_image(tmp_path / "a.jpg")).astype(int)
    assert decoded.shape == expected.shape
    assert np.abs(decoded - expected).max() <= 3


def test_first_frame_of_an_animation(tmp_path: Path) -> None:
    frames = [Image.new("L", (2, 2), value) for value in (10, 200)]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    assert np.unique(np.asarray(decode_image(tmp_path / "a.gif").convert("L"))).tolist() == [10]


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".tif", ".webp", ".gif", ".bmp", ".ppm"])
@pytest.mark.parametrize("share", [0.02, 0.3, 0.6])
@pytest.mark.filterwarnings("ignore:Truncated File Read")
def test_truncated_files_are_refused(tmp_path: Path, suffix: str, share: float) -> None:
    whole = tmp_path / f"whole{suffix}"
    Image.fromarray(RNG.integers(0, 256, (40, 50, 3), dtype=np.uint8)).save(whole)
    decode_image(whole)
    cut = tmp_path / f"cut{suffix}"
    cut.write_bytes(whole.read_bytes()[: int(whole.stat().st_size * share)])
    _failure(cut)


def test_damaged_bytes_never_escape_as_another_exception(tmp_path: Path) -> None:
    whole = tmp_path / "whole.png"
    Image.fromarray(RNG.integers(0, 256, (20, 20, 3), dtype=np.uint8)).save(whole)
    content = whole.read_bytes()
    refused = 0
    for position in range(8, 80):
        damaged = tmp_path / "damaged.png"
        damaged.write_bytes(content[:position] + bytes([content[position] ^ 0xFF]) + content[position + 1 :])
        try:
            decode_image(damaged)
        except UserFileError:
            refused += 1
    assert refused >= 40  # the header and the checksummed chunks


def test_files_that_are_no_pictures(tmp_path: Path) -> None:
    (tmp_path / "text.png").write_text("not a picture\n")
    assert "not a picture" in _failure(tmp_path / "text.png").reason
    (tmp_path / "empty.png").touch()
    assert "empty" in _failure(tmp_path / "empty.png").reason
    (tmp_path / "folder.png").mkdir()
    assert "folder" in _failure(tmp_path / "folder.png").reason
    assert "no such file" in _failure(tmp_path / "missing.png").reason
    os.mkfifo(tmp_path / "pipe.png")  # opening it would wait for ever
    assert "not a regular file" in _failure(tmp_path / "pipe.png").reason
    assert "NUL" not in _failure(tmp_path / ("x" * 300)).reason  # a name too long for the file system
    (tmp_path / "a.eps").write_text("%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 2 2\nshowpage\n")
    _failure(tmp_path / "a.eps")


def test_pixels_without_a_range_are_refused(tmp_path: Path) -> None:
    Image.fromarray(np.array([[0.5]], np.float32)).save(tmp_path / "f.tif")
    assert ".npy" in _failure(tmp_path / "f.tif").remedy
    Image.fromarray(np.array([[70000]], np.int32)).save(tmp_path / "i.tif")
    assert ".npy" in _failure(tmp_path / "i.tif").remedy


@pytest.mark.parametrize("side", [9_000, 60_000])
def test_decompression_bombs_are_refused_before_decoding(tmp_path: Path, side: int) -> None:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    path = tmp_path / "bomb.png"
    data = chunk(b"IDAT", zlib.compress(b"\0" * 1000))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + data + chunk(b"IEND", b""))
    assert "pixels" in _failure(path).reason


@pytest.mark.parametrize("suffix", ["gif", "png", "webp", "tiff"])
def test_of_several_frames_the_first_is_taken_and_said(tmp_path: Path, suffix: str) -> None:
    first, second = (Image.new("RGB", (8, 8), colour) for colour in ((200, 0, 0), (0, 0, 200)))
    first.save(tmp_path / f"one.{suffix}")
    more: dict[str, Any] = {"lossless": True} if suffix == "webp" else {}
    first.save(tmp_path / f"several.{suffix}", save_all=True, append_images=[second], **more)
    assert np.asarray(decode_image(tmp_path / f"several.{suffix}").convert("RGB"))[4, 4].tolist() == [200, 0, 0]
    assert first_frame_note([tmp_path / f"one.{suffix}", tmp_path / "none.png", tmp_path / "x.npy"]) is None
    note = first_frame_note(tmp_path / f"{name}.{suffix}" for name in ("one", "several", "several"))
    assert note is not None
    assert note.startswith(f"several.{suffix} has several frames or pages, of which the first is taken")


def test_many_pictures_of_several_frames_are_counted(tmp_path: Path) -> None:
    pages = [Image.new("L", (4, 4), shade) for shade in (0, 9)]
    for index in range(5):
        pages[0].save(tmp_path / f"{index}.tif", save_all=True, append_images=pages[1:])
    note = first_frame_note(sorted(tmp_path.iterdir()))
    assert str(note).startswith("0.tif, 1.tif, 2.tif and 2 more have several frames or pages")
