"""Our own detectors and key point networks, in the shapes that are common: raw outputs, or decoded to boxes."""

from __future__ import annotations

from typing import Literal

from benchmarks.zoo.blocks import Residual, conv_unit
from benchmarks.zoo.with_torch import functional, nn, torch

_ANCHORS = ((10.0, 13.0), (16.0, 30.0), (33.0, 23.0))


class CrossStage(nn.Module):
    """The halves of a 1x1 convolution: one passes a residual unit, both are joined."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.enter = conv_unit(channels, channels, 1, act=nn.SiLU())
        half = channels // 2
        self.inner = nn.Sequential(conv_unit(half, half, act=nn.SiLU()), conv_unit(half, half, act=nn.SiLU()))
        self.leave = conv_unit(channels + half, channels, 1, act=nn.SiLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        left, right = self.enter(x).chunk(2, 1)
        return self.leave(torch.cat([left, right, right + self.inner(right)], 1))


class PooledPyramid(nn.Module):
    """Three max pools of 5x5, one after the other, joined."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.pool = nn.MaxPool2d(5, 1, 2)
        self.leave = conv_unit(4 * channels, channels, 1, act=nn.SiLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        one = self.pool(x)
        two = self.pool(one)
        return self.leave(torch.cat([x, one, two, self.pool(two)], 1))


class Yolo(nn.Module):
    """Two scales with a path upwards. head: `raw` maps; `anchors` decoded with anchors; `dfl` with distributions."""

    def __init__(self, head: Literal["raw", "anchors", "dfl"], classes: int = 3) -> None:
        super().__init__()
        self.kind, self.classes = head, classes
        self.stem = nn.Sequential(conv_unit(3, 8, 3, 2, nn.SiLU()), conv_unit(8, 16, 3, 2, nn.SiLU()), CrossStage(16))
        self.deep = nn.Sequential(conv_unit(16, 32, 3, 2, nn.SiLU()), CrossStage(32), PooledPyramid(32))
        self.narrow, self.up = conv_unit(32, 16, 1, act=nn.SiLU()), nn.Upsample(scale_factor=2)
        self.fused = conv_unit(32, 16, act=nn.SiLU())
        outputs = 4 * 8 + classes if head == "dfl" else 3 * (5 + classes)
        self.heads = nn.ModuleList([nn.Conv2d(16, outputs, 1), nn.Conv2d(32, outputs, 1)])

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...] | torch.Tensor:
        fine = self.stem(x)
        deep = self.deep(fine)
        fine = self.fused(torch.cat([self.up(self.narrow(deep)), fine], 1))
        maps = [self.heads[0](fine), self.heads[1](deep)]
        if self.kind == "raw":
            return tuple(maps)
        decode = self._anchors if self.kind == "anchors" else self._distributions
        return torch.cat([decode(found, stride) for found, stride in zip(maps, (4.0, 8.0), strict=True)], 1)

    def _grid(self, h: int, w: int) -> torch.Tensor:
        rows, columns = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
        return torch.stack((columns, rows), 2).float()

    def _anchors(self, found: torch.Tensor, stride: float) -> torch.Tensor:
        n, _, h, w = found.shape
        y = found.view(n, 3, 5 + self.classes, h, w).permute(0, 1, 3, 4, 2).sigmoid()
        xy = (y[..., 0:2] * 2 - 0.5 + self._grid(h, w)) * stride
        wh = (y[..., 2:4] * 2) ** 2 * torch.tensor(_ANCHORS).view(1, 3, 1, 1, 2)
        return torch.cat((xy, wh, y[..., 4:]), -1).view(n, -1, 5 + self.classes)

    def _distributions(self, found: torch.Tensor, stride: float) -> torch.Tensor:
        n, _, h, w = found.shape
        boxes, scores = found.flatten(2).split((32, self.classes), 1)
        weights = boxes.view(n, 4, 8, h * w).transpose(2, 1).softmax(1)
        sides = (weights * torch.arange(8.0).view(1, 8, 1, 1)).sum(1)
        centre = self._grid(h, w).view(-1, 2).transpose(0, 1).unsqueeze(0) + 0.5
        low, high = centre - sides[:, :2], centre + sides[:, 2:]
        box = torch.cat(((low + high) / 2, high - low), 1) * stride
        return torch.cat((box, scores.sigmoid()), 1).transpose(1, 2)


class SsdSmall(nn.Module):
    """Two scales, scores by Softmax, boxes decoded from priors: the shape of a light face detector."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Sequential(conv_unit(3, 8, 3, 2), conv_unit(8, 16, 3, 2)), conv_unit(16, 32, 3, 2)
        self.scores = nn.ModuleList([nn.Conv2d(16, 4, 3, padding=1), nn.Conv2d(32, 4, 3, padding=1)])
        self.boxes = nn.ModuleList([nn.Conv2d(16, 8, 3, padding=1), nn.Conv2d(32, 8, 3, padding=1)])
        count = 2 * (16 * 16 + 8 * 8)
        self.register_buffer("priors", torch.rand(1, count, 4) * 0.5 + 0.25)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        first = self.one(x)
        maps = (first, self.two(first))

        def joined(heads: nn.ModuleList, values: int) -> torch.Tensor:
            parts = [
                head(m).permute(0, 2, 3, 1).reshape(m.shape[0], -1, values)
                for head, m in zip(heads, maps, strict=True)
            ]
            return torch.cat(parts, 1)

        found, priors = joined(self.boxes, 4), self.priors
        centre = found[..., :2] * 0.1 * priors[..., 2:] + priors[..., :2]
        size = torch.exp(found[..., 2:] * 0.2) * priors[..., 2:]
        corners = torch.cat([centre - size / 2, centre + size / 2], -1)
        return functional.softmax(joined(self.scores, 2), -1), corners


class KeyPoints(nn.Module):
    """Objects as points: enlarged by transposed convolutions; a heat map, its peaks, and sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Sequential(conv_unit(3, 8, 3, 2), Residual(8, 16, 2), Residual(16, 32, 2))
        self.up = nn.Sequential(nn.ConvTranspose2d(32, 16, 4, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU())
        self.heat, self.size = nn.Conv2d(16, 3, 1), nn.Conv2d(16, 2, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        x = self.up(self.trunk(x))
        heat = self.heat(x).sigmoid()
        return heat, functional.max_pool2d(heat, 3, 1, 1), self.size(x)


class Pyramid(nn.Module):
    """Features of three scales, each added to the enlarged next; outputs of all."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList([conv_unit(3, 8, 3, 2), Residual(8, 16, 2), Residual(16, 32, 2)])
        self.side = nn.ModuleList([nn.Conv2d(c, 16, 1) for c in (8, 16, 32)])
        self.smooth = nn.ModuleList([nn.Conv2d(16, 8, 3, padding=1) for _ in range(3)])

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        levels = []
        for stage, side in zip(self.down, self.side, strict=True):
            x = stage(x)
            levels.append(side(x))
        for index in (1, 0):
            larger = functional.interpolate(levels[index + 1], size=levels[index].shape[-2:], mode="nearest")
            levels[index] = levels[index] + larger
        return tuple(smooth(level) for smooth, level in zip(self.smooth, levels, strict=True))
