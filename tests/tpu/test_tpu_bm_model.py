"""The chip model's process: which of its threads give way, and how little it imports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_ENGINES = """
import os, threading
from pathlib import Path
from nnkit_tpu.bm_model import _prefer_threads_at_work

NAMES = {names!r}
started, done = threading.Barrier(len(NAMES) + 1), threading.Event()
found = {{}}

def engine(name):
    thread = threading.get_native_id()
    Path(f"/proc/self/task/{{thread}}/comm").write_text(name)
    found[name] = thread
    started.wait()
    done.wait()

for name in NAMES:
    threading.Thread(target=engine, args=(name,)).start()
started.wait()
_prefer_threads_at_work()
print(*(os.getpriority(os.PRIO_PROCESS, found[name]) for name in NAMES), os.getpriority(os.PRIO_PROCESS, 0))
done.set()
"""


def _run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60).stdout


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are found through /proc")
@pytest.mark.parametrize(
    ("names", "priorities"),
    [
        (["TPU_BD", "TPU_GDMA", "TPU_NMS", "CORE_MAIN"], [0, 0, 19, 0, 0]),
        (["one", "other"], [0, 0, 0]),  # a model that names no engine: nothing is known, nothing is changed
    ],
)
def test_engines_that_only_poll_give_way_to_the_threads_at_work(names: list[str], priorities: list[int]) -> None:
    base = int(_run("import os; print(os.getpriority(os.PRIO_PROCESS, 0))"))
    found = [int(text) for text in _run(_ENGINES.format(names=names)).split()]
    assert found == [max(base, priority) if priority else base for priority in priorities]


def test_the_process_of_the_chip_model_imports_no_recipe() -> None:
    code = "import sys, nnkit_tpu.chip_model, nnkit_tpu.bm_model, nnkit_tpu.cvi_model; print(*sys.modules)"
    assert not {"pydantic", "onnx", "onnxruntime", "nnkit.recipe"} & set(_run(code).split())
