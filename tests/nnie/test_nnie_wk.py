"""The checks of a compiled network, on a vendor's file and on damaged ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from nnie_wk_files import made

from nnkit.errors import ToolError, UserFileError
from nnkit_nnie.wk.header import check_wk, read_wk


def test_a_real_file(shared_dir: Path):
    found = check_wk(shared_dir / "models" / "enet_cityscapes" / "inst_mnist_cycle.wk", 1, 1)
    assert found.intact
    assert (found.segments, found.size_bytes, found.generation) == (1, 466176, "1.2")


def test_every_changed_byte_of_a_real_file_is_seen(shared_dir: Path, tmp_path: Path):
    data = bytearray((shared_dir / "models" / "enet_cityscapes" / "inst_mnist_cycle.wk").read_bytes())
    for at in (4, 48, 200, 4000, 465743):
        damaged = bytearray(data)
        damaged[at] ^= 0x10
        (tmp_path / "x.wk").write_bytes(damaged)
        assert not read_wk(tmp_path / "x.wk").intact


@pytest.mark.parametrize("count", [(2, 4), (1, 2)])
def test_segments_by_either_count(count: tuple[int, int], tmp_path: Path):
    for segments in count:
        (tmp_path / "x.wk").write_bytes(made(segments))
        assert check_wk(tmp_path / "x.wk", *count).segments == segments
    (tmp_path / "x.wk").write_bytes(made(3))
    with pytest.raises(ToolError, match="made 3 segments"):
        check_wk(tmp_path / "x.wk", *count)


def test_broken_files(tmp_path: Path):
    path = tmp_path / "x.wk"
    with pytest.raises(UserFileError, match="does not exist"):
        read_wk(path)
    path.write_bytes(b"short")
    with pytest.raises(ToolError, match="5 bytes"):
        read_wk(path)
    path.write_text("nnkit: 1\nname: a file of another kind\n" * 9)
    with pytest.raises(ToolError) as caught:
        read_wk(path)
    assert "name the .wk that the mapper wrote" in str(caught.value)
    path.write_bytes(made(1)[:230])
    with pytest.raises(
        ToolError,
        match="no compiled network, or one that is cut off: its header would speak of 440 bytes, it has 230",
    ):
        read_wk(path)
    path.write_bytes(made(1).replace(b"instructions", b"Instructions", 1))
    with pytest.raises(ToolError, match="its checksum is"):
        check_wk(path, 1, 1)
