"""Networks around attention as people write it: masks, rotary positions, gates of maps, convolution beside it."""

from __future__ import annotations

from benchmarks.zoo.with_torch import functional, nn, torch


class Masked(nn.Module):
    """A decoder's layer: attention that sees what came before, given as a mask of booleans."""

    def __init__(self, steps: int = 12, width: int = 32) -> None:
        super().__init__()
        self.enter, self.leave = nn.Linear(10, width), nn.Linear(width, 7)
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.wide = nn.Sequential(nn.Linear(width, 64), nn.GELU(), nn.Linear(64, width))
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.register_buffer("mask", torch.triu(torch.ones(steps, steps, dtype=torch.bool), 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[1, steps, 10] -> [1, steps, 7]."""
        x = self.enter(x)
        seen, _ = self.attention(x, x, x, attn_mask=self.mask, need_weights=False)
        x = self.first(x + seen)
        return self.leave(self.second(x + self.wide(x)))


class _RootMeanSquare(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.rand(width) + 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.scale


class Rotary(nn.Module):
    """A layer as language models have it: normalised by the root mean square, rotary positions, causal, gated."""

    def __init__(self, steps: int = 16, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.heads, size = heads, width // heads
        self.enter, self.leave = nn.Linear(20, width), nn.Linear(width, 6)
        self.first, self.second = _RootMeanSquare(width), _RootMeanSquare(width)
        self.query, self.key, self.value, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.gate, self.up = nn.Linear(width, 64, bias=False), nn.Linear(width, 64, bias=False)
        self.down = nn.Linear(64, width, bias=False)
        angles = torch.outer(torch.arange(steps), 10000 ** (-torch.arange(0, size, 2) / size))
        angles = torch.cat([angles, angles], -1)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def _turned(self, x: torch.Tensor) -> torch.Tensor:
        left, right = x.chunk(2, -1)
        return x * self.cos + torch.cat([-right, left], -1) * self.sin

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[1, steps, 20] -> [1, steps, 6]."""
        x = self.enter(x)
        images, steps, width = x.shape
        y = self.first(x)
        query, key, value = (
            layer(y).view(images, steps, self.heads, width // self.heads).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        y = functional.scaled_dot_product_attention(self._turned(query), self._turned(key), value, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(images, steps, width))
        y = self.second(x)
        return self.leave(x + self.down(functional.silu(self.gate(y)) * self.up(y)))


class Conformer(nn.Module):
    """A block of speech recognition: attention, then a gated depthwise convolution over time; log-probabilities."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.enter, self.leave = nn.Linear(40, width), nn.Linear(width, 10)
        self.before, self.behind = (
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 64), nn.SiLU(), nn.Linear(64, width))
            for _ in range(2)
        )
        self.first, self.second, self.last = (nn.LayerNorm(width) for _ in range(3))
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.gated, self.mixed = nn.Conv1d(width, 2 * width, 1), nn.Conv1d(width, width, 1)
        self.depthwise = nn.Conv1d(width, width, 7, padding=3, groups=width)
        self.norm = nn.BatchNorm1d(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[1, frames, 40] -> [1, frames, 10]."""
        x = self.enter(x)
        x = x + 0.5 * self.before(x)
        y = self.first(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        y = functional.glu(self.gated(self.second(x).transpose(1, 2)), 1)
        x = x + self.mixed(functional.silu(self.norm(self.depthwise(y)))).transpose(1, 2)
        x = x + 0.5 * self.behind(x)
        return functional.log_softmax(self.leave(self.last(x)), -1)


class Gates(nn.Module):
    """Attention of maps: gates of channels and of places (CBAM), of neighbouring channels (ECA), of rows and columns
    (coordinate attention)."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.enter, self.leave = nn.Conv2d(3, width, 3, 2, 1), nn.Linear(width, 5)
        self.squeezed = nn.Sequential(nn.Conv2d(width, 4, 1), nn.ReLU(), nn.Conv2d(4, width, 1))
        self.places = nn.Conv2d(2, 1, 7, padding=3)
        self.neighbours = nn.Conv1d(1, 1, 3, padding=1, bias=False)
        self.shared = nn.Sequential(nn.Conv2d(width, 8, 1), nn.BatchNorm2d(8), nn.Hardswish())
        self.rows, self.columns = nn.Conv2d(8, width, 1), nn.Conv2d(8, width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[1, 3, 32, 32] -> [1, 5]."""
        x = functional.relu(self.enter(x))
        mean, most = functional.adaptive_avg_pool2d(x, 1), functional.adaptive_max_pool2d(x, 1)
        x = x * torch.sigmoid(self.squeezed(mean) + self.squeezed(most))
        maps = torch.cat([x.mean(1, keepdim=True), x.amax(1, keepdim=True)], 1)
        x = x * torch.sigmoid(self.places(maps))
        gate = functional.adaptive_avg_pool2d(x, 1).squeeze(-1).transpose(-1, -2)
        x = x * self.neighbours(gate).transpose(-1, -2).unsqueeze(-1).sigmoid().expand_as(x)
        height, width = x.shape[2:]
        both = torch.cat([x.mean(3, keepdim=True), x.mean(2, keepdim=True).permute(0, 1, 3, 2)], 2)
        rows, columns = torch.split(self.shared(both), [height, width], 2)
        x = x * self.rows(rows).sigmoid() * self.columns(columns.permute(0, 1, 3, 2)).sigmoid()
        return self.leave(x.flatten(2).mean(-1))
