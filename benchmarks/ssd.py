"""The SSD head in C: memory against priors and classes, time of the layer, and SSD300-VGG16 whole.

    python -m benchmarks.ssd [--json] [--svg docs/images/ssd_memory.svg] [--vgg]

Memory is what the layer takes beside its inputs and its output: in float (`DetectionOutput` of a network) and in
integers (`ssd` behind it, results included). The published implementation (Ranalli et al., Automated generation of
Single Shot Detector embedded C library) takes about 500 KB for 5 classes and 8732 priors, and grows with both. Time
is the least of several runs at -O3. `--vgg` makes SSD300-VGG16 in Caffe with random weights, imports it, and runs
its C once beside ONNX Runtime; it takes minutes.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.ssd300 import ssd300_row
from benchmarks.table import Row, show
from nnkit.cpu_segments import emit_segment, segment_source
from nnkit.custom_ops import DetectionOutput
from nnkit.graph import InputSpec, LayerTags, Model, OutputSpec
from nnkit.postprocess import Detections, Numbers

PRIORS, CLASSES = (1000, 2000, 4000, 8732, 16_000), (2, 5, 21, 81)
FLAGS = ("-O3", "-march=x86-64-v3", "-ffp-contract=off")
PUBLISHED_BYTES = 500_000

TIMED = """
#include <stdio.h>
#include <time.h>
#include "layer.h"
static float location[{location}], confidence[{confidence}], priors[{priors}], rows[{rows}];
int main(int argc, char **argv)
{{
    double best = 1e9;
    int run;
    FILE *file = fopen(argv[argc - 1], "rb");
    if (!file || fread(location, sizeof location, 1, file) != 1 || fread(confidence, sizeof confidence, 1, file) != 1
        || fread(priors, sizeof priors, 1, file) != 1) return 2;
    for (run = 0; run < 40; run++) {{
        struct timespec start, end;
        double seconds;
        clock_gettime(CLOCK_MONOTONIC, &start);
        layer_run(location, confidence, priors, rows);
        clock_gettime(CLOCK_MONOTONIC, &end);
        seconds = (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec);
        if (seconds < best) best = seconds;
    }}
    for (run = 0; run < {rows} && rows[run] == 0.0f; run += 7) {{}}
    printf("%.9f %d\\n", best, run / 7);
    return 0;
}}
"""


def layer(classes: int, top_k: int = 400, keep: int = 200) -> DetectionOutput:
    """As SSD's authors configure it."""
    return DetectionOutput(
        num_classes=classes,
        nms_threshold=0.45,
        top_k=top_k,
        code_type="CENTER_SIZE",
        keep_top_k=keep,
        confidence_threshold=0.01,
    )


def model_of(op: DetectionOutput, priors: int) -> Model:
    """A network of this layer alone."""
    from onnx import TensorProto, helper

    shapes = {
        "location": (1, priors * 4),
        "confidence": (1, priors * op.num_classes),
        "priors": (1, 2, priors * 4),
    }
    (rows,) = op.output_shapes([*shapes.values()])
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (*shapes.items(), ("y", rows))]
    graph = helper.make_graph([op.node([*shapes], ["y"], "layer")], "layer", values[:3], values[3:])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.nnkit", 1)]
    proto = helper.make_model(graph, opset_imports=opsets)
    inputs = tuple(InputSpec(name, shape) for name, shape in shapes.items())
    return Model(proto.SerializeToString(), LayerTags(), inputs, (OutputSpec("y", rows),), 17)


def memory_row(priors: int, classes: int) -> Row:
    """Bytes of the layer with the usual limits, and without top_k."""
    box = (0,) * 4
    stored = Numbers(8, True, 0.05), Numbers(8, False, 1 / 255)
    fixed = Detections(
        "ssd", "center_size", priors, classes, *stored, (0.1,) * 4, 0.01, 0.45, 400, 200, (box,) * priors
    )
    return {
        "priors": priors,
        "classes": classes,
        "float_bytes": segment_source(model_of(layer(classes), priors), "layer").arena_bytes,
        "float_no_top_k_bytes": segment_source(model_of(layer(classes, -1), priors), "layer").arena_bytes,
        "integer_bytes": fixed.working_bytes,
        "published_bytes": PUBLISHED_BYTES if (priors, classes) == (8732, 5) else None,
    }


def time_row(priors: int, classes: int, top_k: int) -> Row:
    """Milliseconds of one call on seeded scores, of which one in fifty of a class is above the threshold."""
    random = np.random.default_rng(1)
    op = layer(classes, top_k)
    low = random.uniform(0, 0.8, (priors, 2))
    boxes = np.concatenate([low, low + random.uniform(0.05, 0.3, (priors, 2))], axis=1)
    scores = random.uniform(0, 0.01, (priors, classes)) + (random.uniform(size=(priors, classes)) < 0.02) * 0.9
    arrays: list[Any] = [
        random.normal(size=priors * 4),
        scores,
        np.stack([boxes.reshape(-1), np.tile([0.1, 0.1, 0.2, 0.2], priors)]),
    ]
    with tempfile.TemporaryDirectory(prefix="nnkit-ssd-") as name:
        folder = Path(name)
        emit_segment(model_of(op, priors), "layer", folder)
        (folder / "inputs.bin").write_bytes(b"".join(array.astype("<f4").tobytes() for array in arrays))
        sizes = {"location": priors * 4, "confidence": priors * classes, "priors": priors * 8}
        (folder / "main.c").write_text(TIMED.format(rows=op.rows(priors) * 7, **sizes))
        files = [path.name for path in folder.glob("*.c")]
        subprocess.run(["cc", *FLAGS, *files, "-o", "timed", "-lm"], cwd=folder, check=True)
        told = subprocess.run([folder / "timed", "inputs.bin"], cwd=folder, check=True, capture_output=True).stdout
    seconds, found = told.split()
    return {
        "priors": priors,
        "classes": classes,
        "top_k": top_k,
        "detections": int(found),
        "ms": round(1e3 * float(seconds), 4),
    }


KINDS = {
    "float_no_top_k_bytes": ("#b35c00", "float, no top_k"),
    "float_bytes": ("#1f6fb2", "float, top_k 400"),
    "integer_bytes": ("#2a8a3c", "integers, top_k 400"),
}
"""What is drawn: color and words of each kind of bytes."""


def drawing(rows: list[Row]) -> str:
    """The memory rows as an SVG, a line for each kind: bytes over priors, and over classes with 8732 priors."""
    over_priors = [row for row in rows if row["classes"] == 5]
    over_classes = [row for row in rows if row["priors"] == 8732]
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 300" font-family="sans-serif" font-size="12">',
        '<rect width="900" height="300" fill="white"/>',
        '<text x="10" y="14">bytes beside inputs and output</text>',
        *_panel(over_priors, "priors", 70, "priors (5 classes)"),
        *_panel(over_classes, "classes", 510, "classes (8,732 priors)"),
    ]
    for number, (color, words) in enumerate(KINDS.values()):
        parts.append(f'<text x="90" y="{60 + 18 * number}" fill="{color}">{words}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(rows: list[Row], over: str, left: int, title: str) -> list[str]:
    """One of the two coordinate systems; the published point is the one of 5 classes and 8732 priors."""
    width, bottom, most_bytes = 340, 260, PUBLISHED_BYTES * 1.05
    most = max(int(row[over] or 0) for row in rows)

    def at(place: Any, size: Any) -> tuple[str, str]:
        return f"{left + width * place / most:.1f}", f"{bottom - 230 * size / most_bytes:.1f}"

    parts = [
        f'<path d="M{left},20 V{bottom} H{left + width + 20}" fill="none" stroke="#444"/>',
        f'<text x="{left + width}" y="292" text-anchor="end">{title}</text>',
    ]
    for size in range(0, PUBLISHED_BYTES + 1, 100_000):
        parts.append(f'<text x="{left - 6}" y="{at(0, size)[1]}" text-anchor="end">{size:,}</text>')
    for row in rows:
        if row[over] not in (2, 1000):  # where the next number would stand over it
            parts.append(
                f'<text x="{at(row[over], 0)[0]}" y="{bottom + 16}" text-anchor="middle">{row[over]:,}</text>'
            )
    for kind, (color, _) in KINDS.items():
        line = " ".join(",".join(at(row[over], row[kind])) for row in rows)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="2"/>')
    x, y = at(8732 if over == "priors" else 5, PUBLISHED_BYTES)
    parts.append(f'<circle cx="{x}" cy="{y}" r="4" fill="#a00"/>')
    parts.append(f'<text x="{x}" y="{y}" dx="8" dy="4" fill="#a00">published</text>')
    return parts


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ssd")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--svg", type=Path, help="draw the memory into this file")
    parser.add_argument("--vgg", action="store_true", help="SSD300-VGG16, too")
    arguments = parser.parse_args()
    memory = [memory_row(priors, classes) for priors in PRIORS for classes in CLASSES]
    if arguments.svg:
        arguments.svg.write_text(drawing(memory), encoding="utf-8")
    times = [time_row(8732, classes, top_k) for classes in (5, 21) for top_k in (400, -1)]
    tables = [("memory", memory), ("time", times)]
    if arguments.vgg:
        tables.append(("SSD300-VGG16", [ssd300_row()]))
    if arguments.json:
        show([{"table": title, **row} for title, rows in tables for row in rows], as_json=True)
        return
    for title, rows in tables:
        show(rows, as_json=False, title=title)


if __name__ == "__main__":
    main()
