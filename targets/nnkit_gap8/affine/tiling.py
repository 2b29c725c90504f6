"""The tiles of affine calls as C constants: a `struct nnkit_affine_tiling` for every call that has tiles."""

from __future__ import annotations

from dataclasses import dataclass

from nnkit.c.affine.call import Call
from nnkit.c.affine.packed import image_kernel
from nnkit.c.affine.statements import Statements
from nnkit_gap8.affine.cluster import CHANGED, has_image, table_bytes, whole_inputs
from nnkit_gap8.affine.plan import AffinePlan
from nnkit_gap8.cluster.tile_plan import Rows, TiledOp, Tiling


@dataclass(frozen=True)
class TiledStep:
    """A call in tiles. tiling: the constant's name. image, kernel: functions. Offsets in L2; None: there is none."""

    tiling: str
    image: str | None
    kernel: str
    inputs: tuple[int | None, int | None]
    weights: int | None
    output: int


@dataclass(frozen=True)
class SharedStep:
    """A call on L2 whose work cores share: its numbers' constant, its function, and offsets in L2."""

    numbers: str
    kernel: str
    inputs: tuple[int | None, int | None]
    weights: int | None
    scratch: int | None
    output: int


def tiled_step(planned: AffinePlan, statements: Statements, step: int) -> TiledStep | SharedStep | None:
    """How a call runs on the cluster; None: on the first core alone."""
    call = planned.network.work.calls[step]
    if planned.tiles is None or call.kernel.template not in ("packed", "parts"):
        return None
    places = planned.network.layout.places
    reads = [places[name].offset_bytes for name in call.reads]
    inputs = reads[0], reads[1] if len(reads) > 1 else None
    kernel = f"{statements.prefix}_{call.kernel.name}"
    weights, output = planned.weights.get(step), statements.output_place(step).offset_bytes
    if step not in planned.tiles.steps:
        scratch = planned.network.layout.scratch.get(step)
        return SharedStep(statements.constant_name(step), kernel, inputs, weights, scratch, output)
    image = f"{statements.prefix}_{image_kernel(call.kernel).name}" if has_image(call) else None
    return TiledStep(f"tiling_{step}", image, kernel, inputs, weights, output)


def tiling_constant(planned: AffinePlan, statements: Statements, step: int, tiling: Tiling) -> str:
    """The definition of a call's `struct nnkit_affine_tiling`."""
    call, op, layout = planned.network.work.calls[step], tiling.op, tiling.layout
    program = planned.network.program
    numbers = statements.constant_name(step)
    names = list(call.numbers)
    at = ", ".join(str(names.index(name) if name else -1) for name in CHANGED[call.kernel.structure])
    output = program.tensors[call.write]
    place = statements.output_place(step)
    size = output.format.bytes
    lines = [
        (f"&{numbers}, (nnkit_i32)(sizeof {numbers} / sizeof(int))", "numbers of the call"),
        (f"{{{at}}}", "those that a tile changes"),
        (f"{1 if call.kernel.structure == 'copy' else op.channels}", "elements counted of a pixel"),
        (f"{tiling.channels}, {tiling.rows}", "output channels and rows of a tile"),
        (f"{int(tiling.by_rows)}", "channels run inside rows (1) or rows inside channels (0)"),
        (f"{op.channels}, {op.height}, {op.width}, {size}", "output channels, height, width, bytes of a value"),
        (f"{_pixel_bytes(call, place.stride, op.channels) * size}", "from pixel to pixel"),
        (f"{_row_bytes(call, place.stride, op) * size}", "from row to row"),
        (f"{len(op.inputs)}", "inputs"),
        ("{" + ", ".join(_input(planned, call, tiling, index) for index in range(2)) + "}", "inputs"),
        (f"{op.block_bytes}, {table_bytes(call)}", "bytes of a weight block, of a table"),
        (f"{_pair(layout.weights)}, {_pair(layout.outputs)}", f"in L1, {layout.peak_bytes} bytes: weights, outputs"),
        (f"{layout.image}, {layout.scratch}", "image, scratch"),
    ]
    body = "\n".join(
        f"    {(values + (',' if index + 1 < len(lines) else '')).ljust(40)} /* {comment} */"
        for index, (values, comment) in enumerate(lines)
    )
    return f"static const struct nnkit_affine_tiling tiling_{step} = {{\n{body}\n}};"


def _pixel_bytes(call: Call, stride: int, channels: int) -> int:
    if call.row_step:
        return call.numbers["y_stride"]  # some of its channels may be another call's
    return stride if call.strided else channels


def _row_bytes(call: Call, stride: int, op: TiledOp) -> int:
    return call.row_step or op.width * _pixel_bytes(call, stride, op.channels)


def _input(planned: AffinePlan, call: Call, tiling: Tiling, index: int) -> str:
    if index >= len(tiling.op.inputs):
        return "{0, 0, 0, 0, 0, 0, 0, 0, {-1, -1}}"
    source, program = tiling.op.inputs[index], planned.network.program
    tensor = program.tensors[call.reads[index]]
    size = tensor.format.bytes
    rows = source.rows
    channels = tiling.op.channels if source.channels is None else source.channels
    width = source.row_bytes // size
    return (
        f"{{{int(whole_inputs(call))}, {width}, {channels * size}, {size}, {_rows(rows)}, "
        f"{_pair(tiling.layout.inputs[index])}}}"
    )


def _rows(rows: Rows) -> str:
    return f"{rows.height}, {rows.stride}, {rows.pad}, {rows.span}"


def _pair(place: tuple[int, int]) -> str:
    return f"{{{place[0]}, {place[1]}}}"
