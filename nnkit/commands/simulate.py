"""`nnkit simulate`: one input through a build, in float, in the simulator or as compiled code."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnkit.builds import BuiltFolder, open_build
from nnkit.commands.common import print_json, print_line
from nnkit.errors import ToolError, UsageError, UserFileError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from nnkit.verify.samples import Sample


def simulate_command(
    folder: Path, files: list[str], output: Path, *, on: str, raw: bool, tensor: str | None, json: bool
) -> None:
    """Write the network's output (or one tensor) for one set of inputs as `.npy`.

    Real units by default; `raw`: integers as the hardware has them (not for `--on float`).
    """
    import numpy as np

    build = open_build(folder)
    name = tensor or _only_output(build)
    sample = _sample(build, files)
    if on == "float":
        if raw:
            raise UsageError("--raw has no meaning with --on float", remedy="drop --raw, or use --on program")
        value: NDArray[Any] = _float(build, sample, name)
    else:
        stored = _stored(build, sample, name, on)
        value = stored if raw else build.program.tensors[name].format.dequantize(stored).astype(np.float32)
    try:
        with output.open("wb") as stream:
            np.save(stream, value)
    except OSError as error:
        raise UserFileError(
            f"cannot write the result: {error.strerror}", where=str(output), remedy="choose another --output"
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
    from nnkit.inputs import preprocess_by_input
    from nnkit.preprocess import load_input
    from nnkit.verify.samples import Sample

    model = build.model("float.onnx")
    preprocess = preprocess_by_input(_recipe(build), model)
    paths: dict[str, Path] = {}
    names = [spec.name for spec in model.inputs]
    for text in files:
        name, _, rest = text.partition("=")
        if rest and name in names:
            paths[name] = Path(rest)
        elif len(names) == 1:
            paths[names[0]] = Path(text)
        else:
            raise UsageError(
                f"{text!r} names no input of this network",
                where="--input",
                remedy=f"write NAME=FILE: {', '.join(names)}",
            )
    lacking = [name for name in names if name not in paths]
    if lacking:
        raise UsageError(f"no file for input {', '.join(lacking)}", where="--input", remedy="add --input NAME=FILE")
    inputs: dict[str, NDArray[np.float32]] = {}
    for spec in model.inputs:
        inputs[spec.name] = load_input(paths[spec.name], preprocess[spec.name], spec.shape)
    return Sample(", ".join(str(p) for p in paths.values()), inputs)


def _recipe(build: BuiltFolder) -> Any:
    """The recipe as the build keeps it; its files need not be there any more, only preprocessing is read."""
    import os

    from nnkit.recipe import load_recipe
    from nnkit.target import option_models

    path = build.folder / "recipe.yaml"
    blank = _Blank(os.environ)
    return load_recipe(path, target_models=option_models(), environ=blank)


class _Blank(dict[str, str]):
    """An environment in which a variable that is not set is `.`: simulation opens none of the recipe's paths."""

    def __missing__(self, key: str) -> str:
        return "."

    def __contains__(self, key: object) -> bool:
        return True

    def get(self, key: str, default: Any = None) -> Any:
        """The value, or `.`."""
        return super().get(key, ".")


def _float(build: BuiltFolder, sample: Sample, name: str) -> NDArray[Any]:
    from nnkit.graph.onnx_runtime import FloatSession

    source = "float.onnx" if name in build.program.outputs else "restructured.onnx"
    result: NDArray[Any] = FloatSession(build.model(source), fetch=[name]).run(sample.inputs)[name]
    return result.reshape(build.program.tensors[name].shape) if name in build.program.tensors else result


def _stored(build: BuiltFolder, sample: Sample, name: str, on: str) -> NDArray[Any]:
    from nnkit.simulate import simulate
    from nnkit.target import load_target, plugin_name
    from nnkit.verify.samples import quantized_inputs

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
    options = _recipe(build).targets[key]
    runners = {runner.name: runner for runner in target.runners(options)}
    if on not in runners:
        raise UsageError(
            f"this target cannot run on {on!r}", where="--on", remedy=f"use float, program, {', '.join(runners)}"
        )
    missing = runners[on].missing()
    if missing is not None:
        raise ToolError(missing, where=on, remedy="see `nnkit doctor`")
    inner = name not in program.outputs
    result = runners[on].run(build.folder / "artifact", program, [inputs], trace=inner)[0]
    found = (result.tensors if inner else result.outputs).get(name)
    if found is None:
        raise UsageError(
            f"{on} does not keep tensor {name!r} by itself",
            where="--tensor",
            remedy="use --on program, which has every tensor",
        )
    return found.reshape(program.tensors[name].shape)
