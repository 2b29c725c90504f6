"""Build folders, as `nnkit run` leaves them: opened for whoever works with a finished build."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnkit.errors import UserFileError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nnkit.graph import Model
    from nnkit.program import Program


@dataclass(frozen=True, eq=False)
class BuiltFolder:
    """A build folder as a run left it."""

    folder: Path
    report: dict[str, Any]
    program: Program

    def model(self, name: str) -> Model:
        """The network of a stage: `float.onnx` or `restructured.onnx`. Raises UserFileError where it is not there."""
        from nnkit.graph import InputSpec, LayerTags, Model, OutputSpec

        try:
            content = (self.folder / name).read_bytes()
        except OSError as error:
            raise UserFileError(f"not a complete build: no {name}", where=str(self.folder)) from error
        import onnx

        graph = onnx.load_model_from_string(content).graph
        constants = {i.name for i in graph.initializer}

        def shape(value: Any) -> tuple[int, ...]:
            return tuple(d.dim_value for d in value.type.tensor_type.shape.dim)

        return Model(
            content,
            LayerTags(),
            tuple(InputSpec(v.name, shape(v)) for v in graph.input if v.name not in constants),
            tuple(OutputSpec(v.name, shape(v)) for v in graph.output),
            0,
        )

    def kept_inputs(self) -> list[dict[str, NDArray[Any]]]:
        """The inputs that the build was verified on, as far as they are kept: real units, by input name."""
        import numpy as np

        from nnkit.verify.store import float_input_path

        folder = self.folder / "verify"
        found: list[dict[str, NDArray[Any]]] = []
        while all(float_input_path(folder, len(found), name).is_file() for name in self.program.inputs):
            found.append({n: np.load(float_input_path(folder, len(found), n)) for n in self.program.inputs})
        return found


def open_build(folder: Path) -> BuiltFolder:
    """Read a build folder. Raises UserFileError where it is not one."""
    from nnkit.serialize import decode
    from nnkit.target import load_target, plugin_name

    remedy = "name a folder that `nnkit run` made: out/<name>/<target>"
    if not folder.is_dir():
        raise UserFileError("no such build folder", where=str(folder), remedy=remedy)
    try:
        report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
        classes = load_target(plugin_name(str(report["target"]))).program_classes
        program: Program = decode((folder / "program.nnkit").read_bytes(), classes)
    except FileNotFoundError as error:
        name = Path(str(error.filename)).name
        raise UserFileError(f"not a build: it has no {name}", where=str(folder), remedy=remedy) from error
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise UserFileError(
            f"this build is damaged: {error}", where=str(folder), remedy="build it again with `nnkit run`"
        ) from error
    return BuiltFolder(folder, report, program)
