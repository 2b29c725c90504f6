"""Build folders, as `nnkit run` leaves them: opened for whoever works with a finished build."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnkit.errors import UserFileError
from nnkit.program import Program

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nnkit.graph import Model

_NAME_ONE = "name a folder that `nnkit run` made: out/<name>/<target>"
_BUILD_AGAIN = "build it again with `nnkit run`"


@dataclass(frozen=True, eq=False)
class BuiltFolder:
    """A build folder as a run left it."""

    folder: Path
    report: dict[str, Any]
    program: Program

    def model(self, name: str) -> Model:
        """The network of a stage: `float.onnx` or `restructured.onnx`. Raises UserFileError where it is not there."""
        from nnkit.graph import InputSpec, LayerTags, Model, OutputSpec
        from nnkit.reading import whole_message_of

        content = _checked(self.folder, name, self.report)
        try:
            graph = whole_message_of(content).graph
        except ValueError as error:
            raise _damaged(self.folder, f"{name} is {error}") from error
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
        from nnkit.preprocess.load import load_array
        from nnkit.verify.store import float_input_path

        folder = self.folder / "verify"
        shapes = {spec.name: spec.shape for spec in self.model("float.onnx").inputs}
        kept: list[dict[str, NDArray[Any]]] = []
        while all(float_input_path(folder, len(kept), name).is_file() for name in self.program.inputs):
            paths = {name: float_input_path(folder, len(kept), name) for name in self.program.inputs}
            kept.append({name: load_array(path, shapes[name]) for name, path in paths.items()})
        return kept


def open_build(folder: Path) -> BuiltFolder:
    """Read a build folder. Raises UserFileError where it is not one."""
    from nnkit.reading import check_plain_tree, read_json_object
    from nnkit.serialize import DamagedValueError, decode
    from nnkit.target import load_target, plugin_name

    if not folder.is_dir():
        raise UserFileError("no such build folder", where=str(folder), remedy=_NAME_ONE)
    if not (folder / "report.json").is_file():
        raise UserFileError("not a build: it has no report.json", where=str(folder), remedy=_NAME_ONE)
    check_plain_tree(folder, "a build")
    report = read_json_object(folder / "report.json", what="the report", remedy=_BUILD_AGAIN)
    target = report.get("target")
    if not isinstance(target, str):
        raise _damaged(folder, "its report names no target")
    parts = sorted(folder.glob("networks/*/report.json")) if "networks" in report else []
    if parts:
        names = " or ".join(str(path.parent) for path in parts)
        raise UserFileError(
            "this build is of several networks", where=str(folder), remedy=f"name one of them: {names}"
        )
    classes = load_target(plugin_name(target)).program_classes()
    try:
        program = decode(_checked(folder, "program.nnkit", report), classes)
    except DamagedValueError as error:
        raise _damaged(folder, str(error)) from error
    if not isinstance(program, Program):
        raise _damaged(folder, "program.nnkit holds no program")
    return BuiltFolder(folder, report, program)


def _checked(folder: Path, name: str, report: Mapping[str, Any]) -> bytes:
    """The bytes of a file of the build, which must be those that the report was written with."""
    from nnkit.reading import read_bytes

    stages = report.get("stages")
    recorded = stages.get(name) if isinstance(stages, dict) else None
    if not isinstance(recorded, dict) or "sha256" not in recorded:
        raise _damaged(folder, f"its report does not say which {name} belongs to it")
    if not (folder / name).is_file():
        raise UserFileError(f"not a complete build: it has no {name}", where=str(folder), remedy=_BUILD_AGAIN)
    content = read_bytes(folder / name, what=name)
    if hashlib.sha256(content).hexdigest() != recorded["sha256"]:
        raise _damaged(folder, f"{name} is not the one that the report was written with")
    return content


def _damaged(folder: Path, reason: str) -> UserFileError:
    return UserFileError(f"this build is damaged: {reason}", where=str(folder), remedy=_BUILD_AGAIN)
