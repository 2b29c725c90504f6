"""The stages on the float graph through the cache: what is reused, and what makes a stage run again."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from PIL import Image
from small_project import make_build, write_project

from nnkit import stages
from nnkit.cache import StageCache
from nnkit.calibrate.stats import CalibrationStats
from nnkit.stages import Imported, Restructured

STAGES = ("import", "restructure", "calibrate")


@dataclass(frozen=True)
class Ran:
    """One pass over the cached stages: which came from the cache, and their results."""

    cached: dict[str, bool]
    imported: Imported
    restructured: Restructured
    statistics: CalibrationStats

    def digests(self) -> tuple[object, ...]:
        return (
            *(self.imported.model.digest, self.imported.notes),
            *(self.restructured.model.digest, self.restructured.log.report()),
            self.statistics.digest,
        )


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose cache holds one run."""
    folder = tmp_path_factory.mktemp("cached")
    write_project(folder)
    assert set(passed(folder).cached.values()) == {False}
    return folder


@pytest.fixture
def project(template: Path, tmp_path: Path) -> Path:
    """A copy of it, at another place."""
    return shutil.copytree(template, tmp_path / "copy")


def passed(folder: Path, *, use_cache: bool = True) -> Ran:
    cache = StageCache(folder / "cache") if use_cache else StageCache.disabled()
    build = make_build(folder / "recipe.yaml", cache)
    imported = stages.import_model(build)
    restructured = stages.restructure(build, imported)
    statistics = stages.calibrate(build, restructured)
    assert build.cache.notes == ()
    timings = {timing.name: timing.cached for timing in build.progress.timings}
    assert tuple(timings) == STAGES
    return Ran(timings, imported, restructured, statistics)


def edit(folder: Path, *replacements: tuple[str, str]) -> None:
    text = (folder / "recipe.yaml").read_text()
    for old, new in replacements:
        assert old in text
        text = text.replace(old, new)
    (folder / "recipe.yaml").write_text(text)


def test_a_second_run_is_cached_also_from_another_folder_and_gives_the_same(project: Path) -> None:
    warm, cold = passed(project), passed(project, use_cache=False)
    assert warm.cached == dict.fromkeys(STAGES, True)
    assert cold.cached == dict.fromkeys(STAGES, False)
    assert warm.digests() == cold.digests()


def test_no_cache_neither_reads_nor_writes(project: Path) -> None:
    before = sorted((project / "cache").rglob("*"))
    edit(project, ("resize:", "flip: true, resize:"))
    for _ in range(2):
        assert not any(passed(project, use_cache=False).cached.values())
    assert sorted((project / "cache").rglob("*")) == before


def change_pixel(folder: Path) -> None:
    pixels = np.asarray(Image.open(folder / "images/1.png")).copy()
    pixels[0, 0] ^= 128
    Image.fromarray(pixels).save(folder / "images/1.png")


def add_image(folder: Path) -> None:
    Image.fromarray(np.zeros((40, 40), np.uint8)).save(folder / "images/9.png")


def remove_image(folder: Path) -> None:
    (folder / "images/2.png").unlink()


def change_weight(folder: Path) -> None:
    model = onnx.load(folder / "net.onnx")
    tensor = next(t for t in model.graph.initializer if len(t.dims) == 4)
    tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) * np.float32(1.5), tensor.name))
    onnx.save(model, folder / "net.onnx")


def rename_layer(folder: Path) -> None:
    model = onnx.load(folder / "net.onnx")
    model.graph.node[0].name = "stem_hp"
    onnx.save(model, folder / "net.onnx")


def recipe_change(*replacements: tuple[str, str]) -> Callable[[Path], None]:
    return lambda folder: edit(folder, *replacements)


CALIBRATION = ("release:", "calibration: {method: percentile}\nrelease:")
FEWER_RULES = ("release:", "restructure: [remove_identity]\nrelease:")


@pytest.mark.parametrize(
    ("change", "again"),
    [
        (change_pixel, "calibrate"),
        (add_image, "calibrate"),
        (remove_image, "calibrate"),
        (recipe_change(("resize:", "flip: true, resize:")), "calibrate"),
        (recipe_change(("resize:", "mean: 3, resize:")), "calibrate"),
        (recipe_change(CALIBRATION), "calibrate"),
        (recipe_change(FEWER_RULES), "restructure"),
        (recipe_change(("gap8: {}", "gap8: {restructure: [remove_identity]}")), "restructure"),
        (recipe_change(("release:", "tags: {hp: [conv1]}\nrelease:")), "import"),
        (recipe_change(("gap8: {}", "gap8: {tags: {cpu: [relu3]}}")), "import"),
        (recipe_change(("  path: net.onnx", "  path: net.onnx\n  simplify: false")), "import"),
        (change_weight, "import"),
        (rename_layer, "import"),
    ],
    ids=[
        *("a pixel", "an image more", "an image less", "flip", "mean", "method", "rules", "rules of the target"),
        *("a tag", "a tag of the target", "simplify", "a weight", "a tagged name"),
    ],
)
def test_what_changed_runs_again_and_the_result_is_that_of_a_cold_run(
    change: Callable[[Path], None], again: str, project: Path
) -> None:
    change(project)
    warm = passed(project)
    first = STAGES.index(again)
    for stage in STAGES[:first]:
        assert warm.cached[stage], stage
    assert not warm.cached[again]
    assert warm.digests() == passed(project, use_cache=False).digests()
    assert passed(project).cached == dict.fromkeys(STAGES, True)


@pytest.mark.parametrize(
    "replacement",
    [
        ("version: 1.2.3", "version: 1.2.4"),
        ("name: small", "name: other"),
        ("cosine: 0.99", "cosine: 0.9"),
        ("gap8: {}", "gap8: {precision: int8, cores: 3, memory: {l2: 256KiB}}"),
        ("release:", "# a comment\nrelease:"),
    ],
)
def test_what_a_stage_does_not_depend_on_leaves_it_alone(replacement: tuple[str, str], project: Path) -> None:
    edit(project, replacement)
    assert passed(project).cached == dict.fromkeys(STAGES, True)


def test_a_renamed_image_is_the_same_image(project: Path) -> None:
    (project / "images/2.png").rename(project / "images/7.png")
    assert passed(project).cached["calibrate"]


def test_a_damaged_entry_is_computed_anew(project: Path) -> None:
    expected = passed(project).digests()
    for entry in (project / "cache").rglob("*.entry"):
        data = bytearray(entry.read_bytes())
        data[-1] ^= 1
        entry.write_bytes(bytes(data))
    ran = passed(project)
    assert not any(ran.cached.values())
    assert ran.digests() == expected
    assert all(passed(project).cached.values())


def test_other_code_of_a_stage_is_another_key(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretended: the digest of the sources differs, as after an update of nnkit."""
    from nnkit import cache

    original = cache.source_digest
    monkeypatch.setattr(cache, "source_digest", lambda modules: original(modules) + "x")
    assert not any(passed(project).cached.values())


def test_a_pinned_table_is_read_and_not_cached(project: Path) -> None:
    from nnkit.calibrate import write_table

    write_table(passed(project).statistics, project / "table.yaml")
    edit(project, ("release:", "calibration: {table: table.yaml}\nrelease:"))
    for _ in range(2):
        ran = passed(project)
        assert ran.cached == {"import": True, "restructure": True, "calibrate": False}
        assert ran.statistics.method == "table"
