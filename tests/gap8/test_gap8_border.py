"""The floating border: the published figures of the GAP8 application, worked by hand from its layer shapes."""

from __future__ import annotations

import pytest
from program_builder import ProgramBuilder, face_network, published_weight_bytes

from nnkit.memory.lifetimes import Storage, build_storages, possible_sharings
from nnkit.program import Program
from nnkit_gap8.border import BorderLayout, Declined, border_layout, top_bytes


def layout_of(program: Program) -> tuple[tuple[Storage, ...], BorderLayout]:
    storages = build_storages(program, possible_sharings(program))
    layout = border_layout(storages.buffers, 1)
    assert isinstance(layout, BorderLayout), layout
    return storages.buffers, layout


def published_bytes(program: Program, layer: str) -> int:
    """Pool bytes of one layer with its whole weights after the second buffer."""
    buffers, layout = layout_of(program)
    index = [op.name for op in program.ops].index(layer)
    return top_bytes(buffers, layout, index) + published_weight_bytes(program.ops[index])


# Each figure by hand, int16, from the formulas:
#   conv1: border max(64*31*31, 128*128)*2 = 123,008; output 3*128*128*2 = 98,304; weights (3 + 3)*2 = 12
#   conv2: the same buffers; weights (64*27 + 64)*2 = 3,584
#   fireN: border max(squeeze input, 2 * expand); squeeze output; weights (expand * squeeze * 9 + expand)*2
@pytest.mark.parametrize(
    ("layer", "by_hand"),
    [
        ("conv1", 123_008 + 98_304 + 12),
        ("conv2", 123_008 + 98_304 + 3_584),
        ("fire1.expand3x3", 246_016 + 30_752 + 18_560),
        ("fire2.squeeze", 246_016 + 30_752 + (16 * 128 + 16) * 2),
        ("fire3.expand3x3", 115_200 + 14_400 + 73_984),
        ("fire5.expand3x3", 37_632 + 4_704 + 166_272),
        ("fire6.expand3x3", 37_632 + 4_704 + 166_272),
        ("fire7.expand3x3", 50_176 + 6_272 + 295_424),
        ("fire8.expand3x3", 50_176 + 6_272 + 295_424),
    ],
)
def test_published_figures(layer: str, by_hand: int) -> None:
    assert published_bytes(face_network(), layer) == by_hand


def test_published_figures_as_printed() -> None:
    """The same as plain numbers: what the application's authors give."""
    face = face_network()
    figures = {"conv1": 221_324, "conv2": 224_896, "fire1": 295_328, "fire3": 203_584, "fire5": 208_608}
    figures |= {"fire6": 208_608, "fire7": 351_872, "fire8": 351_872}
    for layer, figure in figures.items():
        name = layer if layer.startswith("conv") else f"{layer}.expand3x3"
        assert published_bytes(face, name) == figure
    assert max(published_bytes(face, op.name) for op in face.ops) == 351_872


def test_a_chain_alternates_around_the_border() -> None:
    """border = max(output[i + 1], input[i]); by hand for sizes 100, 60, 80, 20, 10 (bytes)."""
    net = ProgramBuilder(bits=8)
    x = net.input(100, 1, 1)
    for channels in (60, 80, 20, 10):
        x = net.conv(x, channels)
    buffers, layout = layout_of(net.build())
    offsets = {buffer.name: offset for buffer, offset in zip(buffers, layout.offsets_bytes, strict=True)}
    # max(100, 80) = 100 while conv0's output lies right, then max(80, 10) = 80 while conv2's does.
    assert offsets == {"in0": 0, "conv0_v": 100, "conv1_v": 0, "conv2_v": 80, "conv3_v": 0}
    assert [top_bytes(buffers, layout, i) for i in range(4)] == [160, 160, 100, 100]


def test_consecutive_fires_start_from_the_base() -> None:
    _, layout = layout_of(face_network())
    program = face_network()
    storages = build_storages(program, possible_sharings(program))
    for number in range(1, 9):
        index, offset = storages.places[f"fire{number}_v"]
        assert (layout.offsets_bytes[index], offset) == (0, 0)


def test_a_residual_is_declined_with_a_reason() -> None:
    net = ProgramBuilder()
    x = net.conv(net.input(4, 8, 8), 4, name="stem")
    y = net.conv(net.conv(x, 4, name="a"), 4, name="b")
    program = net.build(net.conv(net.add(x, y), 2))
    layout = border_layout(build_storages(program, possible_sharings(program)).buffers)
    assert isinstance(layout, Declined)
    assert "three buffers live at once" in layout.reason
    assert "a_v" in layout.reason
