"""A quantised TFLite network in nnkit's integers against LiteRT's reference kernels, op by op on the same inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from numpy.typing import NDArray

from nnkit.calibrate.stats import CalibrationStats
from nnkit.importers.tflite.network import read_tflite
from nnkit.importers.tflite_importer import import_tflite
from nnkit.program.affine import AffineProgram, AffineTensor
from nnkit.quantize.affine import AffineScheme, quantize_affine
from nnkit.quantize.affine.quantized_network import lower_quantized

Array = NDArray[Any]


@dataclass(frozen=True)
class OpDifference:
    """One op: how many values were compared, how many differ, and the largest difference in units."""

    op: str
    kind: str
    values: int
    differing: int
    largest: int


def integer_program(path: Path) -> AffineProgram:
    """The file's network with its own formats and integers."""
    lowered = lower_quantized(import_tflite(path).model)
    return quantize_affine(lowered, CalibrationStats({}, "formats", 0, ""), AffineScheme(bias_correction=False))


def reference_tensors(
    path: Path, inputs: Sequence[Array], kernels: OpResolverType = OpResolverType.BUILTIN_REF
) -> dict[str, Array]:
    """Every tensor that LiteRT makes of the inputs (as the file has them), channels first; by reference kernels."""
    interpreter = Interpreter(
        str(path), experimental_op_resolver_type=kernels, experimental_preserve_all_tensors=True, num_threads=1
    )
    interpreter.allocate_tensors()
    for detail, values in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(detail["index"], values)
    interpreter.invoke()
    tensors, names = {}, [tensor.name for tensor in read_tflite(path).tensors]
    for detail in interpreter.get_tensor_details():
        try:
            values = interpreter.get_tensor(detail["index"])
        except ValueError:  # a kernel's own scratch
            continue
        if detail["index"] < len(names):
            tensors[names[detail["index"]]] = values.transpose(0, 3, 1, 2) if values.ndim == 4 else values
    return tensors


def random_inputs(path: Path, seed: int) -> list[Array]:
    """Any values that the file's inputs can hold: of integers all, of floats normal ones."""
    interpreter = Interpreter(str(path))
    generator, inputs = np.random.default_rng(seed), []
    for detail in interpreter.get_input_details():
        if np.issubdtype(detail["dtype"], np.floating):
            inputs.append(generator.normal(0, 1, detail["shape"]).astype(detail["dtype"]))
            continue
        info = np.iinfo(detail["dtype"])
        inputs.append(generator.integers(info.min, info.max + 1, detail["shape"]).astype(detail["dtype"]))
    return inputs


def differences(program: AffineProgram, tensors: Mapping[str, Array]) -> list[OpDifference]:
    """An entry for each op whose result is one of the file's tensors; inputs are the reference's wherever there are.

    Ops between two tensors of the file (what a fused pool or a turned map is made of) take what ops before them made.
    """
    tensors = {**tensors, **_inner(program, tensors)}
    made: dict[str, Array] = {}
    found = []
    for op in program.ops:
        sources = [_stored(program, name, tensors, made) for name in op.inputs]
        output = _affine(program, op.output)
        ours = op.compute(sources, program.tensors)
        made[op.output] = ours
        if op.output not in tensors:
            continue
        theirs = _as_kept(output, tensors[op.output])
        units = np.abs(ours.astype(np.int64) - theirs.astype(np.int64))
        found.append(OpDifference(op.output, op.kind, units.size, int(np.count_nonzero(units)), int(units.max())))
    return found


def _inner(program: AffineProgram, tensors: Mapping[str, Array]) -> dict[str, Array]:
    """The file's inner values by the names that the import gives them, which may have their channels last.

    Those whose shape is the same in both orders are left out where the import may have either.
    """
    inner: dict[str, Array] = {}
    for name, values in tensors.items():
        ours = program.tensors.get(f"{name}_dequantized")
        if ours is None:
            continue
        last = values.transpose(0, 2, 3, 1) if values.ndim == 4 else values
        fitting = [each for each in (values, last) if each.shape[-len(ours.shape) :] == ours.shape]
        if fitting and (len(fitting) == 1 or values.ndim != 4 or values.shape[1] == 1 or values[0, 0].size == 1):
            inner[f"{name}_dequantized"] = fitting[0]
    return inner


def _stored(program: AffineProgram, name: str, tensors: Mapping[str, Array], made: Mapping[str, Array]) -> Array:
    return _as_kept(_affine(program, name), tensors[name]) if name in tensors else made[name]


def _affine(program: AffineProgram, name: str) -> AffineTensor:
    return cast(AffineTensor, program.tensors[name])


def _as_kept(tensor: AffineTensor, values: Array) -> Array:
    """A tensor of the reference in the program's shape; a float one as it is stored."""
    kept = values.reshape(tensor.shape)
    if np.issubdtype(kept.dtype, np.floating):
        kept = tensor.format.quantize(kept)
    return kept.astype(tensor.format.dtype)
