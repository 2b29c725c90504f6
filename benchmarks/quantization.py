"""Accuracy of post-training quantisation: nnkit's integer programs beside ONNX Runtime's quantiser.

    NNKIT_SHARED=... python -m benchmarks.quantization [--networks vww,r20] [--images N] [--no-fixed]
                                                       [--adaround STEPS] [--no-cost] [--json]

Same networks, calibration and evaluation images for all rows. SQNR in dB of each output against the float network,
and top-1 agreement. nnkit's rows are the bit-exact integer program: int32 bias, multiplier and shift. Where `rfb` is
among the networks, rows on the cost of calibration follow (`benchmarks.calibration_cost`).
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import calibration_cost
from benchmarks.networks import shared_folder
from benchmarks.table import Row, show
from nnkit import rewrite
from nnkit.calibrate import CalibrationStats, Job, observe, to_stats
from nnkit.distance import distance
from nnkit.graph import Model
from nnkit.importers import ImportOptions, import_onnx
from nnkit.program import Conv2d, Program
from nnkit.program.affine import AffineProgram
from nnkit.quantize import FixedPointScheme, quantize
from nnkit.quantize.affine import (
    HEADROOM,
    AdaRound,
    AffineScheme,
    balance,
    equalize,
    keep_better,
    outputs_of,
    quantize_affine,
)
from nnkit.quantize.affine.quantize import Corrections
from nnkit.quantize.lowered import LoweredLayers
from nnkit.quantize.lowering import lower
from nnkit.simulate import simulate

NETWORKS = ("vww", "r20", "digits", "rfb")
HELD_OUT = 4  # every n-th calibration image decides whether a correction is kept
AFFINE_SCHEMES = (
    ("nnkit u8/s8 max, per tensor", AffineScheme(False, True, False, "max", "max", bias_correction=False)),
    ("nnkit u8/s8 max, per channel", AffineScheme(True, True, False, "max", "max", bias_correction=False)),
    (
        "nnkit u8/s8 percentile, per channel",
        AffineScheme(True, True, False, "percentile", "max", bias_correction=False),
    ),
    ("nnkit u8/s8 KL, per channel", AffineScheme(True, True, False, "kl", "max", bias_correction=False)),
    ("nnkit u8/s8 MSE, per channel", AffineScheme(bias_correction=False)),
    ("nnkit u8/s8 MSE, per channel, bias correction", AffineScheme()),
)
SIXTEEN_BIT_SCHEMES = (
    ("nnkit u16/s8 MSE, per channel, bias correction", AffineScheme(activation_bits=16)),
    ("nnkit u16/s16 MSE, per channel, bias correction", AffineScheme(activation_bits=16, weight_bits=16)),
)

Outputs = Mapping[str, NDArray[Any]]
Finish = Callable[[Outputs], Outputs]


@dataclass(frozen=True, eq=False)
class Case:
    """A network with its images in real units [N, C, H, W]. `cut`: where its integer part ends (None: whole)."""

    name: str
    path: Path
    input_name: str
    calibration: NDArray[np.float32]
    evaluation: NDArray[np.float32]
    cut: tuple[str, ...] | None


def load_case(folder: Path, name: str, images: int | None) -> Case:
    """The network and its arrays, preprocessed as it was trained."""
    import onnx

    path, arrays = folder / f"{name}.onnx", np.load(folder / f"{name}.npz")
    graph = onnx.load(path).graph
    cut = tuple(node.input[0] for node in graph.node if node.op_type == "Transpose") or None
    calibration, evaluation = (_real(name, arrays[key]) for key in ("cal", "ev"))
    return Case(name, path, graph.input[0].name, calibration, evaluation[:images], cut)


def _real(name: str, pixels: NDArray[Any]) -> NDArray[np.float32]:
    x = pixels.astype(np.float32)
    if name == "vww":
        return x / np.float32(255)
    if name == "rfb":
        return (x - np.float32(127)) / np.float32(128)
    if name == "r20":
        mean, deviation = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])
        return np.asarray((x / np.float32(255) - mean[:, None, None]) / deviation[:, None, None])
    return x


def rows(case: Case, *, fixed: bool, adaround: int | None, folder: Path) -> Iterator[Row]:
    """One row for each method. adaround: steps a layer for rows with adaptive rounding (None: none)."""
    reference = _run(case.path, {case.input_name: case.evaluation})
    for label, options in _peers().items():
        start = time.perf_counter()
        quantised = _onnx_runtime_quantised(case, folder, options)
        seconds = time.perf_counter() - start
        yield _row(case, label, _run(quantised, {case.input_name: case.evaluation}), reference, seconds)
    model, finish = _prepared(case, folder)
    start = time.perf_counter()
    observed = observe(Job(model, {}, True), {case.input_name: list(case.calibration)})
    calibration_seconds = time.perf_counter() - start
    held = np.arange(len(case.calibration)) % HELD_OUT == 0

    def affine_row(label: str, scheme: AffineScheme) -> tuple[AffineProgram, Row]:
        start = time.perf_counter()
        program = quantize_affine(
            LoweredLayers.of(model),
            to_stats(model, observed, method="mse"),
            scheme,
            Corrections(
                samples={case.input_name: case.calibration[~held]}, held_out={case.input_name: case.calibration[held]}
            ),
        )
        seconds = calibration_seconds + time.perf_counter() - start
        outputs = finish(_in_parts(lambda x: outputs_of(program, {case.input_name: x}), case.evaluation))
        wide = sum(op.accumulator == "int64" for op in program.ops)
        notes = (*program.notes, f"64-bit sums in {wide} of {len(program.ops)} ops") if wide else program.notes
        return program, _row(case, label, outputs, reference, seconds) | {"note": "; ".join(notes)}

    for label, scheme in AFFINE_SCHEMES:
        affine, row = affine_row(label, scheme)
        yield row
    seconds = row["seconds"]
    for label, scheme in SIXTEEN_BIT_SCHEMES:
        yield affine_row(label, scheme)[1]
    start = time.perf_counter()
    equalized = equalize(LoweredLayers.of(model))
    again = observe(Job(equalized.network.model, {}, True), {case.input_name: list(case.calibration)})
    other = quantize_affine(
        equalized.network,
        to_stats(equalized.network.model, again, method="mse"),
        AffineScheme(),
        Corrections(
            samples={case.input_name: case.calibration[~held]}, held_out={case.input_name: case.calibration[held]}
        ),
    )
    better = keep_better(affine, other, model, {case.input_name: case.calibration[held]}, "equalisation")
    seconds += time.perf_counter() - start
    outputs = finish(_in_parts(lambda x: outputs_of(better, {case.input_name: x}), case.evaluation))
    label = "nnkit u8/s8 MSE, per channel, equalisation, bias correction"
    yield _row(case, label, outputs, reference, seconds) | {"note": better.notes[-1]}
    yield from _balanced_rows(case, model, finish, to_stats(model, observed, method="mse"), reference)
    if adaround is not None:
        yield from _adaround_rows(case, model, finish, to_stats(model, observed, method="mse"), reference, adaround)
    if not fixed:
        return
    for label, fixed_scheme in (
        ("nnkit power of two s16, 64-bit sums", FixedPointScheme(accumulator_bits=64)),
        ("nnkit power of two s16, proven 32-bit sums", FixedPointScheme()),
    ):
        start = time.perf_counter()
        program = quantize(lower(model), to_stats(model, observed, method="max"), fixed_scheme)
        seconds = calibration_seconds + time.perf_counter() - start
        lost = [op.bits_lost for op in program.ops if isinstance(op, Conv2d)]
        note = f"bits lost for the proof: {np.mean(lost):.1f} a layer, at most {max(lost):.1f}"
        yield _row(case, label, finish(_fixed_outputs(program, case)), reference, seconds) | {"note": note}


def _balanced_rows(
    case: Case, model: Model, finish: Finish, stats: CalibrationStats, reference: Outputs
) -> Iterator[Row]:
    """Balanced channels and refined ranges, as the target onnx_qdq goes about it: neither of the two programs that
    are compared on held-out images has measured on them; what is kept is then built on all. Seconds are those of all
    that, without the first calibration."""
    held = np.arange(len(case.calibration)) % HELD_OUT == 0
    measured, held_out = ({case.input_name: case.calibration[chosen]} for chosen in (~held, held))

    def built(network: Model, found: CalibrationStats, scheme: AffineScheme, **options: Any) -> AffineProgram:
        return quantize_affine(
            LoweredLayers.of(network),
            found,
            scheme,
            Corrections(samples=measured, held_out=held_out, refine_ranges=True, **options),
        )

    def balanced_on(samples: Outputs) -> tuple[Model, CalibrationStats]:
        network = balance(LoweredLayers.of(model), samples).network.model
        observed = observe(Job(network, {}, True), {case.input_name: list(case.calibration)})
        return network, to_stats(network, observed, method="mse")

    start = time.perf_counter()
    plain, roomy = AffineScheme(), replace(AffineScheme(), eight_bit_headroom=HEADROOM)
    before = built(model, stats, plain, measure_anew=False)
    after = built(*balanced_on(measured), roomy, measure_anew=False)
    better = keep_better(before, after, model, held_out, "balancing")
    trials_seconds = time.perf_counter() - start
    for search, words in ((None, ""), (AdaRound(), ", adaptive rounding")):
        start = time.perf_counter()
        if better.ops is after.ops:
            program = built(*balanced_on({case.input_name: case.calibration}), roomy, adaround=search)
        else:
            program = built(model, stats, plain, adaround=search)
        seconds = trials_seconds + time.perf_counter() - start
        outputs = finish(_in_parts(lambda x, p=program: outputs_of(p, {case.input_name: x}), case.evaluation))
        label = f"nnkit u8/s8 MSE, per channel, balanced, refined ranges, bias correction{words}"
        note = "; ".join((better.notes[-1], *program.notes[1:]))
        yield _row(case, label, outputs, reference, seconds) | {"note": note}


def _adaround_rows(
    case: Case, model: Model, finish: Finish, stats: CalibrationStats, reference: Outputs, steps: int
) -> Iterator[Row]:
    held = np.arange(len(case.calibration)) % HELD_OUT == 0
    for per_channel, label in ((False, "per tensor"), (True, "per channel")):
        for search in (None, AdaRound(steps)):
            if per_channel and search is None:
                continue  # a row above
            start = time.perf_counter()
            program = quantize_affine(
                LoweredLayers.of(model),
                stats,
                AffineScheme(per_channel=per_channel),
                Corrections(
                    samples={case.input_name: case.calibration[~held]},
                    held_out={case.input_name: case.calibration[held]},
                    adaround=search,
                ),
            )
            seconds = time.perf_counter() - start
            outputs = finish(_in_parts(lambda x, p=program: outputs_of(p, {case.input_name: x}), case.evaluation))
            method = f"nnkit u8/s8 MSE, {label}, bias correction" + (", adaptive rounding" if search else "")
            yield _row(case, method, outputs, reference, seconds) | {"note": "; ".join(program.notes)}


def _row(case: Case, method: str, outputs: Outputs, reference: Outputs, seconds: float) -> dict[str, Any]:
    ratios = [distance(outputs[name], expected).sqnr_db for name, expected in reference.items()]
    first = next(iter(reference))
    agreement = float((np.argmax(outputs[first], axis=-1) == np.argmax(reference[first], axis=-1)).mean())
    return {
        "network": case.name,
        "method": method,
        "SQNR dB": " / ".join(f"{ratio:.2f}" for ratio in ratios),
        "top-1 agreement": round(agreement, 3),
        "seconds": round(seconds, 1),
        "note": "",
    }


def _prepared(case: Case, folder: Path) -> tuple[Model, Finish]:
    """The restructured integer part, and what runs in float behind it (nothing, where the network has no cut)."""
    from onnx.utils import extract_model

    path, finish = case.path, lambda outputs: outputs
    if case.cut is not None:
        path, tail = folder / f"{case.name}_body.onnx", folder / f"{case.name}_tail.onnx"
        names = [value.name for value in _graph(case.path).output]
        extract_model(str(case.path), str(path), [case.input_name], list(case.cut))
        extract_model(str(case.path), str(tail), list(case.cut), names)
        finish = lambda outputs: _run(tail, outputs)  # noqa: E731
    shape = (1, *case.calibration.shape[1:])
    imported = import_onnx(path, ImportOptions(inputs={case.input_name: shape}))
    model, _ = rewrite.restructure(imported.model, rewrite.resolve_rules(list(rewrite.DEFAULT_RULES)))
    return model, finish


def _graph(path: Path) -> Any:
    import onnx

    return onnx.load(path).graph


def _in_parts(run: Callable[[NDArray[np.float32]], Outputs], inputs: NDArray[np.float32], size: int = 50) -> Outputs:
    parts = [run(inputs[i : i + size]) for i in range(0, len(inputs), size)]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _fixed_outputs(program: Program, case: Case) -> Outputs:
    name = program.inputs[0]
    results = []
    for image in case.evaluation:
        values = simulate(program, {name: program.tensors[name].fixed.quantize(image)})
        results.append({key: program.tensors[key].fixed.dequantize(values[key])[None] for key in program.outputs})
    return {key: np.concatenate([result[key] for result in results]) for key in program.outputs}


def _run(path: Path, inputs: Outputs) -> Outputs:
    """ONNX Runtime, one image at a time where the network's batch is fixed at 1."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.x64quantprecision", "1")  # else products saturate on AVX2 without VNNI
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_outputs()]
    count = len(next(iter(inputs.values())))
    found = [
        session.run(names, {key: np.asarray(x[i : i + 1], np.float32) for key, x in inputs.items()})
        for i in range(count)
    ]
    return {name: np.concatenate([outputs[k] for outputs in found]) for k, name in enumerate(names)}


def _peers() -> dict[str, dict[str, Any]]:
    from onnxruntime.quantization import CalibrationMethod, QuantType

    eight = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8}
    sixteen = {"activation_type": QuantType.QUInt16, "weight_type": QuantType.QInt16}
    low, share = CalibrationMethod.MinMax, CalibrationMethod.Percentile
    return {
        "ONNX Runtime MinMax u8, per tensor": {
            "activation_type": QuantType.QUInt8,
            "weight_type": QuantType.QUInt8,
            "per_channel": False,
            "calibrate_method": low,
        },
        "ONNX Runtime MinMax, per channel": {**eight, "per_channel": True, "calibrate_method": low},
        "ONNX Runtime Percentile, per channel": {**eight, "per_channel": True, "calibrate_method": share},
        "ONNX Runtime A16W8, per channel": {
            "activation_type": QuantType.QUInt16,
            "weight_type": QuantType.QInt8,
            "per_channel": True,
            "calibrate_method": low,
            "extra_options": {"UseQDQContribOps": True},
        },
        "ONNX Runtime A16W16, per channel": {
            **sixteen,
            "per_channel": True,
            "calibrate_method": low,
            "extra_options": {"UseQDQContribOps": True},
        },
    }


def _onnx_runtime_quantised(case: Case, folder: Path, options: dict[str, Any]) -> Path:
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self._images = iter(case.calibration)

        def get_next(self) -> dict[str, NDArray[np.float32]] | None:
            image = next(self._images, None)
            return None if image is None else {case.input_name: image[None]}

    path = folder / f"{case.name}_peer.onnx"
    with contextlib.redirect_stdout(sys.stderr):  # its histograms report on stdout
        quantize_static(str(case.path), str(path), Reader(), quant_format=QuantFormat.QDQ, **options)
    return path


def main() -> None:
    """The command; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", default=",".join(NETWORKS), help="some of " + ", ".join(NETWORKS))
    parser.add_argument("--images", type=int, default=None, help="evaluation images at most (default: all)")
    parser.add_argument("--no-fixed", action="store_true", help="leave out the 16-bit power-of-two rows (slow)")
    parser.add_argument("--adaround", type=int, default=None, metavar="STEPS", help="adaptive rounding too (slow)")
    parser.add_argument("--no-cost", action="store_true", help="leave out what calibration costs")
    parser.add_argument("--json", action="store_true", help="rows for machines")
    chosen = parser.parse_args()
    shared = shared_folder()
    if shared is None or not (shared / "quant_bench").is_dir():
        raise SystemExit("set NNKIT_SHARED to the folder that holds quant_bench")
    unknown = set(chosen.networks.split(",")) - set(NETWORKS)
    if unknown:
        raise SystemExit(f"unknown networks: {', '.join(sorted(unknown))}; there are {', '.join(NETWORKS)}")
    logging.getLogger().setLevel(logging.ERROR)  # the peer warns about every model it is given
    everything: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="nnkit-quantization-") as folder:
        for name in chosen.networks.split(","):
            case = load_case(shared / "quant_bench", name, chosen.images)
            found = list(rows(case, fixed=not chosen.no_fixed, adaround=chosen.adaround, folder=Path(folder)))
            everything += found
            if not chosen.json:
                show(found, as_json=False, title=name)
    if "rfb" in chosen.networks.split(",") and not chosen.no_cost:
        cost = calibration_cost.rows(shared, many=None, repeat=3)
        everything += cost
        if not chosen.json:
            show(cost, as_json=False, title="calibration of rfb")
    if chosen.json:
        show(everything, as_json=True)


if __name__ == "__main__":
    main()
