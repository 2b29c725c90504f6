"""Calibration tables of every kind, pinned formats, and labels in CSV."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import numpy as np

from fuzz.damage import damaged_bytes, damaged_json, damaged_text

IMAGES = ("a/1.png", "a/2.png", "b/1.png", "b/2.png")
Seeds = dict[str, bytes]


def seeds(folder: Path) -> Seeds:
    """Whole files by name."""
    lines = [f'  - {{name: "conv{i}", low: -{i}.5, high: {i}.25, observed_low: -1.0}}' for i in range(1, 9)]
    own = "nnkit_calibration: 1\nmethod: max\nimages: 3\nvalues:\n" + "\n".join(lines) + "\n"
    fields = {"input_frac": 4, "weight_frac": 6, "bias_frac": 3, "output_frac": 5, "norm": 5}
    pinned = {"bits": 16, "input_frac": 0, "layers": [{"layer": f"conv{i}", **fields} for i in range(5)]}
    tpu = "# a table\n#@title\n" + "".join(f"conv{i} 2.5 -{i}.5 {i}.25\n" for i in range(5))
    return {
        "own.yaml": own.encode(),
        "pinned.json": json.dumps(pinned).encode(),
        "tpu.txt": tpu.encode(),
        "qdq.onnx": _qdq(),
        "classes.csv": b"image,class\na/1.png,3\na/2.png,0\nb/1.png,7\n",
        "boxes.csv": b"a/1.png,1,0.1,0.1,0.5,0.5\na/2.png\nb/1.png,0,0.25,0,1,1\n",
        "pairs.csv": b"first,second,same\na/1.png,a/2.png,1\na/1.png,b/1.png,0\n",
    }


def attempt(given: Seeds, chance: Random, folder: Path) -> None:
    """One damaged file through its reader."""
    from nnkit.commands.table import convert_command
    from nnkit.verify.tasks.labels import read_boxes, read_classes, read_pairs

    name = chance.choice(sorted(given))
    path, data = folder / name, given[name]
    if name.endswith(".onnx"):
        path.write_bytes(damaged_bytes(data, chance))
    elif name.endswith(".json") and chance.random() < 0.5:
        path.write_bytes(damaged_json(data.decode(), chance))
    else:
        others = [content.decode() for other, content in given.items() if not other.endswith(".onnx")]
        path.write_bytes(damaged_text(data.decode(), chance, others))
    labels = {"classes.csv": read_classes, "boxes.csv": read_boxes, "pairs.csv": read_pairs}
    if name in labels:
        labels[name](path, IMAGES)
    else:
        convert_command(path, folder / "out", to=chance.choice(("nnkit", "tpu")), onto=None, json=True)


def _qdq() -> bytes:
    """A model that quantises its input and a value."""
    from onnx import TensorProto, helper, numpy_helper

    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["x.q"]),
        helper.make_node("DequantizeLinear", ["x.q", "s", "z"], ["x.d"]),
        helper.make_node("Relu", ["x.d"], ["r.value"]),
        helper.make_node("QuantizeLinear", ["r.value", "s", "z"], ["r.value.q"]),
        helper.make_node("DequantizeLinear", ["r.value.q", "s", "z"], ["y"]),
    ]
    constants = [
        numpy_helper.from_array(np.asarray(0.5, np.float32), "s"),
        numpy_helper.from_array(np.asarray(3, np.int8), "z"),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 2, 4, 4]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "qdq", ends[:1], ends[1:], constants)
    return bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]).SerializeToString())
