"""`nnkit validate`: the firmware on emulated boards behind a pseudo-terminal; devices that are silent or others."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from small_project import make_build, write_project
from typer.testing import CliRunner

from nnkit import pipeline
from nnkit.boards import BOARDS, Board, Firmware
from nnkit.cli import app
from nnkit.errors import GateFailedError, ToolError, UsageError

MAIN = """
#include "nnkit_board.h"
#include "small_validate.h"

static int receive(void *port) { (void)port; return nnkit_board_receive(); }
static void send(void *port, unsigned char byte) { (void)port; nnkit_board_send(byte); }

int nnkit_board_main(void)
{
    small_serial serial;
    serial.receive = receive;
    serial.send = send;
    serial.port = 0;
    small_validate(&serial);
    return 0;
}
"""


def built(folder: Path, precision: str) -> Path:
    path = write_project(folder)
    path.write_text(path.read_text().replace("gap8: {}", f"ansi_c: {{precision: {precision}}}"))
    return pipeline.run(make_build(path, target="ansi_c"), folder / "out").folder


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("device"), "float32")


def flashed(board: Board, build: Path, folder: Path) -> Path:
    """The firmware of a build as a program for a board."""
    artifact = build / "artifact"
    record = json.loads((artifact / "small.json").read_text())
    main = folder / "main.c"
    main.write_text(MAIN)
    made = Firmware(board, folder / "made", ("-O2", "-std=c99", "-Wall", "-Werror"), (artifact, artifact / "device"))
    traced = ("-DSMALL_TRACE=small_validate_layer",)
    sources = [artifact / "small.c", artifact / "device/small_validate.c"]
    others = [artifact / each for each in (*record["sources"][1:], record["weights"])]
    objects = [made.object(main), *(made.object(each, traced) for each in sources), *map(made.object, others)]
    return made.link("validate", objects)


@contextmanager
def running(board: Board, elf: Path) -> Iterator[str]:
    """The board behind a pseudo-terminal: the terminal's path."""
    command = board.emulation(str(elf), serial="pty")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    try:
        assert process.stdout is not None
        told = process.stdout.readline().decode()
        found = re.search(r"redirected to (\S+)", told)
        assert found, told
        yield found[1]
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("name", ["cortex-m4", "rv32imac"])
def test_every_layer_comes_back_and_is_compared(build: Path, tmp_path: Path, name: str) -> None:
    board = BOARDS[name]
    if (missing := board.missing()) is not None:
        pytest.skip(missing)
    with running(board, flashed(board, build, tmp_path)) as port:
        done = CliRunner().invoke(app, ["validate", str(build), "--port", port, "--json", "--timeout", "100"])
        assert done.exit_code == 0, done.exception
        told = json.loads(done.stdout)
        assert (told["on"], told["mismatches"], told["contract"]) == ("device", 0, "bounded")
        assert told["values"] > 1000
        again = CliRunner().invoke(app, ["validate", str(build), "--port", port])
        assert "0 of " in again.stdout


def test_integers_come_back_equal(tmp_path: Path) -> None:
    board = BOARDS["cortex-m4"]
    if (missing := board.missing()) is not None:
        pytest.skip(missing)
    integers = built(tmp_path, "int8")
    (tmp_path / "firmware").mkdir()
    with running(board, flashed(board, integers, tmp_path / "firmware")) as port:
        done = CliRunner().invoke(app, ["validate", str(integers), "--port", port, "--json"])
    assert done.exit_code == 0, done.exception
    told = json.loads(done.stdout)
    assert (told["contract"], told["mismatches"]) == ("exact", 0)
    assert told["values"] > 1000


def test_a_device_that_computes_otherwise_or_has_another_build(build: Path, tmp_path: Path) -> None:
    board = BOARDS["cortex-m4"]
    if (missing := board.missing()) is not None:
        pytest.skip(missing)
    weights = build / "artifact/small_weights.bin"
    content = weights.read_bytes()
    weights.write_bytes(content[:3] + b"\x44" + content[4:])
    elf = flashed(board, build, tmp_path)
    weights.write_bytes(content)
    with running(board, elf) as port:
        done = CliRunner().invoke(app, ["validate", str(build), "--port", port])
    assert isinstance(done.exception, GateFailedError)
    assert "layer " in str(done.exception)
    record = build / "artifact/small.json"
    text = record.read_text()
    record.write_text(json.dumps(json.loads(text) | {"id": 1}))
    with running(board, elf) as port:
        done = CliRunner().invoke(app, ["validate", str(build), "--port", port])
    record.write_text(text)
    assert isinstance(done.exception, ToolError)
    assert "this build is 00000001" in str(done.exception)


def test_ports_that_are_none_or_silent(build: Path, tmp_path: Path) -> None:
    host, device = os.openpty()
    port = os.ttyname(device)
    done = CliRunner().invoke(app, ["validate", str(build), "--port", port, "--timeout", "0.2"])
    os.close(host)
    os.close(device)
    assert isinstance(done.exception, ToolError)
    assert "silent for 0.2 s" in str(done.exception)
    (tmp_path / "file").write_text("no port")
    done = CliRunner().invoke(app, ["validate", str(build), "--port", str(tmp_path / "file")])
    assert "this is no serial port" in str(done.exception)
    done = CliRunner().invoke(app, ["validate", str(build), "--port", port, "--baud", "3"])
    assert isinstance(done.exception, UsageError)
