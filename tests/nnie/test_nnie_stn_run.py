"""The split network run as on the device, and NET's calibration set: what the warp gives."""

from __future__ import annotations

import cv2
import numpy as np
from stn_network import StnNet, images

from nnkit.graph.onnx_runtime import FloatSession
from nnkit.rewrite.stn_split import split_stn
from nnkit_nnie.stn.run import net_calibration_inputs, run_split, write_net_calibration


def test_stn_warp_and_net_give_what_the_unsplit_network_gives():
    model = StnNet().model()
    whole, split = FloatSession(model), split_stn(model)
    for sample in images():
        wanted = whole.run(sample)["feature"]
        found = run_split(split, sample)["feature"]
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-6 * np.abs(wanted).max())


def test_calibration_images_are_what_opencv_warps():
    split = split_stn(StnNet().model())
    stn = FloatSession(split.stn)
    for sample, made in zip(images(), net_calibration_inputs(split, images()), strict=True):
        matrix = stn.run(sample)["matrix"].reshape(3, 3).astype(np.float64)
        picture = np.moveaxis(sample["image"][0], 0, -1)
        flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
        truth = cv2.warpPerspective(picture, matrix, (10, 12), flags=flags, borderMode=cv2.BORDER_CONSTANT)
        # OpenCV rounds coordinates to 1/32 of a pixel: neighbours differ by up to 255
        found = np.moveaxis(made["warped"][0], 0, -1)
        assert np.abs(found - truth).max() <= 255 * 2 / 32
        assert np.abs(found - truth).mean() < 255 / 64


def test_the_simulated_stn_can_be_used_instead():
    split = split_stn(StnNet().model())
    shift = np.array([[1, 0, 3, 0, 1, 2, 0, 0, 1]], np.float32)
    (made,) = net_calibration_inputs(split, images()[:1], lambda inputs: shift)
    np.testing.assert_array_equal(made["warped"], images()[0]["image"][:, :, 2:14, 3:13])
    found = run_split(split, images()[0], lambda inputs: shift)["feature"]
    wanted = FloatSession(split.net).run(made)["feature"]
    np.testing.assert_array_equal(found, wanted)


def test_calibration_files(tmp_path):
    split = split_stn(StnNet().model())
    files = write_net_calibration(split, images(), tmp_path / "set")
    assert [path.name for path in files["warped"]] == ["0000.npy", "0001.npy", "0002.npy", "0003.npy"]
    for path, made in zip(files["warped"], net_calibration_inputs(split, images()), strict=True):
        np.testing.assert_array_equal(np.load(path), made["warped"])
