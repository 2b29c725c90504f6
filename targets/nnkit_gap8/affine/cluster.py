"""Calls of affine kernels in tiles on the cluster: which have tiles, what these look like and cost.

A call runs in one of three ways: in tiles in L1, which all cores share; on L2, shared by all cores; or on L2 on the
first core alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from nnkit.c.affine.call import Call, Code, Join, View, pixels_and_channels
from nnkit.c.affine.conv import conv_call
from nnkit.c.affine.layout import Work
from nnkit.c.affine.packed import LANES, packed_call, stored_by_loops
from nnkit.c.affine.parts import on_parts
from nnkit.c.affine.phases import row_phases
from nnkit.c.affine.statements import stored
from nnkit.c.fixed.machine import CoreMachine
from nnkit.errors import InternalError
from nnkit.memory.packing import align_up
from nnkit.memory.plan import MemoryPlan
from nnkit.program import OpBase
from nnkit.program.affine import AffineConv, AffineProgram
from nnkit_gap8.affine import costs as affine_costs
from nnkit_gap8.cluster import costs as cluster_costs
from nnkit_gap8.cluster.tile_plan import Rows, TiledOp, TileInput, TilePlan, check_tile_plan, layout_of
from nnkit_gap8.cluster.tile_search import Part, best_tilings
from nnkit_gap8.cluster.tiled_ops import TileCosts, without_image

TILES_BYTES = 1024  # NNKIT_AFFINE_TILES_BYTES: the state of the running call, in front of its buffers

CHANGED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "packed": ("height", "out_height", "pad_top", "out_channels", "y_stride", ""),
        "packed_depthwise": ("height", "out_height", "pad_top", "channels", "y_stride", ""),
        "conv": ("height", "out_height", "pad_top", "", "y_stride", ""),
        "depthwise": ("height", "out_height", "pad_top", "", "y_stride", ""),
        "pool": ("height", "out_height", "pad_top", "", "y_stride", ""),
        "add": ("", "", "", "", "", "count"),
        "mul": ("", "", "", "", "", "count"),
        "lookup": ("", "", "", "", "", "count"),
        "rescale": ("", "", "", "", "y_stride", "count"),
        "copy": ("", "", "", "", "y_stride", "pixels"),
    }
)
"""By structure the numbers that a tile changes, as `struct nnkit_affine_tiling` has them in `at`."""


@dataclass(frozen=True)
class AffineCluster:
    """The calls of a program for the cluster's cores, whose scratch is the tiles' budget."""

    program: AffineProgram
    machine: CoreMachine

    @property
    def budget_bytes(self) -> int:
        """What is left of L1 for buffers."""
        return self.machine.scratch_bytes - TILES_BYTES

    def codes(self, codes: list[Code]) -> list[Code]:
        """The calls as the cluster has them: of kernels whose work cores share."""
        return [self._code(code, op) for op, code in zip(self.program.ops, codes, strict=True)]

    def _code(self, code: Code, op: OpBase) -> Code:
        if isinstance(op, AffineConv) and op.transposed and op.placement != "cpu":
            phases = self._in_phases(op)
            if phases is not None:
                return phases
        return [self._shared(each, op) for each in code]

    def _in_phases(self, op: AffineConv) -> list[Call] | None:
        """A transposed convolution as calls in tiles, see `row_phases`; None: it has none, or they do not fit L1."""
        source, output = self.program.tensors[op.inputs[0]], self.program.tensors[op.output]
        calls = []
        for phase in row_phases(op, source, output) or ():
            call = packed_call(phase.op, source, phase.output) or on_parts(conv_call(phase.op, source, phase.output))
            if call is None or isinstance(self.described(call, op), str):
                return None
            row = output.shape[0] * output.shape[2]
            first, step = phase.first_row * row, op.window.stride_h * row
            calls.append(replace(call, strided=False, first_channel=first, row_step=step, scratch_bytes=0))
        return calls or None

    def _shared(self, each: Call | View | Join, op: OpBase) -> Call | View | Join:
        if isinstance(each, View) or op.placement == "cpu":
            return each
        if isinstance(each, Join):
            shared = self._of_call(each.copies, op)
            return replace(each, copies=shared)
        return self._of_call(each, op)

    def _of_call(self, call: Call, op: OpBase) -> Call:
        if isinstance(op, AffineConv):
            packed = packed_call(op, self.program.tensors[op.inputs[0]], self.program.tensors[op.output])
            if packed is not None and not isinstance(self.described(packed, op), str):
                return packed
        parts = on_parts(call)
        if parts is None:
            return call
        if isinstance(self.described(parts, op), str):  # on L2, with scratch for each part
            scratch = align_up(parts.scratch_bytes, 4) * self.machine.cores
            return replace(parts, scratch_bytes=scratch, accesses=None)  # no order among parts
        accesses = parts.accesses if _reads_all(parts.numbers) else None
        return replace(parts, scratch_bytes=0, accesses=accesses)

    def described(self, call: Call, op: OpBase) -> tuple[TiledOp, TileCosts] | str:
        """The tiles of a call, or why it has none."""
        if op.placement == "cpu":
            return "kept off the cluster by the recipe"
        if call.kernel.template not in ("packed", "parts"):
            return f"no kernel for tiles of {op.kind}"
        answer = _describe(call, op.name, self.program, self.machine.cores)
        if not isinstance(answer, str):
            tiled = answer[0]
            fewest = min(LANES, tiled.channels) if tiled.cut_channels else tiled.channels
            least = layout_of(tiled, fewest, 1, tiled.channels, False).peak_bytes
            if least > self.budget_bytes:
                return f"its smallest tile takes {least:,} bytes of L1"
        return answer

    def tile_plan(self, work: Work, dropped: frozenset[int], plan: MemoryPlan) -> TilePlan:
        """The tiles of every call that has some."""
        steps, untiled = {}, {}
        alone = set[str]()
        for step, call in enumerate(work.calls):
            if step in dropped:
                continue
            op = self.program.ops[work.owners[step]]
            described = self.described(call, op)
            if isinstance(described, str):
                untiled[op.name] = described
                if call.kernel.template != "parts":
                    alone.add(op.name)
                continue
            tiled, costs = described
            tilings = best_tilings([Part(tiled, costs, tiled.channels)], self.budget_bytes)
            if tilings is None:
                raise InternalError("no cut fits L1", where=op.name)
            steps[step] = tilings[0]
        fetches = cluster_costs.fetch_cycles(plan)
        tiles = TilePlan(self.budget_bytes, self.machine.cores, steps, untiled, fetches, frozenset(alone))
        check_tile_plan(tiles)
        return tiles


def _reads_all(numbers: Mapping[str, int]) -> bool:
    """Whether a call's windows leave out no row and no column.

    Tiles load whole rows: in place, an output could else be written over a row that a tile loads and nobody reads.
    """

    def of(name: str) -> int:
        return numbers.get(name, 1)

    return all(of(f"dilation_{side}") == 1 and of(f"stride_{side}") <= of(f"kernel_{side}") for side in "hw")


def table_bytes(call: Call) -> int:
    """Bytes of a call's tables that every tile needs whole; those of packed weights come by channels."""
    if call.kernel.template == "packed":
        return 0
    return align_up(sum(stored(table).nbytes for table in call.tables.values()), 4)


def has_image(call: Call) -> bool:
    """Whether the rows of a tile become an image first."""
    return call.kernel.structure == "packed_depthwise" or bool(call.numbers.get("image"))


def whole_inputs(call: Call) -> bool:
    """Whether every tile reads all channels of its inputs."""
    return call.kernel.structure != "packed_depthwise"


def _describe(call: Call, name: str, program: AffineProgram, cores: int) -> tuple[TiledOp, TileCosts] | str:
    structure = call.kernel.structure
    if structure == "packed":
        return _packed(call, name, program, cores)
    if structure == "packed_depthwise":
        return _depthwise(call, name, program, cores)
    if structure in ("conv", "depthwise", "pool"):
        return _window(call, name, program, cores)
    return _elements(call, name, program, cores)


def _rows(numbers: Mapping[str, int]) -> Rows:
    span = (numbers["kernel_h"] - 1) * numbers["dilation_h"] + 1
    return Rows(numbers["height"], numbers["stride_h"], numbers["pad_top"], span)


def _packed(call: Call, name: str, program: AffineProgram, cores: int) -> tuple[TiledOp, TileCosts]:
    n, size = call.numbers, program.tensors[call.write].format.bytes
    rows = _rows(n)
    row_bytes = n["image_w"] * n["entry_bytes"]
    tiled = TiledOp(
        name=name,
        channels=n["out_channels"],
        height=n["out_height"],
        width=n["out_width"],
        row_bytes=n["out_width"] * size,
        inputs=(TileInput(n["channels"], n["width"], rows),),
        block_bytes=n["block_bytes"],
        image_row_bytes=row_bytes if n["image"] else 0,
        image_rows=rows if n["image"] else None,
    )
    wide = call.kernel.values["form"] == "wide"

    def compute(channels: int, kernel_rows: int, out_rows: int) -> float:
        return cluster_costs.FORK_CYCLES + affine_costs.packed_cycles(n, out_rows, channels, cores, wide=wide)

    def image(kernel_rows: int) -> float:
        if not n["image"]:
            return 0.0
        image_rows = (kernel_rows - 1) * rows.stride + rows.span
        return cluster_costs.FORK_CYCLES + affine_costs.image_cycles(n, image_rows, cores)

    def least(channels: int) -> float:
        return affine_costs.packed_cycles(n, n["out_height"], channels, 1, wide=wide) / cores

    return tiled, TileCosts(compute, image, least)


def _depthwise(call: Call, name: str, program: AffineProgram, cores: int) -> tuple[TiledOp, TileCosts]:
    n, size = call.numbers, program.tensors[call.write].format.bytes
    rows = _rows(n)
    tiled = TiledOp(
        name=name,
        channels=n["channels"],
        height=n["out_height"],
        width=n["out_width"],
        row_bytes=n["out_width"] * size,
        inputs=(TileInput(None, n["width"], rows),),
        block_bytes=n["block_bytes"],
        image_row_bytes=n["line_bytes"],
        image_rows=rows,
        image_by_channel=True,
    )
    wide, quick = call.kernel.values["form"] == "wide", stored_by_loops(call.kernel)

    def compute(channels: int, kernel_rows: int, out_rows: int) -> float:
        image_rows = (kernel_rows - 1) * rows.stride + rows.span
        return 2 * cluster_costs.FORK_CYCLES + affine_costs.depthwise_cycles(
            n, (channels, image_rows, out_rows), cores, wide=wide, quick=quick
        )

    return tiled, without_image(compute, n["out_height"])


def _window(call: Call, name: str, program: AffineProgram, cores: int) -> tuple[TiledOp, TileCosts] | str:
    n, x, y = call.numbers, program.tensors[call.reads[0]], program.tensors[call.write]
    channels = n["channels"]
    outputs = channels
    macs = n["kernel_h"] * n["kernel_w"]
    if call.kernel.structure == "conv":
        channels, outputs = n["x_stride"], n["out_channels"] * n["groups"]
        macs *= n["channels"]
    tiled = TiledOp(
        name=name,
        channels=outputs,
        height=n["out_height"],
        width=n["out_width"],
        row_bytes=n["out_width"] * y.format.bytes,
        inputs=(TileInput(channels, n["width"] * x.format.bytes, _rows(n)),),
        cut_channels=False,
        scratch_bytes=table_bytes(call) + _scratch(call, x.format.bytes, cores),
    )
    each = affine_costs.window_cycles(call.kernel, macs)
    if call.kernel.values.get("kind") == "max" and x.format.bytes == 1:
        each = affine_costs.maximum_of_bytes_cycles(macs, channels) / channels

    def compute(tile_channels: int, kernel_rows: int, out_rows: int) -> float:
        pixels = out_rows * n["out_width"]
        if call.kernel.structure != "pool":  # parts divide rows
            share = cluster_costs.ceil_div(out_rows, cores) * n["out_width"] * tile_channels
        elif out_rows == 1 and pixels < cores:  # channels, and else pixels
            share = cluster_costs.ceil_div(tile_channels, cores) * pixels
        else:
            share = cluster_costs.ceil_div(pixels, cores) * tile_channels
        return cluster_costs.FORK_CYCLES + share * each

    return tiled, without_image(compute, n["out_height"])


def _scratch(call: Call, value_bytes: int, cores: int) -> int:
    """Bytes of working memory of all parts: a pool's have the rows of an output row of fewer pixels than cores."""
    n = call.numbers
    if call.kernel.structure == "pool":
        if n["out_width"] >= cores:
            return 0
        return align_up(min(_rows(n).span, n["height"]) * n["width"] * n["channels"] * value_bytes, 4)
    own = n["depth"] * (4 * 2 + value_bytes) if call.kernel.structure == "conv" else n["channels"] * value_bytes
    return align_up(own, 4) * cores


def _elements(call: Call, name: str, program: AffineProgram, cores: int) -> tuple[TiledOp, TileCosts] | str:
    x, y = program.tensors[call.reads[0]], program.tensors[call.write]
    pixels, channels = pixels_and_channels(x.shape)
    if call.numbers.get("pixels", pixels) != pixels:
        return "a copy of other pixels"
    height, width = (x.shape[1], x.shape[2]) if len(x.shape) == 3 else (1, 1)
    inputs = [TileInput(channels, width * x.format.bytes, Rows(height))]
    for other in call.reads[1:]:
        tensor = program.tensors[other]
        if tensor.elements == x.elements:
            inputs.append(TileInput(channels, width * tensor.format.bytes, Rows(height)))
        else:
            inputs.append(TileInput(channels, tensor.format.bytes, Rows(1, stride=0)))
    tiled = TiledOp(
        name=name,
        channels=channels,
        height=height,
        width=width,
        row_bytes=width * y.format.bytes,
        inputs=tuple(inputs),
        cut_channels=False,
        scratch_bytes=table_bytes(call),
    )
    each = affine_costs.element_cycles(call.kernel)

    def compute(tile_channels: int, kernel_rows: int, out_rows: int) -> float:
        return cluster_costs.FORK_CYCLES + tile_channels * out_rows * width * each / cores

    return tiled, without_image(compute, height)
