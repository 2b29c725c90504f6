"""The zoo's networks by name: what makes each, and the shapes of its inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

from benchmarks.zoo import attention, detectors, pictures, sequences, vision
from benchmarks.zoo.with_torch import nn


@dataclass(frozen=True)
class Entry:
    """A network. shapes: of its inputs, the batch first. tokens: how many ids there are, where inputs are ids."""

    make: Callable[[], nn.Module]
    shapes: tuple[tuple[int, ...], ...]
    tokens: int | None = None


def _picture(make: Callable[[], nn.Module], size: int = 64, channels: int = 3) -> Entry:
    return Entry(make, ((1, channels, size, size),))


def _families(*names: str) -> dict[str, Entry]:
    return {name: _picture(partial(vision.family, name)) for name in names}


_VISION = {
    **_families("squeezenet1_1", "mobilenet_v2", "mobilenet_v3_small", "mobilenet_v3_large", "mnasnet0_5"),
    **_families("shufflenet_v2_x0_5", "efficientnet_b0", "densenet121", "resnet18", "resnet50", "resnext50_32x4d"),
    **_families("regnet_x_400mf", "regnet_y_400mf"),
    "googlenet": _picture(vision.googlenet),
    "inception_v3": _picture(vision.inception_v3, 96),
    "vgg11_bn": _picture(vision.vgg11_bn),
    "alexnet": _picture(vision.alexnet),
    "convnext": _picture(vision.convnext),
    "swin": _picture(vision.swin, 32),
    "swin_v2": _picture(partial(vision.swin, 2), 32),
    "vit": _picture(vision.vit, 32),
    "deeplabv3": _picture(partial(vision.segmentation, "deeplabv3_mobilenet_v3_large")),
    "lraspp": _picture(partial(vision.segmentation, "lraspp_mobilenet_v3_large")),
    "ssdlite": _picture(vision.SsdLite),
}
_PICTURES = {
    "unet_deconvolution": _picture(partial(pictures.UNet, "deconvolution"), 32),
    "unet_nearest": _picture(partial(pictures.UNet, "nearest"), 32),
    "unet_bilinear": _picture(partial(pictures.UNet, "bilinear"), 32),
    "unet_corners": _picture(partial(pictures.UNet, "corners"), 32),
    "resnet8": _picture(pictures.resnet8, 32),
    "resnet8_group_norm": _picture(partial(pictures.resnet8, "group"), 32),
    "mobilenet_v1": _picture(pictures.mobilenet_v1),
    "ghost": _picture(pictures.Ghost, 32),
    "face_features": _picture(pictures.FaceFeatures),
    "style_transfer": _picture(pictures.style_transfer, 32),
    "super_resolution": _picture(pictures.super_resolution, 32, 1),
    "convolutional_autoencoder": _picture(pictures.convolutional_autoencoder, 32, 1),
    "mixer": _picture(pictures.Mixer, 32),
    "two_pictures": Entry(pictures.TwoPictures, ((1, 1, 32, 32),) * 2),
    "depth": _picture(pictures.Depth, 32),
    "gates": _picture(attention.Gates, 32),
    "restyled": Entry(pictures.Restyled, ((1, 3, 16, 16), (1, 16))),
    "super_resolution_on_bicubic": _picture(pictures.SuperResolutionOnBicubic, 16),
}
_DETECTORS = {
    "yolo_raw": _picture(partial(detectors.Yolo, "raw")),
    "yolo_anchors": _picture(partial(detectors.Yolo, "anchors")),
    "yolo_dfl": _picture(partial(detectors.Yolo, "dfl")),
    "ssd_small": _picture(detectors.SsdSmall),
    "key_points": _picture(detectors.KeyPoints),
    "pyramid": _picture(detectors.Pyramid),
}
_SEQUENCES = {
    "ds_cnn": Entry(sequences.ds_cnn, ((1, 1, 49, 10),)),
    "tc_resnet": Entry(sequences.tc_resnet, ((1, 40, 101),)),
    "dilated_convolutions": Entry(sequences.dilated_convolutions, ((1, 20, 32),)),
    "gru": Entry(partial(sequences.Recurrent, nn.GRU), ((1, 20, 20),)),
    "lstm": Entry(partial(sequences.Recurrent, nn.LSTM), ((1, 20, 20),)),
    "lstm_both_ways": Entry(partial(sequences.Recurrent, nn.LSTM, True, 2), ((1, 20, 20),)),
    "text_line": Entry(sequences.TextLine, ((1, 1, 32, 64),)),
    "dense_autoencoder": Entry(sequences.dense_autoencoder, ((1, 640),)),
    "multilayer_perceptron": Entry(sequences.multilayer_perceptron, ((1, 16),)),
    "transformer_features": Entry(partial(sequences.Attending, tokens=False), ((1, 16, 20),)),
    "transformer_tokens": Entry(partial(sequences.Attending, tokens=True), ((1, 16),), tokens=100),
    "transformer_masked": Entry(attention.Masked, ((1, 12, 10),)),
    "transformer_rotary": Entry(attention.Rotary, ((1, 16, 20),)),
    "conformer": Entry(attention.Conformer, ((1, 20, 40),)),
    "unet_one_dimension": Entry(sequences.UNetOneDimension, ((1, 2, 64),)),
}
NETWORKS: Mapping[str, Entry] = MappingProxyType({**_VISION, **_PICTURES, **_DETECTORS, **_SEQUENCES})
