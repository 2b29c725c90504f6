"""MLPerf Tiny's four shapes as TensorFlow's converter quantises them, op by op against LiteRT's reference kernels.

    python -m benchmarks.tflite [--keep FOLDER] [--json]

Networks are built with seeded random weights whose normalisations have seen random inputs, and converted in the run
to float, int8 and int16x8; `--keep` keeps the files and takes those of an earlier run. Every op of the imported
network computes on the reference kernels' own inputs, any that the input's type can hold. `compared`: ops whose
result is a value of the file, as all are but parts of what the file has as one. `differing`: values that are not the
same; `largest`: by how many units. `float`: the outputs by ONNX Runtime against LiteRT, `largest` as a share of the
largest one. Needs tensorflow for what is not kept: no extra of nnkit's, best in an environment of its own.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import OpResolverType

from benchmarks.litert import differences, integer_program, random_inputs, reference_tensors
from benchmarks.table import Row, show
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.importers.tflite_importer import import_tflite

KINDS = ("float", "int8", "int16x8")
_SEEDS = (0, 1)


def main(arguments: Sequence[str] | None = None) -> int:
    """A row for each file; 1 where a value is off by more than a unit."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tflite")
    parser.add_argument("--keep", type=Path, help="folder of converted networks, used again by a later run")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="nnkit-tflite-") as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if any(not (folder / f"{name}_{kind}.tflite").is_file() for name in MAKERS for kind in KINDS):
            convert(folder)
        rows = [_row(folder / f"{name}_{kind}.tflite", kind) for name in MAKERS for kind in KINDS]
    show(rows, as_json=options.json)
    return 1 if any(row["largest"] > (1e-5 if row["kind"] == "float" else 1) for row in rows) else 0


def _row(path: Path, kind: str) -> Row:
    row: dict[str, Any] = {"network": path.stem.rsplit("_", 1)[0], "kind": kind}
    if kind == "float":
        return row | _float_row(path)
    program = integer_program(path)
    found = [
        each for seed in _SEEDS for each in differences(program, reference_tensors(path, random_inputs(path, seed)))
    ]
    return row | {
        "ops": len(program.ops),
        "compared": len({each.op for each in found}),
        "values": sum(each.values for each in found),
        "differing": sum(each.differing for each in found),
        "largest": max(each.largest for each in found),
    }


def _float_row(path: Path) -> dict[str, Any]:
    model, largest, values = import_tflite(path).model, 0.0, 0
    for seed in _SEEDS:
        given = random_inputs(path, seed)
        expected = reference_tensors(path, given, OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES)
        turned = (value.transpose(0, 3, 1, 2) if value.ndim == 4 else value for value in given)
        feeds = {spec.name: value for spec, value in zip(model.inputs, turned, strict=True)}
        for name, value in FloatSession(model).run(feeds).items():
            share = float(np.abs(value - expected[name]).max() / np.abs(expected[name]).max())
            largest, values = max(largest, share), values + value.size
    return {
        "ops": len(model.proto().graph.node),
        "compared": len(model.outputs),
        "values": values,
        "differing": None,
        "largest": largest,
    }


def convert(folder: Path) -> None:
    """Write the four networks in float, int8 and int16x8."""
    import tensorflow as tf

    layers = tf.keras.layers
    for name in MAKERS:
        tf.keras.utils.set_random_seed(1)
        network = MAKERS[name](tf.keras)
        inputs = np.random.default_rng(0).normal(0, 1, (32, *network.input_shape[1:])).astype(np.float32)
        for layer in network.layers:
            if isinstance(layer, layers.BatchNormalization):
                layer.momentum = 0.0
        network(inputs, training=True)
        for kind in KINDS:
            converter = tf.lite.TFLiteConverter.from_keras_model(network)
            if kind != "float":
                converter.optimizations = [tf.lite.Optimize.DEFAULT]
                converter.representative_dataset = lambda given=inputs: (
                    [given[i : i + 1]] for i in range(len(given))
                )
                sets, dtype = tf.lite.OpsSet, tf.int8 if kind == "int8" else tf.int16
                wide = sets.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8
                converter.target_spec.supported_ops = [sets.TFLITE_BUILTINS_INT8 if kind == "int8" else wide]
                converter.inference_input_type = converter.inference_output_type = dtype
            (folder / f"{name}_{kind}.tflite").write_bytes(converter.convert())


def _unit(keras: Any, x: Any, layer: Any, *, relu: bool = True) -> Any:
    x = keras.layers.BatchNormalization()(layer(x))
    return keras.layers.ReLU()(x) if relu else x


def _head(keras: Any, first: Any, x: Any, pool: tuple[int, int], classes: int) -> Any:
    x = keras.layers.Flatten()(keras.layers.AveragePooling2D(pool)(x))
    return keras.Model(first, keras.layers.Dense(classes, activation="softmax")(x))


def _dscnn(keras: Any) -> Any:
    """Keyword spotting."""
    conv, deep = keras.layers.Conv2D, keras.layers.DepthwiseConv2D
    first = x = keras.layers.Input((49, 10, 1))
    x = _unit(keras, x, conv(64, (10, 4), 2, "same"))
    for _ in range(4):
        x = _unit(keras, _unit(keras, x, deep(3, 1, "same")), conv(64, 1))
    return _head(keras, first, x, (25, 5), 12)


def _autoencoder(keras: Any) -> Any:
    """Anomaly detection."""
    first = x = keras.layers.Input((640,))
    for width in (*(128,) * 4, 8, *(128,) * 4):
        x = _unit(keras, x, keras.layers.Dense(width))
    return keras.Model(first, keras.layers.Dense(640)(x))


def _resnet8(keras: Any) -> Any:
    """Image classification."""
    conv = keras.layers.Conv2D
    first = x = keras.layers.Input((32, 32, 3))
    x = _unit(keras, x, conv(16, 3, 1, "same"))
    for width, stride in ((16, 1), (32, 2), (64, 2)):
        y = _unit(keras, x, conv(width, 3, stride, "same"))
        y = _unit(keras, y, conv(width, 3, 1, "same"), relu=False)
        x = conv(width, 1, stride, "same")(x) if stride > 1 else x
        x = keras.layers.ReLU()(keras.layers.Add()([x, y]))
    return _head(keras, first, x, (8, 8), 10)


def _mobilenet(keras: Any) -> Any:
    """Visual wake words."""
    conv, deep = keras.layers.Conv2D, keras.layers.DepthwiseConv2D
    first = x = keras.layers.Input((96, 96, 3))
    x = _unit(keras, x, conv(8, 3, 2, "same"))
    steps = ((16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2), *((128, 1),) * 5, (256, 2), (256, 1))
    for width, stride in steps:
        x = _unit(keras, _unit(keras, x, deep(3, stride, "same")), conv(width, 1))
    return _head(keras, first, x, (3, 3), 2)


MAKERS: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {"dscnn": _dscnn, "autoencoder": _autoencoder, "resnet8": _resnet8, "mobilenet": _mobilenet}
)


if __name__ == "__main__":
    sys.exit(main())
