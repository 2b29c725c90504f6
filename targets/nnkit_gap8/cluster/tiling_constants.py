"""The tile plan as C constants: a `struct nnkit_tiling` for every way in which a step is cut."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nnkit.c.fixed.layer import Call, Constant, Line
from nnkit.c.text import unique_identifiers
from nnkit.program import Program
from nnkit_gap8.cluster.tile_plan import Rows, TileInput, TilePlan, Tiling

_FIELDS: Mapping[str, tuple[str, ...]] = {
    "packed_conv": ("in_h", "out_h", "pad_top", "out_channels", ""),
    "packed_transposed": ("conv.in_h", "conv.out_h", "conv.pad_top", "conv.out_channels", ""),
    "conv": ("in_h", "out_h", "window.pad_top", "groups", ""),
    "pool": ("in_h", "out_h", "window.pad_top", "channels", ""),
    "elementwise": ("", "", "", "channels", "plane"),
    "lookup": ("", "", "", "", "elements"),
}
"""The fields that a tile changes, of each of the layers' structures."""


@dataclass(frozen=True)
class TilingConstants:
    """constants: each once. of_step: the name of every step's."""

    constants: tuple[Constant, ...]
    of_step: Mapping[int, str]


def tiling_constants(
    program: Program, tiles: TilePlan | None, calls: Mapping[str, tuple[Call, ...]]
) -> TilingConstants:
    """The constants of a tile plan; none without one."""
    if tiles is None:
        return TilingConstants((), {})
    names = unique_identifiers((op.name for op in program.ops), frozenset())
    constants: dict[int, Constant] = {}
    of_step: dict[int, str] = {}
    count: dict[str, int] = {}
    for step, tiling in tiles.steps.items():
        key = id(tiling)
        if key not in constants:
            number = count[tiling.op.name] = count.get(tiling.op.name, 0) + 1
            name = f"tiling_{names[tiling.op.name]}" + (f"_{number}" if number > 1 else "")
            constants[key] = _constant(name, tiling, calls[tiling.op.name])
        of_step[step] = constants[key].name
    return TilingConstants(tuple(constants.values()), of_step)


def _constant(name: str, tiling: Tiling, calls: tuple[Call, ...]) -> Constant:
    op, layout = tiling.op, tiling.layout
    layers = [constant for call in calls for constant in call.constants]
    pool = None
    if op.pool is not None:
        pool = layers[-1]
    layer = next(c for c in layers if c.name == calls[0].layer)
    kind = layer.type.removeprefix("struct nnkit_")
    fields = ", ".join(f"(nnkit_i32)offsetof({layer.type}, {field})" if field else "-1" for field in _FIELDS[kind])
    inputs = [*op.inputs, *[TileInput(0, 0, Rows(0))] * (2 - len(op.inputs))]
    places = [*layout.inputs, *[(-1, -1)] * (2 - len(op.inputs))]
    lines: tuple[Line, ...] = (
        (f"&{layer.name}, (nnkit_i32)sizeof({layer.name})", "the layer"),
        (f"{{{fields}}}", "fields that a tile changes"),
        (f"&{pool.name}" if pool is not None else "0", "pool"),
        (_rows(op.pool or Rows(0)), "convolution rows of pooled rows"),
        (f"{tiling.channels}, {tiling.rows}", "output channels and rows of a tile"),
        (f"{int(tiling.by_rows)}", "channels run inside rows (1) or rows inside channels (0)"),
        (f"{op.channels}, {op.height}, {op.row_bytes}", "output channels, rows, bytes of a row"),
        (f"{op.width}", "elements of a row"),
        (f"{len(op.inputs)}", "inputs"),
        (
            "{" + ", ".join(_input(source) for source in inputs) + "}",
            "of each: all channels (0: the tile's), row, rows",
        ),
        (f"{op.block_bytes}", "bytes of a weight block"),
        ("{" + ", ".join(_pair(place) for place in places) + "}", f"in L1, {layout.peak_bytes} bytes: inputs"),
        (_pair(layout.weights), "weights"),
        (_pair(layout.outputs), "outputs"),
        (f"{layout.image}, {layout.band}", "image, rows in front of the pool"),
        (f"{layout.band_rows}, {op.band_row_bytes}", "most of these rows, bytes of one"),
        (f"{layout.scratch if layout.sums < 0 else layout.sums}", "scratch, or sums"),
        (_slices(tiling), "slices of input channels; groups of a slice, of all; channels, weight bytes of one"),
    )
    return Constant("struct nnkit_tiling", name, lines)


def _slices(tiling: Tiling) -> str:
    slices = tiling.op.slices
    if slices is None or not tiling.slice_groups:
        return "1, 0, 0, 0, 0"
    count = len(slices.sizes(tiling.slice_groups))
    weights = slices.weight_bytes(1, first=False)
    return f"{count}, {tiling.slice_groups}, {slices.groups}, {slices.lanes}, {weights}"


def _rows(rows: Rows) -> str:
    return f"{{{rows.height}, {rows.stride}, {rows.pad}, {rows.span}}}"


def _input(source: TileInput) -> str:
    return f"{{{source.channels or 0}, {source.row_bytes}, {_rows(source.rows)}}}"


def _pair(places: tuple[int, int]) -> str:
    return f"{{{places[0]}, {places[1]}}}"
