"""An order of the stages that makes no sense does not type-check."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent

SENSELESS = {
    "calibrated before it is lowered": "stages.calibrate(build, restructured)",
    "lowered before it is restructured": "stages.lower(build, imported)",
    "chosen before it is calibrated": "stages.choose_method(build, lowered, restructured)",
    "searched before it is lowered": "stages.choose_precision(build, restructured, restructured, statistics)",
    "searched before it is calibrated": "stages.choose_precision(build, restructured, lowered, restructured)",
    "quantised before its precision is settled": "stages.quantize(build, lowered, statistics)",
    "planned before it is quantised": "stages.plan(build, settled, statistics, settled)",
    "emitted before it is planned": "stages.emit(build, settled, statistics, program, program, folder)",
    "verified before it is emitted": "stages.verify(build, restructured, program)",
    "reported before it is verified": "stages.Outcome(imported, restructured, settled, artifact, artifact)",
}
IN_ORDER = """\
from pathlib import Path

from nnkit import stages


def run(build: stages.Build, folder: Path) -> None:
    imported = stages.import_model(build)
    restructured = stages.restructure(build, imported)
    lowered = stages.lower(build, restructured)
    statistics = stages.choose_method(build, lowered, stages.calibrate(build, lowered))
    settled = stages.choose_precision(build, restructured, lowered, statistics)
    program = stages.quantize(build, settled, statistics)
    plan = stages.plan(build, settled, statistics, program)
    artifact = stages.emit(build, settled, statistics, program, plan, folder)
    verdict = stages.verify(build, restructured, artifact)
    stages.report(build, stages.Outcome(imported, restructured, settled, artifact, verdict))
"""


def test_each_senseless_call_is_an_error_and_the_pipeline_is_none(tmp_path: Path) -> None:
    source = tmp_path / "order.py"
    source.write_text(IN_ORDER + "".join(f"    {call}\n" for call in SENSELESS.values()), encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), str(source)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    wrong = {int(line) for line in re.findall(r"order\.py:(\d+): error: .*\[(?:arg-type|call-arg)\]", done.stdout)}
    first = len(IN_ORDER.splitlines()) + 1
    assert wrong == set(range(first, first + len(SENSELESS))), done.stdout + done.stderr
