"""The process that `tool_process` starts: runs the steps of `tool_steps` on a model in a folder.

Usage: python -m nnkit.importers.tool_worker FOLDER. FOLDER holds request.json and the models; what comes of it is
in state.json, which is replaced after every step, so that a crash shows which step it was.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

NEW_WEIGHTS = "new_weights.bin"
"""Where the last step leaves the weights, if they changed: their sizes by name are state.json's `weights`."""


def main(folder: Path) -> int:
    """Run the steps that request.json asks for; 0 when all are done or one refused the model."""
    request = json.loads((folder / "request.json").read_text(encoding="utf-8"))
    _limit_memory(int(request["memory_bytes"]))
    return _run(folder, request)


def _limit_memory(memory_bytes: int) -> None:
    try:
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        soft = memory_bytes if hard == resource.RLIM_INFINITY else min(memory_bytes, hard)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    except (ImportError, ValueError, OSError):
        return  # not every system has such limits; the time limit holds everywhere


def _run(folder: Path, request: dict[str, Any]) -> int:
    import onnx

    from nnkit.errors import NnkitError
    from nnkit.graph.weights_aside import read_weights, write_weights
    from nnkit.importers.tool_steps import STEPS, StepState

    original = onnx.load_model_from_string((folder / request["original"]).read_bytes())
    weights = read_weights(folder / request["weights"], request["sizes"])
    proto = onnx.load_model_from_string((folder / request["model"]).read_bytes())
    state = StepState(proto, weights, original, weights, request["where"], list(request["notes"]))
    report: dict[str, Any] = {"done": [], "model": request["model"], "notes": state.notes, "weights": {}}
    for number, name in enumerate(request["steps"]):
        report["step"] = name
        _write(folder, report)
        try:
            STEPS[name](state)
            model = f"after_{request['attempt']}_{number}.onnx"
            (folder / model).write_bytes(state.proto.SerializeToString(deterministic=True))
            if number == len(request["steps"]) - 1 and state.weights is not weights:
                report["weights"] = write_weights(folder / NEW_WEIGHTS, state.weights)
        except NnkitError as error:
            report["refused"] = {"reason": error.reason, "where": error.where, "remedy": error.remedy}
            _write(folder, report)
            return 0
        except MemoryError:
            report["out_of_memory"] = True
            _write(folder, report)
            return 1
        report["done"].append(name)
        report["model"] = model
        report["notes"] = state.notes
    report["step"] = ""
    _write(folder, report)
    return 0


def _write(folder: Path, report: dict[str, Any]) -> None:
    temporary = folder / "state.json.tmp"
    temporary.write_text(json.dumps(report), encoding="utf-8")
    os.replace(temporary, folder / "state.json")


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
