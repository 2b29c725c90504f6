"""Networks of the shapes people deploy: through the whole chain to C on this host and on rv32, value by value."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from .conftest import Command, report_of, write_inputs
from .networks import NETWORKS

RECIPE = """\
nnkit: 1
name: net
model:
  path: net.onnx
  inputs: {{x: {{calibration: {{images: "cal*.npy"}}}}}}
{tags}
targets:
  gap8: {{{options}}}
"""

CASES = [
    *((name, "precision: int16", "") for name in NETWORKS),
    *((name, "precision: int8, cores: 3", "") for name in NETWORKS),
    ("mobilenet_v2", "precision: int8", 'tags: {hp: ["conv4", "gemm*"]}'),
    ("resnet", "precision: int16, unsigned: always", ""),
    ("resnet", "precision: int16, accumulator_bits: 64", ""),
    ("squeezenet", "precision: int16, accumulate: running", ""),
    ("resnet", "precision: int16", 'tags: {cpu: ["relu*"]}'),
]


@pytest.mark.parametrize(("name", "options", "tags"), CASES, ids=[" ".join(filter(None, c)) for c in CASES])
def test_network_to_c(name: str, options: str, tags: str, tmp_path: Path, nnkit: Command) -> None:
    path = NETWORKS[name](tmp_path / "net.onnx")
    first = onnx.load(path).graph.input[0].type.tensor_type.shape.dim
    write_inputs(tmp_path, tuple(d.dim_value for d in first))
    (tmp_path / "recipe.yaml").write_text(RECIPE.format(options=options, tags=tags))
    done = nnkit("run", "recipe.yaml")
    assert done.code == 0, done.err + done.out
    report = report_of(tmp_path / "out/net/gap8")
    runs = {entry["how"]: entry for entry in report["verify"]["program_vs_artifact"]}
    assert set(runs) == {"host", "rv32"}
    for entry in runs.values():
        assert entry["contract"] == "exact"
        assert entry["values"] > 0
        assert entry["mismatches"] == 0
    assert runs["rv32"]["instructions"] > report["macs"]
    assert runs["rv32"]["measured"]["l2_painted_bytes"] == report["memory"]["l2"]["peak_bytes"]
    assert all(layer["proof"] in ("proven", "not_applicable") for layer in report["layers"])
    floats = report["verify"]["float_vs_program"]
    assert floats["cosine"] > (0.9999 if "int16" in options else 0.98)
    if "hp" in tags:
        tagged = [layer for layer in report["layers"] if "hp" in layer["tags"]]
        assert len(tagged) == 2
        assert all(layer["formats"]["weight"].startswith("s16") for layer in tagged)
    if "cpu" in tags:
        assert {segment["placement"] for segment in report["segments"]} == {"npu", "cpu"}
        kept = [layer for layer in report["layers"] if layer["placement"] == "cpu"]
        assert kept
        assert all(layer["op"] == "activation" for layer in kept)
