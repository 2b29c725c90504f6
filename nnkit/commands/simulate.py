"""`nnkit simulate`: one input through a build, in float, in the simulator or as compiled code."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnkit.builds import BuiltFolder, check_origin, computing_with, open_build
from nnkit.commands.build_inputs import by_name, load_sample, recipe_of
from nnkit.commands.common import print_json, print_line
from nnkit.errors import ToolError, UsageError, UserFileError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nnkit.samples import Sample


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

    build = open_build(folder)
    name = tensor or _only_output(build)
    sample = _sample(build, files)
    if on == "float":
        if raw:
            raise UsageError("--raw has no meaning with --on float", remedy="drop --raw, or use --on program")
        value: NDArray[Any] = _float(build, sample, name)
    else:
        stored = _stored(build, sample, name, on, trust=trust)
        value = stored if raw else build.program.tensors[name].format.dequantize(stored).astype(np.float32)
    try:
        with output.open("wb") as stream:
            np.save(stream, value)
    except OSError as error:
        raise UserFileError(
            f"cannot write the result: {error.strerror or error}", where=str(output), remedy="choose another --output"
        ) from error
    summary = {"tensor": name, "on": on, "shape": list(value.shape), "dtype": str(value.dtype), "output": str(output)}
    if json:
        print_json(summary)
    else:
        print_line(f"{name} {'x'.join(map(str, value.shape))} {value.dtype} from {on} -> {output}")


def _only_output(build: BuiltFolder) -> str:
    outputs = build.program.outputs
    if len(outputs) > 1:
        raise UsageError(
            f"this network has {len(outputs)} outputs", where="--tensor", remedy=f"name one: {', '.join(outputs)}"
        )
    return outputs[0]


def _sample(build: BuiltFolder, files: list[str]) -> Sample:
    model = build.model("float.onnx")
    given = by_name([spec.name for spec in model.inputs], files, "--input", "FILE")
    paths = {name: Path(path) for name, path in given.items()}
    return load_sample(build, model, paths)


def _float(build: BuiltFolder, sample: Sample, name: str) -> NDArray[Any]:
    from nnkit.graph.onnx_runtime import FloatSession

    source = "float.onnx" if name in build.program.outputs else "restructured.onnx"
    result: NDArray[Any] = FloatSession(build.model(source), fetch=[name]).run(sample.inputs)[name]
    return result.reshape(build.program.tensors[name].shape) if name in build.program.tensors else result


def _stored(build: BuiltFolder, sample: Sample, name: str, on: str, *, trust: bool) -> NDArray[Any]:
    from nnkit.program.inputs import quantized_inputs
    from nnkit.simulate import simulate
    from nnkit.target import load_target, plugin_name

    program = build.program
    if name not in program.tensors:
        raise UsageError(
            f"no tensor {name!r} in this program", where="--tensor", remedy=f"it has: {', '.join(program.tensors)}"
        )
    inputs = quantized_inputs(program, sample)
    if on == "program":
        return simulate(program, inputs)[name]
    key = str(build.report["target"])
    target = load_target(plugin_name(key))
    options = recipe_of(build).targets.get(key)
    if options is None:
        raise UserFileError(
            f"the build's recipe has no target {key!r}", where=str(build.folder), remedy="build it again"
        )
    runners = {runner.name: runner for runner in target.runners(options)}
    if on not in runners:
        raise UsageError(
            f"this target cannot run on {on!r}", where="--on", remedy=f"use float, program, {', '.join(runners)}"
        )
    missing = runners[on].missing()
    if missing is not None:
        raise ToolError(missing, where=on, remedy="see `nnkit doctor`")
    check_origin(build, trusted=trust)
    inner = name not in program.outputs
    result = runners[on].run(build.folder / "artifact", program, [inputs], trace=inner)[0]
    values = (result.tensors if inner else result.outputs).get(name)
    if values is None:
        raise UsageError(
            f"{on} does not keep tensor {name!r} by itself",
            where="--tensor",
            remedy="use --on program, which has every tensor",
        )
    return values.reshape(program.tensors[name].shape)
