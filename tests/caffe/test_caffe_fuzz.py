"""A sample of the fuzzing benchmark, and files that are bombs: an error of ours, in bounded time and memory."""

from __future__ import annotations

import multiprocessing
import signal

import pytest

from benchmarks.caffe_fuzz import GIB, LIMIT_SECONDS, Seedling, attempt, corpus, mutated, run
from nnkit.caffe.schema import messages

MIB = 1 << 20
INPUT = b'input: "data" input_shape { dim: 1 dim: 4 dim: 8 dim: 8 }\n'
RELU = b'layer { name: "r" type: "ReLU" bottom: "data" top: "y" }\n'


def test_mutated_files_end_in_an_import_or_in_an_error_of_ours() -> None:
    tally = run(0, 600, limited=False)
    assert tally.failures == []
    assert tally.outcomes["imported"] > 30  # mutations that leave a network are tried too
    assert tally.outcomes["refused"] > 300


def test_inputs_are_reproducible_and_really_damaged() -> None:
    seedlings = corpus()
    originals = {seedling.name: seedling for seedling in seedlings}
    inputs = [mutated(number, seedlings) for number in range(200)]
    assert inputs == [mutated(number, seedlings) for number in range(200)]
    changed = [entry for entry in inputs if entry != originals[entry.name]]
    assert len(changed) > 180
    assert sum(entry.caffemodel != originals[entry.name].caffemodel for entry in inputs) > 20


def test_a_failure_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The harness reports any exception that is not an error for users."""
    import nnkit.importers

    def broken(*arguments: object) -> None:
        raise KeyError("layer")

    monkeypatch.setattr(nnkit.importers, "caffe_model", broken)
    tally = run(0, 3, limited=False)
    assert [number for number, _ in tally.failures] == [0, 1, 2]
    assert "KeyError" in tally.failures[0][1]


def _filled(head: bytes, piece: bytes) -> bytes:
    return head + piece * ((MIB - len(head)) // len(piece))


def _bombs() -> dict[str, Seedling]:
    blob = messages.BlobProto()
    blob.shape.dim.extend([1] * 900_000)
    many_blobs = messages.WeightFile(layer=[{"name": "x", "blobs": [{}] * 350_000}])
    layer = b"\xa2\x06\x03\x0a\x01x"
    chain = b"".join(
        b'layer{name:"a%d"type:"ReLU"bottom:"%s"top:"b%d"}' % (i, b"data" if not i else b"b%d" % (i - 1), i)
        for i in range(2000)
    )
    texts = {
        "empty_layers": _filled(INPUT, b"layer{}"),
        "unknown_fields": _filled(INPUT, b"a:1 "),
        "unknown_names": INPUT + b"".join(b"a%d:1 " % i for i in range(110_000)),
        "open_brackets": _filled(b"", b"layer{"),
        "skipped_brackets": _filled(b"", b"a{"),
        "skipped_lists": _filled(b"a:", b"["),
        "one_name": b"a" * MIB,
        "one_number": b"input_dim:" + b"9" * MIB,
        "one_text": b'name:"' + b"\\x41" * (MIB // 4) + b'"',
        "many_texts": _filled(b"name:", b'""'),
        "open_quote": b'name: "' + b"a" * MIB,
        "backslashes": b'name: "' + b"\\" * MIB,
        "comment": b"#" * MIB,
        "lines": b"\n" * MIB,
        "inputs": _filled(b"", b'input:"a"'),
        "dims": _filled(b'input:"a"input_shape{', b"dim:1 "),
        "bottoms": _filled(INPUT + b'layer{name:"c"type:"Concat"top:"y"', b'bottom:"data"') + b"}",
        "tops": INPUT
        + b'layer{name:"s"type:"Split"bottom:"data"'
        + b"".join(b'top:"%d"' % i for i in range(80_000))
        + b"}",
        "in_place": INPUT + b'layer{name:"r"type:"ReLU"bottom:"data"top:"data"}' * 2000,
        "chain": INPUT + chain,
        "big_tile": INPUT + b'layer{name:"t"type:"Tile"bottom:"data"top:"y"tile_param{tiles:1000000}}',
        "tiles": INPUT.replace(b"8", b"4000")
        + b"".join(b'layer{name:"t%d"type:"CReLU"bottom:"data"top:"y%d"}' % (i, i) for i in range(2000)),
        "big_kernel": INPUT
        + b'layer{name:"c"type:"Convolution"bottom:"data"top:"y"convolution_param{num_output:4000000000 '
        b"kernel_size:60000 pad:60000}}",
    }
    weights = {
        "weight_layers": layer * (MIB // len(layer)),
        "weight_blobs": many_blobs.SerializeToString(),
        "weight_dims": b"\xa2\x06" + _varint(len(blob.SerializeToString()) + 8) + b"\x0a\x01x\x3a"
        + _varint(blob.ByteSize()) + blob.SerializeToString(),
        "weight_nesting": b"\xa3\x06" * (MIB // 2),
        "weight_zeros": b"\x00" * MIB,
        "weight_ones": b"\xff" * MIB,
    }  # fmt: skip
    found = {name: Seedling(name, text, b"") for name, text in texts.items()}
    return found | {name: Seedling(name, INPUT + RELU, data) for name, data in weights.items()}


def _varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])


def _explode(name: str) -> tuple[str, int]:
    """In a process of its own, under the benchmark's limits."""
    from benchmarks import caffe_fuzz

    bomb = _bombs()[name]
    caffe_fuzz.attempt(caffe_fuzz.corpus()[0])
    caffe_fuzz._limit()
    signal.setitimer(signal.ITIMER_REAL, 6 * LIMIT_SECONDS)
    outcome = attempt(bomb)
    signal.setitimer(signal.ITIMER_REAL, 0)
    return outcome, len(bomb.prototxt) + len(bomb.caffemodel)


def test_bombs_stay_within_time_and_memory() -> None:
    assert GIB == 2**30
    names = list(_bombs())
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        for name, (outcome, size) in zip(names, pool.imap(_explode, names), strict=True):
            assert outcome in ("imported", "refused"), f"{name}: {outcome}"
            assert size <= MIB + 200, name
