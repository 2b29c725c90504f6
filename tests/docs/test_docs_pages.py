"""What the pages for users list is what the code has; every link leads somewhere; their C compiles."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import typer

from nnkit.c.postprocess.emit import emit_postprocess
from nnkit.cli import app
from nnkit.package.evidence import EVIDENCE
from nnkit.package.manifest import Manifest
from nnkit.package.provenance import PROVENANCE_NAME, SBOM_NAME
from nnkit.postprocess import (
    ArgMax,
    DescriptorMatch,
    Detections,
    FaceCrop,
    L2Normalize,
    Numbers,
    PcaCombine,
    Softmax,
    Stage,
    TopK,
    Yolo,
    YoloHead,
)
from nnkit.program import Fixed
from nnkit.quantize.float_builders import BUILDERS
from nnkit.recipe.cpu_stages import DescriptorMatch as MatchSection
from nnkit.recipe.cpu_stages import FaceCrop as CropSection
from nnkit.target import load_target

REPOSITORY = Path(__file__).resolve().parents[2]
DOCS = REPOSITORY / "docs"
PAGES = [REPOSITORY / "README.md", *sorted(DOCS.rglob("*.md"))]


def read(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def section(text: str, title: str) -> str:
    """The text below a heading, up to the next one of its level or above."""
    match = re.search(rf"^(#+) {re.escape(title)}\n(.*?)(?=^#{{1,2}} |\Z)", text, re.MULTILINE | re.DOTALL)
    assert match, title
    return match[2]


def rows(text: str) -> list[list[str]]:
    """Cells of all table rows, without headings."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    rules = {index for index, row in enumerate(cells) if set(row[0]) <= set("-:")}
    return [row for index, row in enumerate(cells) if index not in rules and index + 1 not in rules]


def code(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def anchors(page: Path) -> set[str]:
    """Anchors as GitHub makes them from headings, and explicit ones."""
    text = page.read_text(encoding="utf-8")
    headings = re.findall(
        r"^#+ (.+)$", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE
    )
    made = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return made | set(re.findall(r'<a id="([^"]+)">', text))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(REPOSITORY).as_posix())
def test_relative_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


def test_every_path_on_the_page_of_operators_exists() -> None:
    text = read("adding_an_operator.md")
    paths = re.findall(r"`((?:nnkit|tests)/[^`<]*)`", text)
    assert len(paths) > 10
    assert [path for path in paths if not (DOCS.parent / path).exists()] == []
    listing = text.split("```")[1].split("\n", 2)[2]
    names = set(re.findall(r"\w+(?:\.c|\.h)?\.(?:py|j2|h)\b", listing))
    folder = DOCS.parent / "nnkit" / "c" / "fixed"
    assert names == {path.name for path in folder.iterdir() if path.suffix in (".py", ".j2", ".h")} - {"__init__.py"}


def test_the_index_lists_every_page() -> None:
    listed = set(re.findall(r"\]\(([^)#]+\.md)\)", read("README.md")))
    assert listed == {page.name for page in DOCS.glob("*.md")} - {"README.md"}


def commands(group: Any, prefix: str = "nnkit") -> dict[str, Any]:
    found = {}
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            found |= commands(command, f"{prefix} {name}")
        else:
            found[f"{prefix} {name}"] = command
    return found


def options(command: Any) -> dict[str, list[str]]:
    """Long name -> all names."""
    return {
        next(name for name in parameter.opts if name.startswith("--")): list(parameter.opts)
        for parameter in command.params
        if parameter.param_type_name == "option" and "--help" not in parameter.opts
    }


COMMANDS = commands(typer.main.get_command(app))


def test_the_command_line_page_lists_every_command_with_its_arguments() -> None:
    page = read("command_line.md")
    listed = [code(row[0])[0] for row in rows(page) if row[0].startswith("`nnkit ")]
    expected = []
    for name, command in COMMANDS.items():
        arguments = [p.metavar or p.name or "" for p in command.params if p.param_type_name == "argument"]
        expected.append(" ".join([name, *arguments]))
    assert sorted(listed) == sorted(expected)


@pytest.mark.parametrize("command", ["nnkit run", "nnkit plan", "nnkit simulate"])
def test_the_command_line_page_lists_every_option(command: str) -> None:
    listed = {}
    for row in rows(section(read("command_line.md"), command)):
        names = [name.split()[0] for name in code(row[0])]
        listed[names[0]] = names
    assert listed == options(COMMANDS[command])


def test_the_command_line_page_names_the_options_of_the_other_commands() -> None:
    page = read("command_line.md")
    for name, command in COMMANDS.items():
        for option in options(command):
            assert f"`{option}" in page or f"{option}`" in page, (name, option)
    others = {name: set(options(c)) for name, c in COMMANDS.items() if not name.startswith("nnkit package")}
    assert others["nnkit compare"] == {"--json", "--dumps"}
    assert [others[f"nnkit {name}"] for name in ("targets list", "targets show")] == [{"--json"}] * 2
    assert others["nnkit check"] == {"--json", "--target", "--images", "--shape", "--set", "--fix", "--watch"}
    assert others["nnkit doctor"] == {"--json", "--install"}
    assert others["nnkit schema"] == {"--report"}
    listed = [(code(row[0])[0].split()[0], code(row[1])) for row in rows(section(page, "nnkit package"))]
    packages = {name.split()[-1]: set(options(c)) for name, c in COMMANDS.items() if name.startswith("nnkit package")}
    for option, of in listed:
        assert {name for name, known in packages.items() if option in known} == (set(of) or set(packages))
    assert set().union(*packages.values()) == {option for option, _ in listed}


def test_the_gap8_page_holds_exactly_the_limits_of_the_code() -> None:
    listed = re.findall(r"^- (.+)$", section(read("gap8.md"), "Limits"), re.MULTILINE)
    assert tuple(listed) == load_target("gap8").limits()


def test_the_gap8_page_lists_exactly_the_operators_that_are_taken() -> None:
    listed = [name for row in rows(section(read("gap8.md"), "Operators")) for name in code(row[0])]
    assert sorted(listed) == sorted(BUILDERS)


def test_the_gap8_page_names_every_option_and_region() -> None:
    page, target = read("gap8.md"), load_target("gap8")
    own = set(target.options.model_fields) - set(target.options.__base__.model_fields)  # type: ignore[union-attr]
    named = {name.split(":")[0] for name in code(section(page, "Options"))}
    assert own - {"memory"} <= named
    regions = {code(row[0])[0]: row[1] for row in rows(section(page, "Memory"))}
    units = {"KiB": 1 << 10, "MiB": 1 << 20}
    sizes = {name: int(text.split()[0]) * units[text.split()[1]] for name, text in regions.items()}
    machine = target.machine(target.options())
    assert sizes == {region.name: region.capacity_bytes for region in machine.regions}


def test_the_gap8_page_says_what_is_reserved() -> None:
    from nnkit_gap8.emit import CONTEXT_BYTES, STACK_BYTES

    row = next(row for row in rows(section(read("gap8.md"), "Memory")) if "l2" in row[0])
    assert f"context ({CONTEXT_BYTES} bytes)" in row[2]
    assert f"stack ({STACK_BYTES:,} bytes)" in row[2]


@pytest.mark.parametrize(("kind", "model"), [("face_crop", CropSection), ("match", MatchSection)])
def test_the_cpu_side_page_lists_every_key_with_its_default(kind: str, model: Any) -> None:
    page = read("cpu_side.md")
    table = page[page.index(f"| key of `{kind}`") :].split("\n\n")[0]
    listed = {code(row[0])[0]: row[2].strip("`") for row in rows(table)}
    fields = {name: field for name, field in model.model_fields.items() if name != "kind"}
    assert list(listed) == list(fields)
    for name, field in fields.items():
        if field.is_required():
            assert listed[name] == "required"
        elif field.default is not None:
            assert listed[name] == str(field.default).lower()


def test_the_cpu_side_page_lists_the_return_codes_of_the_header() -> None:
    header = (REPOSITORY / "nnkit/c/postprocess/nnkit_postprocess.h").read_text(encoding="utf-8")
    defined = dict(re.findall(r"^#define (NNKIT_(?:OK|ERROR_\w+)) \(?(-?\d+)\)?", header, re.MULTILINE))
    listed = {code(row[0])[0]: row[1] for row in rows(section(read("cpu_side.md"), "Return codes"))}
    assert listed == defined


def test_the_c_of_the_cpu_side_page_compiles(tmp_path: Path) -> None:
    crop, combine, match, detect, yolo, words = re.findall(
        r"^```c\n(.*?)^```$", read("cpu_side.md"), re.MULTILINE | re.DOTALL
    )
    stages: list[Stage] = [
        FaceCrop(128),
        PcaCombine(64, 32, Fixed(32, 12)),
        DescriptorMatch(512, Fixed(16, 8), 16, 10.5),
    ]
    stored = Numbers(8, True, 0.1)
    boxes = (0.1, 0.1, 0.2, 0.2)
    stages.append(Detections("nms", "corners", 20, 3, stored, stored, boxes, 0.5, 0.45, 20, 9))
    stages += [Softmax(1, 9, stored), ArgMax(1, 9, stored), TopK(1, 9, stored, 3), L2Normalize(1, 9, stored)]
    head = YoloHead(0, 2, 2, ((4096, 4096),))
    stages.append(Yolo("v5", (head,), 3, (stored,), 0.3, 0.45, 9, 9))
    emit_postprocess(stages, tmp_path)
    (tmp_path / "use.c").write_text(
        '#include "nnkit_face_crop.h"\n#include "nnkit_match.h"\n#include "nnkit_pca_combine.h"\n'
        '#include "nnkit_detect.h"\n#include "nnkit_yolo.h"\n#include "nnkit_scores.h"\n'
        "int crop(nnkit_u8 *pixels, int x, int y, int width, int height, nnkit_i16 *image);\n"
        "int crop(nnkit_u8 *pixels, int x, int y, int width, int height, nnkit_i16 *image)\n"
        f"{{\nint status;\n{crop}\nreturn status;\n}}\n"
        "int combine(nnkit_i32 *left, nnkit_i32 *right, float *feature);\n"
        "int combine(nnkit_i32 *left, nnkit_i32 *right, float *feature)\n"
        f"{{\nint status;\n{combine}\nreturn status;\n}}\n"
        "int compare(nnkit_i16 *descriptor);\n"
        f"int compare(nnkit_i16 *descriptor)\n{{\nint status;\n{match}\nreturn status + match.known;\n}}\n"
        "int boxes(nnkit_i8 *location, nnkit_i8 *scores);\n"
        f"int boxes(nnkit_i8 *location, nnkit_i8 *scores)\n{{\nint status;\n{detect}\nreturn status;\n}}\n"
        "int rows(nnkit_i8 *rows_of_map);\n"
        f"int rows(nnkit_i8 *rows_of_map)\n{{\nint status;\n{yolo}\nreturn status;\n}}\n"
        "void words(nnkit_i8 *values, float *probabilities, float *unit, nnkit_u32 *indices);\n"
        "void words(nnkit_i8 *values, float *probabilities, float *unit, nnkit_u32 *indices)\n"
        f"{{\n{words}\n}}\n"
    )
    command = ["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-c", "use.c", "-o", "use.o"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_packages_page_lists_what_is_packed_and_what_the_manifest_holds() -> None:
    page = read("packages.md")
    listed = {name for row in rows(section(page, "What is in it")) for name in code(row[0])}
    assert listed == {*EVIDENCE, "manifest.json", "artifact/", "networks/NAME/", PROVENANCE_NAME, SBOM_NAME}
    text = section(page, "What is in it")
    named = code(text[text.index("The manifest holds") :])
    assert {*Manifest.__dataclass_fields__, "format", "digest"} <= set(named)


def test_the_page_on_targets_names_every_attribute_of_the_protocol() -> None:
    from nnkit.target import FixedPointTarget, Target

    names = [name for base in (Target, FixedPointTarget) for name in (*base.__annotations__, *vars(base))]
    wanted = {name for name in names if not name.startswith("_")}
    listed = {name.split("(")[0] for row in rows(read("writing_a_target.md")) for name in code(row[0])}
    assert listed == wanted


def test_the_published_page_of_calibration_tables_shows_the_form_that_is_written(tmp_path: Path) -> None:
    """Every key of the example is a key of a written table, and the other way round."""
    from nnkit.calibrate import CalibrationStats, write_table
    from nnkit.calibrate.stats import ValueRange

    (example,) = [
        b for b in re.findall(r"^```yaml\n(.*?)^```$", read("calibration.md"), re.M | re.S) if "values:" in b
    ]
    ranges = {"image": ValueRange(0.0, 255.0, 0.0, 255.0)}
    write_table(CalibrationStats(ranges, "max", 100, "3f8a"), tmp_path / "table.yaml")
    written = (tmp_path / "table.yaml").read_text(encoding="utf-8")

    def keys(text: str) -> set[str]:
        return set(re.findall(r"(?:^|[{,] ?)\s*([a-z_]+):", re.sub(r"^#.*$", "", text, flags=re.M), re.M))

    assert keys(example) == keys(written)
