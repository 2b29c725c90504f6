"""One set of inputs through a finished build: in float, in the simulator, or as compiled code."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnkit.api.build_inputs import by_name, load_given, recipe_of
from nnkit.builds import BuiltFolder, check_origin, computing_with, open_build
from nnkit.errors import ToolError, UsageError, UserFileError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nnkit.samples import Sample


def simulated(
    folder: Path,
    inputs: Mapping[str, str | Path | NDArray[Any]],
    *,
    on: str,
    tensor: str | None = None,
    raw: bool = False,
    trust: bool = False,
) -> NDArray[Any]:
    """A value of the network for one set of inputs; arguments and errors as of `BuildResult.simulate`."""
    with computing_with(folder):
        build = open_build(folder)
        return value_of(build, inputs, tensor or only_output(build), on=on, raw=raw, trust=trust)


def value_of(
    build: BuiltFolder,
    inputs: Mapping[str, str | Path | NDArray[Any]],
    name: str,
    *,
    on: str,
    raw: bool,
    trust: bool,
) -> NDArray[Any]:
    """The value `name` of the network. Raises as `BuildResult.simulate`."""
    import numpy as np

    model = build.model("float.onnx")
    sample = load_given(build, model, by_name([spec.name for spec in model.inputs], inputs))
    if on == "float":
        if raw:
            raise UsageError("--raw has no meaning with --on float", remedy="drop --raw, or use --on program")
        return _float(build, sample, name)
    stored = _stored(build, sample, name, on, trust=trust)
    return stored if raw else build.program.tensors[name].format.dequantize(stored).astype(np.float32)


def only_output(build: BuiltFolder) -> str:
    """The output of a network that has one. Raises UsageError where it has several."""
    outputs = build.program.outputs
    if len(outputs) > 1:
        raise UsageError(
            f"this network has {len(outputs)} outputs", where="--tensor", remedy=f"name one: {', '.join(outputs)}"
        )
    return outputs[0]


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
