"""The gallery of people: what the C stores is what Python stores, and no failure of power loses the last gallery."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest

from nnkit.c.postprocess.emit import postprocess_files
from nnkit.generated import packaged_text
from nnkit.postprocess import DescriptorMatch, NoGalleryError, OtherNetworkError, People, PeopleStore
from nnkit.program import Fixed
from tests.c.postprocess.conftest import HERE, SANITIZERS, WARNINGS, run_compiler

NAME_BYTES, NETWORK = 8, 0xBEEF1234
CONFIG = f"""\
#ifndef NNKIT_PIPELINE_CONFIG_H
#define NNKIT_PIPELINE_CONFIG_H
#define NNKIT_PEOPLE_NAME_BYTES {NAME_BYTES}
#define NNKIT_PEOPLE_NETWORK 0x{NETWORK:08X}U
#endif
"""
PARAMETERS = [
    DescriptorMatch(length=37, format=Fixed(16, 4), capacity=4, threshold=9.0),
    DescriptorMatch(length=64, format=Fixed(8, 4), capacity=3, threshold=9.0),
    DescriptorMatch(length=5, format=Fixed(8, 4, signed=False), capacity=5, threshold=0.5, normalize=True),
]


def built(params: DescriptorMatch, folder: Path) -> Path:
    for name, text in postprocess_files([params]).items():
        (folder / name).write_text(text)
    for name in ("nnkit_people.c", "nnkit_people.h", "nnkit_store.h"):
        (folder / name).write_text(packaged_text("nnkit", "c", "postprocess", name))
    (folder / "nnkit_pipeline_config.h").write_text(CONFIG)
    sources = ["nnkit_people.c", "nnkit_match.c", str(HERE / "people_driver.c")]
    run_compiler("gcc", ["-std=c99", *WARNINGS, *SANITIZERS, "-I.", *sources, "-o", "driver"], folder)
    return folder / "driver"


def run(driver: Path, data: bytes, params: DescriptorMatch) -> tuple[list[int], list[bytes]]:
    """Statuses, and the two slots at the end."""
    done = subprocess.run([str(driver)], input=data, capture_output=True, check=True, timeout=60)
    size = slot_bytes(params)
    statuses, slots = done.stdout[: -2 * size], done.stdout[-2 * size :]
    return [value for (value,) in struct.iter_unpack("<i", statuses)], [slots[:size], slots[size:]]


def slot_bytes(params: DescriptorMatch) -> int:
    width = 2 if params.normalize else params.format.bits // 8
    return 40 + params.capacity * (NAME_BYTES + params.length * width)


def named(name: str) -> bytes:
    return name.encode().ljust(NAME_BYTES, b"\0")


@pytest.mark.parametrize("params", PARAMETERS, ids=["int16", "int8", "normalized"])
def test_c_and_python_do_the_same(params: DescriptorMatch, tmp_path: Path) -> None:
    driver = built(params, tmp_path)
    rng = np.random.default_rng(3)
    people, store = People(params, NAME_BYTES, NETWORK), PeopleStore(slot_bytes(params))
    data, wanted = b"L", [-8]
    for _ in range(120):
        kind, name = rng.choice(list("EEERSL")), str(rng.choice(["ada", "Bjö", "c", "longest"]))
        if kind == "E":
            values = rng.integers(params.format.qmin, params.format.qmax + 1, params.length)
            stored = values.astype(params.format.dtype)
            data += b"E" + named(name) + stored.tobytes()
            wanted.append(0 if people.enrol(name, stored) else -5)
        elif kind == "R":
            data += b"R" + named(name)
            wanted.append(0 if people.remove(name) else -10)
        elif kind == "S":
            data += b"S" + struct.pack("<i", -1)
            store.save(people)
            wanted.append(0)
        else:
            data += b"L"
            people = People(params, NAME_BYTES, NETWORK)
            try:
                store.load(people)
                wanted.append(0)
            except NoGalleryError:
                wanted.append(-8)
    assert run(driver, data, params) == (wanted, store.slots)
    assert {0, -5, -10} <= set(wanted)


def test_a_failure_of_power_at_any_byte_leaves_the_last_gallery(tmp_path: Path) -> None:
    params = PARAMETERS[2]
    driver = built(params, tmp_path)
    first = b"E" + named("ada") + bytes(range(5)) + b"S" + struct.pack("<i", -1)
    second = b"E" + named("ben") + bytes(range(5, 10)) + b"S"
    total = 40 + 2 * (NAME_BYTES + 10)
    for budget in range(total + 1):
        statuses, slots = run(driver, first + second + struct.pack("<i", budget) + b"L", params)
        people, store = People(params, NAME_BYTES, NETWORK), PeopleStore(slot_bytes(params))
        store.slots = slots
        store.load(people)
        # The header's last word is 0 and says nothing: without its four bytes the gallery is whole, too.
        whole = budget >= total
        assert statuses == [0, 0, 0, 0 if whole else -7, 0], budget
        assert people.names in ([["ada", "ben"]] if whole else [["ada"], ["ada", "ben"]]), budget


def test_damage_and_descriptors_of_another_network_are_told(tmp_path: Path) -> None:
    params = PARAMETERS[1]
    people, store = People(params, NAME_BYTES, NETWORK), PeopleStore(slot_bytes(params))
    people.enrol("ada", np.arange(64, dtype=np.int8))
    store.save(people)
    with pytest.raises(OtherNetworkError):
        store.load(People(params, NAME_BYTES, NETWORK + 1))
    for at in range(40 + NAME_BYTES + 64):
        damaged = bytearray(store.slots[0])
        damaged[at] ^= 4
        if at in range(36, 40):  # the word that says nothing
            continue
        with pytest.raises((NoGalleryError, OtherNetworkError)):
            People(params, NAME_BYTES, NETWORK).read(bytes(damaged))
