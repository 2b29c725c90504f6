"""`nnkit simulate`: one input through a build, in float, in the simulator or as compiled code."""

from __future__ import annotations

from pathlib import Path

from nnkit.api.build_inputs import given_by_name
from nnkit.api.simulating import only_output, value_of
from nnkit.builds import computing_with, open_build
from nnkit.commands.common import print_json
from nnkit.output_file import new_file
from nnkit.terminal import note_line, print_line


def simulate_command(
    folder: Path,
    files: list[str],
    output: Path,
    *,
    on: str,
    raw: bool,
    tensor: str | None,
    json: bool,
    trust: bool = False,
) -> None:
    """Write the network's output (or one tensor) for one set of inputs as `.npy`.

    Real units by default; `raw`: integers as the hardware has them (not for `--on float`). trust: code of a build
    that was made elsewhere may be run.
    """
    with computing_with(folder):
        _simulate(folder, files, output, on=on, raw=raw, tensor=tensor, json=json, trust=trust)


def _simulate(
    folder: Path, files: list[str], output: Path, *, on: str, raw: bool, tensor: str | None, json: bool, trust: bool
) -> None:
    import numpy as np

    from nnkit.preprocess import first_frame_note

    build = open_build(folder)
    name = tensor or only_output(build)
    paths = given_by_name([spec.name for spec in build.model("float.onnx").inputs], files, "--input", "FILE")
    frames = first_frame_note(map(Path, paths.values()))
    if frames is not None:
        note_line(f"note: {frames}")
    value = value_of(build, paths, name, on=on, raw=raw, trust=trust)
    with new_file(output, "the result", sent=[folder]) as stream:
        np.save(stream, value)
    summary = {"tensor": name, "on": on, "shape": list(value.shape), "dtype": str(value.dtype), "output": str(output)}
    if json:
        print_json(summary)
    else:
        print_line(f"{name} {'x'.join(map(str, value.shape))} {value.dtype} from {on} -> {output}")
