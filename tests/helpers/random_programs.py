"""Hypothesis strategies: random small Programs of the shapes that networks have."""

from __future__ import annotations

from hypothesis import strategies as st
from program_builder import ProgramBuilder

from nnkit.program import Program

CHANNELS = st.integers(1, 9)


@st.composite
def random_programs(draw: st.DrawFn, chain_and_fire_only: bool = False) -> Program:
    """Chains and Fires; otherwise also residuals, gates, skip concatenations, several inputs and outputs."""
    net = ProgramBuilder(draw(st.sampled_from([8, 16])))
    x = net.input(draw(CHANNELS), 8, 8)
    values = [x]
    kinds = ["conv", "conv", "fire", "activation"] if chain_and_fire_only else [
        "conv", "depthwise", "fire", "residual", "skip", "gate", "activation", "upsample", "input", "output", "pool"
    ]  # fmt: skip
    outputs: list[str] = []
    for number in range(draw(st.integers(1, 7))):
        kind = draw(st.sampled_from(kinds))
        channels, height, width = net.shape(x)
        if kind == "conv":
            pool = (2, 2) if height >= 4 and draw(st.booleans()) else None
            x = net.conv(x, draw(CHANNELS), 3, pad=1, pool=pool)
        elif kind == "depthwise":
            x = net.conv(x, channels, 3, pad=1, groups=channels)
        elif kind == "fire":
            x = net.fire(x, draw(CHANNELS), draw(CHANNELS), f"fire{number}")
        elif kind == "residual":
            y = net.conv(net.conv(x, draw(CHANNELS)), channels)
            x = net.add(x, y) if draw(st.booleans()) else net.add(y, x)
        elif kind == "skip":
            same = [v for v in values if net.shape(v)[1:] == (height, width)]
            partners = draw(st.lists(st.sampled_from(same), min_size=1, max_size=2)) if same else [x]
            shifts = [draw(st.sampled_from([0, 0, 1])) for _ in range(len(partners) + 1)]
            x = net.concat(x, *partners, shifts=shifts)
        elif kind == "gate":
            x = net.mul(x, net.conv(net.pool(x, min(height, width), 1), channels))
        elif kind == "activation":
            x = net.activation(x)
        elif kind == "upsample" and height <= 8:
            x = net.upsample(x, 2)
        elif kind == "pool" and height >= 2:
            x = net.pool(x, 2, 2)
        elif kind == "input":
            x = net.add(x, net.input(channels, height, width))
        elif kind == "output":
            outputs.append(x)
        values.append(x)
    if draw(st.booleans()):
        channels, height, width = net.shape(x)
        x = net.reshape(x, channels * height * width)
    if not net.ops:
        x = net.activation(x)
    return net.build(*dict.fromkeys([*outputs, x]))
