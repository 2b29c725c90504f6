"""What a build says of flash, RAM, time and the smallest arena; the C compilers and the plan itself are the truth."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from small_project import write_project
from typer.testing import CliRunner

from nnkit.cli import app
from nnkit.errors import DoesNotFitError, NnkitError

PRECISIONS = ("float32", "int8")
SIZES = """
#include <stdio.h>
#include "small.h"
int main(void)
{
    printf("%lu %lu\\n", (unsigned long)sizeof(small_arena), (unsigned long)SMALL_WEIGHT_BYTES);
    return 0;
}
"""


def run(folder: Path, options: str) -> tuple[int, str]:
    """The exit code, and all that the command prints."""
    recipe = folder / "recipe.yaml"
    text = recipe.read_text() if recipe.exists() else write_project(folder).read_text()
    recipe.write_text(re.sub(r"targets:\n  .*\n", f"targets:\n  ansi_c: {options}\n", text))
    result = CliRunner().invoke(app, ["run", str(recipe), "-o", str(folder / "out")])
    if isinstance(result.exception, NnkitError):
        raise result.exception
    return result.exit_code, result.output


@pytest.fixture(scope="module", params=PRECISIONS)
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    folder = tmp_path_factory.mktemp("footprint")
    code, printed = run(folder, f"{{precision: {request.param}}}")
    assert code == 0, printed
    return folder, printed, request.param


def test_ram_is_what_a_compiler_says_and_a_memory_without_limit_has_no_share(built: tuple[Path, str, str]) -> None:
    folder, printed, precision = built
    build = folder / "out/small/ansi_c"
    (folder / "sizes.c").write_text(SIZES)
    command = ["cc", f"-I{build / 'artifact'}", str(folder / "sizes.c"), "-o", str(folder / "sizes")]
    subprocess.run(command, check=True)
    arena, weights = map(int, subprocess.check_output([folder / "sizes"], text=True).split())
    description = json.loads((build / "artifact/small.json").read_text())
    width = 4 if precision == "float32" else 1
    ports = width * sum(port["values"] for port in (*description["inputs"], *description["outputs"]))
    assert (
        f"RAM      {arena:,} B of working memory + {ports:,} B of inputs and outputs = {arena + ports:,} B" in printed
    )
    assert f"flash    {weights:,} B of weights" in printed
    assert "100.0" not in printed
    assert "%" not in next(line for line in printed.splitlines() if line.startswith("  arena "))


def test_code_is_what_the_cross_compiler_makes(built: tuple[Path, str, str]) -> None:
    if shutil.which("arm-none-eabi-gcc") is None:
        pytest.skip("arm-none-eabi-gcc is not installed")
    folder, printed, _ = built
    build = folder / "out/small/ansi_c"
    measured = json.loads((build / "run.json").read_text())["code_bytes"]["cortex-m4"]
    assert f"+ {measured:,} B of code on cortex-m4" in printed
    whole = 0
    description = json.loads((build / "artifact/small.json").read_text())
    for source in description["sources"]:
        flags = ["-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16", "-std=c99", "-O3"]
        command = ["arm-none-eabi-gcc", *flags, "-ffp-contract=fast", "-c", source, "-o", str(folder / "object.o")]
        subprocess.run(command, cwd=build / "artifact", check=True)
        row = subprocess.check_output(["arm-none-eabi-size", folder / "object.o"], text=True).splitlines()[1].split()
        whole += int(row[0]) + int(row[1])
    # What nothing calls is left out by the linker, so it may be less, but not by much.
    assert 0.5 * whole < measured <= whole


def test_the_smallest_arena_is_one_that_does_and_what_is_below_it_is_refused(built: tuple[Path, str, str]) -> None:
    folder, printed, precision = built
    found = re.search(r"arena: (\d+)$", printed, re.MULTILINE)
    assert found, printed
    smallest = int(found.group(1))
    page = (folder / "out/small/ansi_c/report.html").read_text()
    assert f"in stripes of rows {smallest:,} B would do" in page
    assert "no plan takes less" not in page
    code, printed = run(folder, f"{{precision: {precision}, arena: {smallest}}}")
    assert code == 0, printed
    with pytest.raises(DoesNotFitError) as error:
        run(folder, f"{{precision: {precision}, arena: {smallest - 4}}}")
    assert f"the smallest arena that was found takes {smallest:,} bytes (its first" in error.value.reason
    assert "4 more than `arena` allows; the peak is at layer" in error.value.reason


def test_time_is_cycles_at_the_stated_clock_and_the_page_says_cpu(tmp_path: Path) -> None:
    code, printed = run(tmp_path, "{precision: int8, clock_mhz: 0.001}")
    assert code == 0, printed
    report = json.loads((tmp_path / "out/small/ansi_c/report.json").read_text())
    cycles = report["details"]["estimated_cycles"]["cortex-m4"]["cycles"]
    assert cycles > 1000
    assert f"time     about {cycles:,} ms on cortex-m4 at 0.001 MHz" in printed
    page = (tmp_path / "out/small/ansi_c/report.html").read_text()
    assert "on any microcontroller" in page
    assert '<span class="tag place-npu">CPU</span>' in page
    assert ">NPU<" not in page
