"""Networks of the benchmark, lowered by the vendor's compiler up to where it would form groups.

Thresholds of the calibration table are all alike: they decide the values, not the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
import onnx

from nnkit.importers.onnx_importer import import_onnx
from nnkit.program.ops import Window
from nnkit_tpu.layer_group.chips import Chip
from nnkit_tpu.layer_group.injection import LoweredProgram
from nnkit_tpu.program import (
    TpuActivation,
    TpuBinary,
    TpuConcat,
    TpuConv,
    TpuDeconv,
    TpuGraph,
    TpuMatMul,
    TpuOp,
    TpuPermute,
    TpuPool,
    TpuReshape,
    TpuScale,
    TpuSlice,
    TpuSoftmax,
    TpuTensor,
)
from nnkit_tpu.toolchain.find import Toolchain
from nnkit_tpu.toolchain.run import run_tpuc_opt

_THRESHOLD = 4.0


@dataclass(frozen=True)
class Lowering:
    """Options of the compiler. mode: INT8, F16, BF16. quant_input: the network takes INT8 values, ready quantised."""

    mode: str = "INT8"
    cores: int = 1
    quant_input: bool = False


def tpu_graph(proto: onnx.ModelProto, name: str, folder: Path) -> TpuGraph:
    """The network's ops after fusion."""
    from nnkit_tpu.lowering import lower

    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.onnx"
    onnx.save(proto, path)
    return lower(import_onnx(path).model, name)


def batched(graph: TpuGraph, images: int) -> TpuGraph:
    """The graph with `images` at once instead of one."""
    tensors = {
        name: TpuTensor(name, (tensor.shape[0] * images, *tensor.shape[1:]), tensor.format)
        for name, tensor in graph.tensors.items()
    }
    ops = tuple(
        replace(op, ends=(images, *op.ends[1:])) if isinstance(op, TpuSlice) and op.ends[0] == 1 else op
        for op in graph.ops
    )
    return TpuGraph(graph.name, tensors, ops, graph.inputs, graph.outputs)


def lowered_program(
    toolchain: Toolchain, graph: TpuGraph, chip: Chip, folder: Path, options: Lowering | None = None
) -> LoweredProgram:
    """Emit Top MLIR, weights and table into `folder` and run the compiler's passes before `--layer-group`."""
    how = options or Lowering()
    folder.mkdir(parents=True, exist_ok=True)
    writer = _TopWriter(graph)
    (folder / "top.mlir").write_text(writer.text(), encoding="utf-8")
    np.savez(folder / "top_weights.npz", **writer.weights)
    table = [f"{name} {_THRESHOLD:.7f} {-_THRESHOLD:.7f} {_THRESHOLD:.7f}" for name in graph.tensors]
    (folder / "table.txt").write_text("\n".join(table) + "\n", encoding="utf-8")
    run_tpuc_opt(
        toolchain,
        ["top.mlir", *_passes(chip, how), "-o", "lowered.mlir"],
        folder,
        log_name="lowering.log",
        what="lowering the network",
    )
    return LoweredProgram.read(folder, "lowered.mlir", graph.name, chip, how.mode)


def _passes(chip: Chip, how: Lowering) -> list[str]:
    calibration = ["--import-calibration-table=file=table.txt asymmetric=False"] if how.mode == "INT8" else []
    return [
        "--init",
        "--struct-optimize",
        "--shape-infer",
        "--canonicalize",
        "--extra-optimize",
        f"--processor-assign=chip={chip.name} mode={how.mode} num_device=1 num_core={how.cores} addr_mode=auto"
        " high_precision=False",
        *calibration,
        "--processor-top-optimize",
        "--convert-top-to-tpu=weightFileName=tpu_weights.npz asymmetric=False doWinograd=False q_group_size=0"
        " q_symmetric=False matmul_perchannel=False gelu_mode=normal",
        "--canonicalize",
        "--weight-fold",
        f"--strip-io-quant=quant_input={how.quant_input} quant_output=False",
        "--processor-tpu-optimize",
        "--dev-parallel",
        "--weight-reorder",
        "--subnet-divide=dynamic=False",
        "--op-reorder",
        "--topo-sort",
        "--deinit",
    ]


def _type(shape: tuple[int, ...]) -> str:
    return f"tensor<{'x'.join(map(str, shape))}xf32>"


def _window(window: Window) -> str:
    pads = f"{window.pad_top},{window.pad_left},{window.pad_bottom},{window.pad_right}"
    return (
        f"kernel_shape=[{window.kernel_h},{window.kernel_w}], strides=[{window.stride_h},{window.stride_w}],"
        f" pads=[{pads}], dilations=[{window.dilation_h},{window.dilation_w}]"
    )


@dataclass
class _TopWriter:
    """Top MLIR of the op kinds that the benchmark's networks have."""

    graph: TpuGraph
    weights: dict[str, np.ndarray] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    values: dict[str, str] = field(default_factory=dict)

    def text(self) -> str:
        """The module."""
        source = self.graph.inputs[0]
        shape = self.graph.tensors[source].shape
        self._line(
            source,
            f'"top.Input"(%arg0) {{channel_format="nchw", do_preprocess=true, keep_aspect_ratio=false,'
            f' keep_ratio_mode="letterbox", mean=[0.0,0.0,0.0], pad_type="center", pad_value=0:i64,'
            f' pixel_format="bgr", resize_dims=[{shape[2]},{shape[3]}], scale=[1.0,1.0,1.0], yuv_type=""}} :'
            f" ({_type(shape)}) -> {_type(shape)}",
        )
        for op in self.graph.ops:
            self._op(op)
        results = [_type(self.graph.tensors[name].shape) for name in self.graph.outputs]
        returned = ", ".join(self.values[name] for name in self.graph.outputs)
        types = ", ".join(results)
        signature = f"({types})" if len(results) > 1 else types
        body = "\n".join(f"    {line}" for line in self.lines)
        return (
            f'module @{self.graph.name} attributes {{module.chip="ALL", module.platform="ONNX",'
            f' module.state="TOP_F32", module.top_run_mode="STATIC", module.weight_file="top_weights.npz"}} {{\n'
            f"  func.func @main(%arg0: {_type(shape)}) -> {signature} {{\n{body}\n"
            f"    return {returned} : {types}\n  }}\n}}\n"
        )

    def _line(self, name: str, operation: str) -> str:
        value = f"%{len(self.lines)}"
        self.lines.append(f'{value} = {operation} loc("{name}")')
        self.values[name] = value
        return value

    def _weight(self, name: str, array: np.ndarray | None) -> tuple[str, str]:
        if array is None:
            return self._line(f"{name}_none", '"top.None"() : () -> none'), "none"
        self.weights[name] = np.asarray(array, np.float32)
        return self._line(name, f'"top.Weight"() : () -> {_type(array.shape)}'), _type(array.shape)

    def _op(self, op: TpuOp) -> None:
        kind, attributes, weights = _WRITERS[type(op)](op)
        operands = [(self.values[name], _type(self.graph.tensors[name].shape)) for name in op.inputs]
        operands += [self._weight(f"{op.output}_{suffix}", array) for suffix, array in weights]
        values, types = ", ".join(value for value, _ in operands), ", ".join(text for _, text in operands)
        result = _type(self.graph.tensors[op.output].shape)
        self._line(op.output, f'"top.{kind}"({values}) {{{attributes}}} : ({types}) -> {result}')


_Written = tuple[str, str, list[tuple[str, np.ndarray | None]]]


def _relu(op: TpuOp) -> str:
    fused, limit = getattr(op, "relu", False), getattr(op, "relu_limit", -1.0)
    return f"do_relu={str(fused).lower()}, relu_limit={limit}:f64"


def _convolution(op: TpuConv | TpuDeconv) -> _Written:
    padding = "" if isinstance(op, TpuConv) else f", output_padding={list(op.output_padding)}"
    attributes = f"{_window(op.window)}, group={op.group}:i64, {_relu(op)}{padding}"
    return type(op).__name__.removeprefix("Tpu"), attributes, [("weight", op.weight), ("bias", op.bias)]


def _pool(op: TpuPool) -> _Written:
    attributes = _window(op.window).rpartition(", dilations")[0]
    rest = f"count_include_pad={str(op.count_include_pad).lower()}, is_adaptive=false, keepdims=true"
    return "MaxPool" if op.function == "max" else "AvgPool", f"{attributes}, {_relu(op)}, {rest}", []


def _matrix(op: TpuMatMul) -> _Written:
    flags = "right_transpose=false, left_transpose=false, output_transpose=false, hdim_is_batch=false, keep_dims=true"
    return "MatMul", f"{flags}, {_relu(op)}", [("weight", op.weight), ("bias", op.bias)]


def _scale(op: TpuScale) -> _Written:
    shape = (1, -1, 1, 1)
    return "Scale", _relu(op), [("scale", op.scale.reshape(shape)), ("bias", op.bias.reshape(shape))]


_WRITERS: Mapping[type[TpuOp], Callable[..., _Written]] = MappingProxyType(
    {
        TpuConv: _convolution,
        TpuDeconv: _convolution,
        TpuPool: _pool,
        TpuMatMul: _matrix,
        TpuScale: _scale,
        TpuBinary: lambda op: (op.function.capitalize(), f"{_relu(op)}, is_scalar=false", []),
        TpuConcat: lambda op: ("Concat", f"axis={op.axis}:si32, {_relu(op)}", []),
        TpuReshape: lambda op: ("Reshape", "", []),
        TpuPermute: lambda op: ("Permute", f"order={list(op.order)}", []),
        TpuSoftmax: lambda op: ("Softmax", f"axis={op.axis}:si32, log=false, beta=1.0:f64", []),
        TpuActivation: lambda op: ("Relu", "relu_limit=-1.0:f64", []),
    }
)
