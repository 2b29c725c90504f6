"""The prototxt reader against protobuf's own, and its errors with their places."""

from __future__ import annotations

from pathlib import Path

import pytest
from google.protobuf import text_format

from benchmarks.caffe_corpus import cases
from nnkit.caffe.schema import messages
from nnkit.caffe.text_format import parse_text
from nnkit.errors import ModelError


def parsed(text: str | bytes) -> tuple[object, object]:
    message = messages.NetParameter()
    data = text.encode() if isinstance(text, str) else text
    return message, parse_text(data, message, "net.prototxt")


def without_training(net: object) -> object:
    """What protobuf reads, without the contents that this reader skips."""
    for layer in net.layer:  # type: ignore[attr-defined]
        del layer.param[:]
    return net


def test_reads_what_protobuf_reads() -> None:
    for case in cases():
        expected = text_format.Parse(case.prototxt(), messages.NetParameter())
        assert parsed(case.prototxt())[0] == expected, case.name


def test_reads_real_networks_as_protobuf_does(shared_dir: Path) -> None:
    files = sorted((shared_dir / "models").rglob("*.prototxt"))
    assert len(files) >= 7
    for file in files:
        expected = text_format.Parse(file.read_bytes(), messages.NetParameter(), allow_unknown_field=True)
        found, _ = parsed(file.read_bytes())
        assert without_training(found) == without_training(expected), file.name


@pytest.mark.parametrize(
    "text",
    [
        'name: "a" "b" \'c\'',
        'name: "tab\\tquote\\"hex\\x41octal\\101"',
        "input_dim: 0x10 input_dim: 010 input_dim: -3",
        "input_dim: [1, 3, 8, 8]",
        "layer < name: 'x' > , layer: { name: 'y' };",
        "layer { power_param { power: 1.5f scale: .5 shift: -1e-3 } }",
        "layer { pooling_param { pool: AVE global_pooling: True } } # the end",
        "layer { pooling_param { pool: 1 global_pooling: 1 } }",
        "input_shape { dim: 9000000000 }",
    ],
)
def test_forms_of_values(text: str) -> None:
    assert parsed(text)[0] == text_format.Parse(text, messages.NetParameter())


def test_unknown_fields_are_skipped_and_reported_with_their_place() -> None:
    text = """name: "n"
layer {
  name: "p" made_up: 3
  pooling_param { kernel_size: 2 other { a: [1, 2] b < c: "x" "y" > } }
}
strange: -inf
"""
    message, result = parsed(text)
    assert message.layer[0].pooling_param.kernel_size == 2  # type: ignore[attr-defined]
    unknown = [(u.path, u.line, u.column) for u in result.unknown]  # type: ignore[attr-defined]
    assert unknown == [("layer.made_up", 3, 13), ("layer.pooling_param.other", 4, 34), ("strange", 6, 1)]
    assert result.lines == {"layer": [2]}  # type: ignore[attr-defined]


def test_comments_in_other_encodings_do_no_harm() -> None:
    message, _ = parsed("# 输入\n".encode("gbk") + b"\xef\xbb\xbf"[:0] + b'name: "n"')
    assert message.name == "n"  # type: ignore[attr-defined]
    message, _ = parsed(b'\xef\xbb\xbfname: "n"')
    assert message.name == "n"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ('name: "n"\nlayer {\n  name: "x"\n', "4:1", "opens on line 2"),
        ("layer { name: 'x' } }", "1:21", "closes nothing"),
        ("layer {\n  pooling_param { pool: SOME }\n}", "2:25", "cannot be SOME"),
        ("layer {\n\tpooling_param { kernel_size: -2 }\n}", "2:31", "outside 0 to"),
        ('name: "a" name: "b"', "1:11", "given twice"),
        ('name: "a\n', "1:7", "does not end on this line"),
        ("name a", "1:6", "':' is expected"),
        ("layer: 3", "1:8", "holds fields"),
        ("input_dim: 12abc", "1:12", "'12abc' is not a number"),
        ("input_dim: 1.5", "1:12", "no integer"),
        ("layer { power_param { power: nan } }", "1:30", "no finite number"),
        ("layer { power_param { power: 1e39 } }", "1:30", "no finite number"),
        ("input_dim: " + "9" * 5000, "1:12", "5000 characters long"),
        ("layer { pooling_param { global_pooling: maybe } }", "1:41", "is maybe"),
        ("name: 3", "1:7", "is a text"),
        ("\x00\x01", "1:1", "has no meaning"),
        ("layer {" * 50, "1:232", "nested more than 32"),
        ("a {" * 50_000, "1:100", "nested more than 32"),
        ("a: " + "[" * 50_000, "1:37", "nested more than 32"),
        (b'name: "\xff\xfe"', "1:7", "not UTF-8"),
        ("input_dim: [1 2]", "1:15", "',' or ']'"),
    ],
)
def test_errors_name_line_and_column(text: str | bytes, place: str, words: str) -> None:
    with pytest.raises(ModelError) as caught:
        parsed(text)
    assert caught.value.where == f"net.prototxt:{place}"
    assert words in caught.value.reason
    assert caught.value.remedy


@pytest.mark.parametrize(
    "text",
    [f'name: "{"a" * 4_000_000}"', f"""name: '{chr(92) + "a"}{(chr(92) + "n") * 2_000_000}'""", "# c\n" * 1_000_000],
)
def test_a_long_text_takes_memory_of_its_size_alone(text: str) -> None:
    """Regular expressions that keep a place to come back to for every letter take 200 bytes for each."""
    resource = pytest.importorskip("resource")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    parse_text(text.encode(), messages.NetParameter(), "net.prototxt")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10  # KiB
