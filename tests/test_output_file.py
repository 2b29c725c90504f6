"""One writer: no link is followed below a folder that was sent, and a file is replaced whole or not at all."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nnkit.errors import UserFileError
from nnkit.output_file import make_folder, new_file, write_output

REPOSITORY = Path(__file__).resolve().parents[1]


@pytest.fixture
def sent(tmp_path: Path) -> Path:
    """A folder with `inner`, and beside it `outside`, with the file `mine`."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/mine").write_text("mine")
    (tmp_path / "sent/inner").mkdir(parents=True)
    return tmp_path / "sent"


def listing(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def test_a_file_is_written_and_replaced(sent: Path) -> None:
    path = sent / "inner/new/page"
    write_output(path, "one", sent=[sent])
    path.chmod(0o640)
    write_output(path, b"two", sent=[sent])
    assert path.read_bytes() == b"two"
    assert path.stat().st_mode & 0o777 == 0o640
    assert listing(sent) == ["inner", "inner/new", "inner/new/page"]


def test_a_file_that_fails_leaves_what_was_there(sent: Path) -> None:
    (sent / "page").write_text("old")
    with pytest.raises(TypeError), new_file(sent / "page") as stream:
        stream.writelines([b"half", "no bytes"])  # type: ignore[list-item]
    assert (sent / "page").read_text() == "old"
    assert listing(sent) == ["inner", "page"]


@pytest.mark.parametrize("leads_to", ["../outside/mine", "../outside/none", "page"])
def test_a_link_in_place_of_the_file_is_refused(sent: Path, leads_to: str) -> None:
    (sent / "page").symlink_to(leads_to)
    for below in ([sent], []):
        with pytest.raises(UserFileError, match=f"is a link to {leads_to}") as caught:
            write_output(sent / "page", "new", sent=below)
        assert caught.value.where == str(sent / "page")
        assert "remove the link" in caught.value.remedy
    assert listing(sent.parent / "outside") == ["mine"]
    assert (sent.parent / "outside/mine").read_text() == "mine"


@pytest.mark.parametrize("place", ["link", "link/deep", "inner/link", "inner/link/deep", "link/../inner/link"])
def test_a_link_in_place_of_a_folder_is_refused_at_every_depth(sent: Path, place: str) -> None:
    for link in ("link", "inner/link"):
        (sent / link).symlink_to(sent.parent / "outside")
    with pytest.raises(UserFileError, match="is a link to"):
        write_output(sent / place / "mine", "new", sent=[sent])
    with pytest.raises(UserFileError, match="is a link to"):
        make_folder(sent / place / "folder", sent=[sent])
    assert listing(sent.parent / "outside") == ["mine"]
    assert (sent.parent / "outside/mine").read_text() == "mine"


@pytest.mark.parametrize("folder", [".", "inner"])
def test_a_name_from_within_is_held_to_the_folder_as_well(
    sent: Path, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (sent / "inner/link").symlink_to(sent.parent / "outside")
    monkeypatch.chdir(sent / folder)
    inside = Path(os.path.relpath(sent / "inner/link", sent / folder))
    with pytest.raises(UserFileError, match="is a link to"):
        write_output(inside / "mine", "new", sent=[sent])
    assert (sent.parent / "outside/mine").read_text() == "mine"


def test_links_that_the_user_names_are_followed_up_to_the_folder(sent: Path) -> None:
    (sent.parent / "mine").symlink_to(sent)
    write_output(sent.parent / "mine/inner/page", "new", sent=[sent])
    assert (sent / "inner/page").read_text() == "new"


def test_another_name_of_the_same_file_keeps_its_content(sent: Path) -> None:
    os.link(sent.parent / "outside/mine", sent / "page")
    write_output(sent / "page", "new", sent=[sent])
    assert (sent / "page").read_text() == "new"
    assert (sent.parent / "outside/mine").read_text() == "mine"


def test_a_pipe_is_not_waited_for_and_a_folder_not_replaced(sent: Path) -> None:
    os.mkfifo(sent / "pipe")
    with pytest.raises(UserFileError, match="is a device or a pipe"):
        write_output(sent / "pipe", "new")
    assert (sent / "pipe").is_fifo()
    with pytest.raises(UserFileError, match="Is a directory"):
        write_output(sent / "inner", "new")
    assert listing(sent) == ["inner", "pipe"]


MADE_BY_THE_RUN = "a folder that the run has just made"
TEMPORARY = "a temporary folder of this process"
OF_THE_USER = "a folder of this user alone, checked by nnkit.trust or made with mode 700"
STREAM = "a stream, of nnkit.output_file or in memory"
NAMED = "a file of a developer's own, named to a function that no command calls"

OTHER_WRITERS = {
    "nnkit/boards/objects.py": TEMPORARY,
    "nnkit/boards/serial_line.py": "a serial port",
    "nnkit/commands/simulate.py": STREAM,
    "nnkit/cpu_segments/run.py": TEMPORARY,
    "nnkit/deployed/session.py": "people enrolled, in memory",
    "nnkit/deployment/pictures.py": MADE_BY_THE_RUN,
    "nnkit/deployment/report.py": MADE_BY_THE_RUN,
    "nnkit/external_tool.py": TEMPORARY,
    "nnkit/generated.py": MADE_BY_THE_RUN,
    "nnkit/graph/weights_aside.py": TEMPORARY,
    "nnkit/importers/tool_process.py": TEMPORARY,
    "nnkit/importers/tool_worker.py": TEMPORARY,
    "nnkit/output_file.py": "the writer",
    "nnkit/owned_folder.py": "lock files, made anew",
    "nnkit/package/archive.py": MADE_BY_THE_RUN,
    "nnkit/quantize/affine/spool.py": TEMPORARY,
    "nnkit/recipe/reference.py": NAMED,
    "nnkit/report/build.py": MADE_BY_THE_RUN,
    "nnkit/report/journal.py": TEMPORARY,
    "nnkit/report/page_data.py": MADE_BY_THE_RUN,
    "nnkit/rewrite/pca.py": NAMED,
    "nnkit/serve/control_group.py": "the kernel's control groups",
    "nnkit/serve/store.py": OF_THE_USER,
    "nnkit/serve/supervisor.py": OF_THE_USER,
    "nnkit/serve/uploads.py": OF_THE_USER,
    "nnkit/serve/users.py": OF_THE_USER,
    "nnkit/serve/worker.py": OF_THE_USER,
    "nnkit/stages/report_stage.py": MADE_BY_THE_RUN,
    "nnkit/terminal.py": "the null device",
    "nnkit/trust/private_folder.py": OF_THE_USER,
    "nnkit/verify/detection_pictures.py": MADE_BY_THE_RUN,
    "nnkit/verify/store.py": MADE_BY_THE_RUN,
    "targets/nnkit_ansi_c/board_runner.py": TEMPORARY,
    "targets/nnkit_ansi_c/integer_runner.py": TEMPORARY,
    "targets/nnkit_ansi_c/runner.py": TEMPORARY,
    "targets/nnkit_gap8/deployment/runners.py": TEMPORARY,
    "targets/nnkit_gap8/gvsoc_runner.py": TEMPORARY,
    "targets/nnkit_gap8/runners.py": TEMPORARY,
    "targets/nnkit_nnie/board/testcases.py": MADE_BY_THE_RUN,
    "targets/nnkit_nnie/emit.py": MADE_BY_THE_RUN,
    "targets/nnkit_nnie/mapper/calibration_images.py": MADE_BY_THE_RUN,
    "targets/nnkit_nnie/mapper/network_files.py": MADE_BY_THE_RUN,
    "targets/nnkit_nnie/mapper/run.py": TEMPORARY,
    "targets/nnkit_nnie/stn/run.py": NAMED,
    "targets/nnkit_onnx_qdq/target.py": MADE_BY_THE_RUN,
    "targets/nnkit_tpu/chip_model.py": TEMPORARY,
    "targets/nnkit_tpu/combined.py": TEMPORARY,
    "targets/nnkit_tpu/compile.py": TEMPORARY,
    "targets/nnkit_tpu/emit.py": MADE_BY_THE_RUN,
    "targets/nnkit_tpu/layer_group/injection.py": TEMPORARY,
    "targets/nnkit_tpu/release.py": MADE_BY_THE_RUN,
    "targets/nnkit_tpu/toolchain/install.py": OF_THE_USER,
    "targets/nnkit_tpu/toolchain/run.py": TEMPORARY,
    "targets/nnkit_tpu/toolchain/workspace.py": OF_THE_USER,
    "targets/nnkit_tpu/traced.py": MADE_BY_THE_RUN,
}
"""Files with a function that writes and is not the one writer, and why they may: what they write into."""

_WRITING = {
    *("write_text", "write_bytes", "touch", "tofile", "savez", "savez_compressed", "savetxt", "save"),
    *("symlink_to", "hardlink_to", "copyfile", "copy2", "copytree"),
}


def _writes(call: ast.Call) -> bool:
    function = call.func
    owner = function.value if isinstance(function, ast.Attribute) else None
    owner_name = owner.id if isinstance(owner, ast.Name) else ""
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if name == "open" and owner_name == "os":
        flags = {each.attr for each in ast.walk(call) if isinstance(each, ast.Attribute)}
        return bool(flags & {"O_WRONLY", "O_RDWR", "O_CREAT"})
    if name == "open":
        texts = [each.value for each in ast.walk(call) if isinstance(each, ast.Constant)]
        return any(
            isinstance(text, str) and set("wxa+") & set(text) and set(text) <= set("wxart+b") for text in texts
        )
    return (name in _WRITING and bool(call.args or call.keywords)) or (
        owner_name == "shutil" and name in {"copy", "move"}
    )


def _files_that_write(where: Path) -> Iterator[str]:
    for root in ("nnkit", "targets"):
        for path in (where / root).rglob("*.py"):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            if any(isinstance(node, ast.Call) and _writes(node) for node in ast.walk(tree)):
                yield path.relative_to(where).as_posix()


def test_nothing_else_writes_into_folders_that_somebody_may_have_sent() -> None:
    """A file that is new here either uses `nnkit.output_file`, or writes only where nothing of others can lie."""
    assert sorted(_files_that_write(REPOSITORY)) == sorted(OTHER_WRITERS)


@pytest.mark.parametrize(
    "statement",
    [
        "path.write_text('x')",
        "path.open('w')",
        "open(path, mode='ab')",
        "os.open(path, os.O_WRONLY | os.O_CREAT)",
        "shutil.copy(a, b)",
        "np.save(path, x)",
        "picture.save(path, optimize=True)",
    ],
)
def test_every_way_to_write_is_seen(tmp_path: Path, statement: str) -> None:
    (tmp_path / "nnkit").mkdir()
    (tmp_path / "nnkit/new.py").write_text(f"def run():\n    {statement}\n")
    assert list(_files_that_write(tmp_path)) == ["nnkit/new.py"]


READS: list[Callable[[str], str]] = [lambda name: f"{name}.open('rb')", lambda name: f"open({name})"]


@pytest.mark.parametrize("statement", READS)
def test_reading_is_not_writing(tmp_path: Path, statement: Callable[[str], str]) -> None:
    (tmp_path / "nnkit").mkdir()
    (tmp_path / "nnkit/new.py").write_text(statement("path"))
    assert list(_files_that_write(tmp_path)) == []
