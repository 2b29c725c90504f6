"""Caffe files that are small and made to cost much: depth, counts, lengths and declared sizes."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.caffe_corpus import Files

_INPUT = b'input: "data" input_shape { dim: 1 dim: 4 dim: 8 dim: 8 }\n'
_RELU = b'layer { name: "r" type: "ReLU" bottom: "data" top: "y" }\n'
_MOST_LAYERS = 19_900  # below the reader's limit, which would end the matter early


def bombs(size_bytes: int) -> dict[str, Files]:
    """Networks by name, each of at most about `size_bytes`."""
    found = {name: Files(name, text, b"") for name, text in _texts(size_bytes).items()}
    return found | {name: Files(name, _INPUT + _RELU, data) for name, data in _weights(size_bytes - 128).items()}


def _texts(size: int) -> dict[str, bytes]:
    def filled(head: bytes, piece: bytes, end: bytes = b"") -> bytes:
        return head + piece * ((size - len(head) - len(end)) // len(piece)) + end

    def counted(head: bytes, piece: Callable[[int], bytes], end: bytes = b"", most: int = size) -> bytes:
        parts, left = [head], size - len(head) - len(end)
        for index in range(most):
            part = piece(index)
            left -= len(part)
            if left < 0:
                break
            parts.append(part)
        return b"".join([*parts, end])

    in_place = b'layer{name:"r"type:"ReLU"bottom:"data"top:"data"}'
    return {
        "empty_layers": filled(_INPUT, b"layer{}"),
        "unknown_fields": filled(_INPUT, b"a:1 "),
        "unknown_names": counted(_INPUT, lambda i: b"a%d:1 " % i),
        "open_brackets": filled(b"", b"layer{"),
        "skipped_brackets": filled(b"", b"a{"),
        "skipped_lists": filled(b"a:", b"["),
        "one_name": b"a" * size,
        "one_number": filled(b"input_dim:", b"9"),
        "one_text": filled(b'name:"', b"\\x41", b'"'),
        "many_texts": filled(b"name:", b'""'),
        "open_quote": filled(b'name: "', b"a"),
        "backslashes": filled(b'name: "', b"\\"),
        "comment": b"#" * size,
        "lines": b"\n" * size,
        "inputs": filled(b"", b'input:"a"'),
        "dims": filled(b'input:"a"input_shape{', b"dim:1 "),
        "bottoms": filled(_INPUT + b'layer{name:"c"type:"Concat"top:"y"', b'bottom:"data"', b"}"),
        "tops": counted(_INPUT + b'layer{name:"s"type:"Split"bottom:"data"', lambda i: b'top:"%d"' % i, b"}"),
        "most_tops": counted(
            _INPUT + b'layer{name:"s"type:"Split"bottom:"data"', lambda i: b'top:"%d"' % i, b"}", most=4096
        ),
        "in_place": counted(_INPUT, lambda i: in_place, most=_MOST_LAYERS),
        "chain": counted(
            _INPUT,
            lambda i: (
                b'layer{name:"a%d"type:"ReLU"bottom:"%s"top:"b%d"}' % (i, b"b%d" % (i - 1) if i else b"data", i)
            ),
            most=_MOST_LAYERS,
        ),
        "wide": counted(
            _INPUT.replace(b"8", b"4000"),
            lambda i: b'layer{name:"t%d"type:"CReLU"bottom:"data"top:"y%d"}' % (i, i),
            most=_MOST_LAYERS,
        ),
        "refused_layers": counted(
            _INPUT, lambda i: b'layer{type:"%d"bottom:"data"top:"y%d"}' % (i, i), most=_MOST_LAYERS
        ),
        "big_tile": _INPUT + b'layer{name:"t"type:"Tile"bottom:"data"top:"y"tile_param{tiles:1000000}}',
        "big_kernel": _INPUT + b'layer{name:"c"type:"Convolution"bottom:"data"top:"y"convolution_param{'
        b"num_output:4000000000 kernel_size:60000 pad:60000}}",
    }


def _weights(size: int) -> dict[str, bytes]:
    layer = b"\xa2\x06\x03\x0a\x01x"
    blob = b"\x3a\x0a\x3a\x02\x0a\x00\x2a\x04\x00\x00\x80\x3f"
    dims = b"\x01" * (size - 40)
    shape = b"\x0a" + _varint(len(dims)) + dims
    many_dims = b"\x3a" + _varint(len(shape)) + shape
    return {
        "weight_layers": layer * (size // len(layer)),
        "weight_blobs": _layer(b"\x3a\x00" * (size // 2 - 10)),
        "weight_arrays": _layer(blob * min(size // len(blob) - 10, 99_000)),
        "weight_dims": _layer(b"\x3a" + _varint(len(many_dims)) + many_dims),
        "weight_groups": b"\xa3\x06" * (size // 2),
        "weight_zeros": b"\x00" * size,
        "weight_ones": b"\xff" * size,
    }


def _layer(content: bytes) -> bytes:
    """A layer called x in a caffemodel."""
    inside = b"\x0a\x01x" + content
    return b"\xa2\x06" + _varint(len(inside)) + inside


def _varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])
