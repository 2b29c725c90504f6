"""The small face networks of the NNIE recipes, in PyTorch. Pixels 0..255 come in; the networks normalise.

`StnDescriptor`: a spatial transformer, a perspective warp, and a descriptor of the warped face.
`HalfFaceDescriptor`: four crops of one half of a face, a small network for each, concatenated. The right half comes
in mirrored, so that one network serves both.
Both end in y = x / sqrt(sum(x^2) + 1). Convolutions are followed by batch normalisation, as trained.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional

FACE_SIZE = 112
WARPED_SIZE = 96
STN_FEATURE = 192
COMPONENT_FEATURE = 64
PIXEL_MEAN = 117.0
PIXEL_DEVIATION = 58.0


@dataclass(frozen=True)
class Component:
    """A crop of the left half of a [112, 112] face, and the size it is resized to."""

    name: str
    left: int
    top: int
    width: int
    height: int
    size: tuple[int, int]


COMPONENTS = (
    Component("half", 0, 0, 56, 112, (96, 48)),
    Component("eye", 4, 26, 50, 40, (48, 60)),
    Component("nose", 16, 44, 40, 40, (48, 48)),
    Component("mouth", 12, 66, 44, 38, (48, 56)),
)


class ConvNorm(nn.Sequential):
    """3x3 convolution with stride 2, batch normalisation, Relu."""

    def __init__(self, channels_in: int, channels_out: int, stride: int = 2) -> None:
        super().__init__()
        self.add_module("conv", nn.Conv2d(channels_in, channels_out, 3, stride, 1, bias=False))
        self.add_module("bn", nn.BatchNorm2d(channels_out))
        self.add_module("relu", nn.ReLU())


class Trunk(nn.Module):
    """[N, 1, H, W] pixels to [N, feature]: convolutions, then one fully connected layer."""

    def __init__(self, widths: tuple[int, ...], size: tuple[int, int], feature: int) -> None:
        super().__init__()
        channels = (1, *widths)
        self.layers = nn.ModuleList([ConvNorm(a, b) for a, b in pairwise(channels)])
        height, width = size
        for _ in widths:
            height, width = (height + 1) // 2, (width + 1) // 2
        self.fc = nn.Linear(widths[-1] * height * width, feature)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = (image - PIXEL_MEAN) / PIXEL_DEVIATION
        for layer in self.layers:
            x = layer(x)
        return self.fc(x.flatten(1))


def add_one_normalize(x: torch.Tensor) -> torch.Tensor:
    """x / sqrt(sum(x^2) + 1)."""
    return x / (x.square().sum(dim=1, keepdim=True) + 1.0).sqrt()


MATRIX_STEP = (0.1, 0.1, 8.0, 0.1, 0.1, 8.0, 0.0005, 0.0005)
"""What one unit of the last layer adds to each entry of the matrix: shifts are in pixels, the last row is tiny."""


class StnDescriptor(nn.Module):
    """[N, 1, 112, 112] pixels to [N, 192]. `matrix` maps output pixels to input pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.stn = Trunk((8, 12, 16, 24), (FACE_SIZE, FACE_SIZE), 32)
        self.relu = nn.ReLU()
        self.matrix = nn.Linear(32, 8)
        nn.init.zeros_(self.matrix.weight)
        nn.init.zeros_(self.matrix.bias)
        self.net = Trunk((16, 32, 48, 64), (WARPED_SIZE, WARPED_SIZE), STN_FEATURE)

    def perspective(self, image: torch.Tensor) -> torch.Tensor:
        """[N, 3, 3]."""
        step = torch.tensor(MATRIX_STEP)
        moved = self.matrix(self.relu(self.stn(image))) * step
        base = torch.tensor(base_matrix())
        flat = torch.cat([base[:8] + moved, torch.ones(len(moved), 1)], dim=1)
        return flat.view(-1, 3, 3)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return add_one_normalize(self.net(warp(image, self.perspective(image))))


def base_matrix() -> tuple[float, ...]:
    """The middle [96, 96] of the [112, 112] face, nine numbers by rows."""
    shift = (FACE_SIZE - WARPED_SIZE) / 2
    return (1.0, 0.0, shift, 0.0, 1.0, shift, 0.0, 0.0, 1.0)


def warp(image: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor:
    """[N, 1, 96, 96]: bilinear, outside the image 0, pixel centres at whole coordinates."""
    size = WARPED_SIZE
    y, x = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    points = torch.stack([x, y, torch.ones_like(x)]).reshape(3, -1).float()
    found = matrix @ points
    place = found[:, :2] / found[:, 2:]
    grid = 2.0 * place / (FACE_SIZE - 1) - 1.0
    grid = grid.transpose(1, 2).reshape(-1, size, size, 2)
    return functional.grid_sample(image, grid, mode="bilinear", padding_mode="zeros", align_corners=True)


class HalfFaceDescriptor(nn.Module):
    """Four crops of a half face [N, 1, h, w] to [N, 256]."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList([Trunk((12, 24, 32, 48), c.size, COMPONENT_FEATURE) for c in COMPONENTS])

    def forward(self, crops: list[torch.Tensor]) -> torch.Tensor:
        features = [part(crop) for part, crop in zip(self.parts, crops, strict=True)]
        return add_one_normalize(torch.cat(features, dim=1))


def half_crops(image: torch.Tensor) -> list[torch.Tensor]:
    """The four crops of the left half of [N, 1, 112, 112]; mirror the image for the right half."""
    found = []
    for c in COMPONENTS:
        crop = image[:, :, c.top : c.top + c.height, c.left : c.left + c.width]
        found.append(functional.interpolate(crop, size=c.size, mode="bilinear", align_corners=False))
    return found
