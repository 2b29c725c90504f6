"""What ONNX files have beside plain operators: bodies of If, Loop and Scan, functions, external, sparse and text
weights, operators whose results are as large as a number of the file says, and quantised networks (QDQ, QOperator).

Beside the file lies a weights file of its own and, one folder up and behind links, one that no network may read: what
is read of it is seen in the imported network.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from fuzz.networks import OPTIONS, damaged_network, lowered_for, steps_here

Seeds = tuple[bytes, ...]
_TARGETS: tuple[tuple[str, dict[str, Any]], ...] = (
    *((name, options) for name, options in sorted(OPTIONS.items())),
    ("ansi_c", {"precision": "int8"}),
    ("gap8", {"scheme": "affine"}),
)
SECRET = 1234.5
_LOCATIONS = (
    "own.bin",
    "../secret.bin",
    "link.bin",
    "around/secret.bin",
    "/dev/zero",
    "/proc/self/environ",
    "gone.bin",
)
_LOCATIONS += (".", "", "own.bin/x", "a\0b", "..\\secret.bin", "file:../secret.bin", "./own.bin", "x" * 5000)
_OFFSETS = ("0", "4", "-4", "4096", str(1 << 62), "9" * 30, "x", "")
_EQUATIONS = (
    "bchw,cd->bdhw",
    "...i,ij->...j",
    "bchw,cc->bhw",
    "",
    "->",
    "bchw->->",
    "....,..->..",
    "b\u00e9hw,cd->b",
)
_EQUATIONS += (
    "bchw,xy->bchwxy",
    "bchw,cd->" + "d" * 60,
    ",".join(["ab"] * 2000),
    "bchw,cd->b\0d",
    " b c h w , c d -> b d ",
)
_SIZES = (0, 1, -1, 2, 8, 300, 1 << 20, 1 << 31, 10**12, 1 << 40, 1 << 62, -(1 << 63))
_SCALES = (0.0, -1.0, 1e-45, 1e-38, 3e38, float("nan"), float("inf"), 0.05)


def seeds(folder: Path) -> Seeds:
    """Small networks, each of one form."""
    return tuple(_networks())


def attempt(given: Seeds, chance: Random, folder: Path) -> None:
    """One damaged network through the import, the rewrites and the lowering."""
    from nnkit.importers import ImportOptions, import_onnx, onnx_importer

    place = folder / "inside"
    (place / "around").parent.mkdir()
    values = np.full(12, SECRET, np.float32)
    (folder / "secret.bin").write_bytes(values.tobytes())
    (place / "own.bin").write_bytes((values * 0).tobytes())
    (place / "link.bin").symlink_to(folder / "secret.bin")
    (place / "around").symlink_to(folder)
    path = place / "net.onnx"
    data = chance.choice(given)
    if chance.random() < 0.8:
        data = _damaged(data, chance)
    if chance.random() < 0.5:
        data = damaged_network(data, chance)
    path.write_bytes(data)
    onnx_importer.run_steps = steps_here
    model = import_onnx(path, ImportOptions(simplify=False)).model
    for tensor in model.proto().graph.initializer:
        if np.frombuffer(values[:1], np.uint8).tobytes() in tensor.raw_data:
            raise AssertionError(f"weights were read from outside: {tensor.name}")
    lowered_for(*chance.choice(_TARGETS), model)


def _damaged(data: bytes, chance: Random) -> bytes:
    """One to three changes of what these forms hang on."""
    import onnx
    from onnx import TensorProto, numpy_helper

    proto = onnx.ModelProto.FromString(data)
    nodes = list(_nodes(proto))
    for _ in range(chance.choice((1, 1, 2, 3))):
        kind = chance.randrange(7)
        weights = [
            each
            for each in proto.graph.initializer
            if each.data_location == TensorProto.DEFAULT and each.data_type != TensorProto.STRING
        ]
        aside = [each for each in proto.graph.initializer if each.data_location == TensorProto.EXTERNAL]
        texts = [each for node in nodes for each in node.attribute if each.s]
        if aside and kind < 5:
            entry = chance.choice(chance.choice(aside).external_data)
            entry.value = chance.choice(_LOCATIONS if entry.key == "location" else _OFFSETS)
        elif kind == 0 and texts:
            chance.choice(texts).s = chance.choice(_EQUATIONS).encode()
        elif kind <= 2 and weights:
            weight = chance.choice(weights)
            values = np.array(numpy_helper.to_array(weight))
            if values.size and values.dtype.kind in "if":
                choices: Sequence[float] = _SIZES if values.dtype == np.int64 else _SCALES
                if values.dtype.itemsize < 4:
                    choices = (0, 1, 127)
                values.reshape(-1)[chance.randrange(values.size)] = chance.choice(choices)
                weight.CopyFrom(numpy_helper.from_array(values, weight.name))
        elif kind == 3 and proto.graph.sparse_initializer:
            sparse = chance.choice(proto.graph.sparse_initializer)
            where = np.array(numpy_helper.to_array(sparse.indices))
            where[chance.randrange(len(where))] = chance.choice(_SIZES)
            sparse.indices.CopyFrom(numpy_helper.from_array(where, sparse.indices.name))
            if chance.random() < 0.5:
                sparse.dims[chance.randrange(len(sparse.dims))] = chance.choice(_SIZES)
        elif kind == 4:
            node = chance.choice(nodes)
            if proto.functions and chance.random() < 0.7:
                node.op_type, node.domain = chance.choice(proto.functions).name, "own"
        elif kind == 5 and len(nodes) > 1:
            node, other = chance.sample(nodes, 2)
            if node.input and other.output:
                node.input[chance.randrange(len(node.input))] = chance.choice(other.output)
        else:
            node = chance.choice(nodes)
            if node.attribute:
                del node.attribute[chance.randrange(len(node.attribute))]
    return bytes(proto.SerializeToString())


def _nodes(proto: Any) -> Iterator[Any]:
    """Those of the graph, of functions and of bodies."""
    pending = [proto.graph, *proto.functions]
    while pending:
        for node in pending.pop().node:
            yield node
            pending += [each.g for each in node.attribute if each.HasField("g")]


def _networks() -> Iterator[bytes]:
    from onnx import TensorProto, helper, numpy_helper

    draw = np.random.default_rng(2).standard_normal
    make = helper.make_node

    def value(name: str, shape: Sequence[int] | None = None, kind: int = TensorProto.FLOAT) -> Any:
        return helper.make_tensor_value_info(name, kind, shape)

    def network(
        nodes: Sequence[Any], weights: dict[str, Any], change: Callable[[Any], None] = lambda _: None
    ) -> bytes:
        constants = [numpy_helper.from_array(np.asarray(each), name) for name, each in weights.items()]
        graph = helper.make_graph(list(nodes), "net", [value("x", [1, 4, 6, 6])], [value("y")], constants)
        domains = [helper.make_opsetid(domain, version) for domain, version in (("", 20), ("own", 1))]
        model = helper.make_model(
            graph, opset_imports=[*domains, helper.make_opsetid("com.microsoft", 1)], ir_version=9
        )
        change(model)
        return bytes(model.SerializeToString())

    def weight(*shape: int) -> Any:
        return draw(shape).astype(np.float32)

    def numbers(*each: int) -> Any:
        return np.asarray(each, np.int64)

    yield network([make("Einsum", ["x", "w"], ["y"], equation="bchw,cd->bdhw")], {"w": weight(4, 3)})
    chain = [make("Greater", ["x", "zero"], ["c0"]), make("Where", ["c0", "x", "w"], ["a0"])]
    for at in range(1, 4):
        chain += [
            make("Greater", [f"a{at - 1}", "zero"], [f"c{at}"]),
            make("Where", [f"c{at}", "x", "zero"], [f"a{at}"]),
        ]
    yield network([*chain, make("LogSoftmax", ["a3"], ["y"], axis=1)], {"zero": np.float32(0), "w": weight(4, 1, 1)})
    large = [
        make("Tile", ["x", "times"], ["t"]),
        make("Expand", ["one", "shape"], ["e"]),
        make("Gather", ["rows", "ids"], ["g"]),
        make("ConstantOfShape", ["shape"], ["f"]),
        make("Range", ["start", "end", "step"], ["r"]),
        make("Mul", ["t", "e"], ["m"]),
        make("Add", ["m", "g"], ["n"]),
        make("Add", ["n", "f"], ["o"]),
        make("Mul", ["o", "r"], ["p"]),
        make("Pad", ["p", "around"], ["q"]),
        make("SpaceToDepth", ["q"], ["y"], blocksize=2),
    ]
    ends = {"start": np.float32(0), "end": np.float32(6), "step": np.float32(1), "one": weight(1)}
    ends |= {"times": numbers(1, 1, 1, 1), "shape": numbers(1, 4, 6, 6), "ids": numbers(0, 3, 1, 2, 0, 8)}
    yield network(large, {**ends, "rows": weight(9, 6), "around": numbers(0, 0, 1, 1, 0, 0, 1, 1)})

    shape = [1, 4, 6, 6]

    def body(name: str, nodes: list[Any], given: list[Any], results: list[str]) -> Any:
        kinds = {"go_on": TensorProto.BOOL}
        return helper.make_graph(
            nodes, name, given, [value(each, [] if each in kinds else shape, kinds.get(each, 1)) for each in results]
        )

    branches = {
        "then_branch": body("then", [make("Relu", ["x"], ["t"])], [], ["t"]),
        "else_branch": body("else", [make("Neg", ["x"], ["f"])], [], ["f"]),
    }
    again = [make("Identity", ["go"], ["go_on"]), make("Relu", ["v"], ["w"])]
    given = [value("i", [], TensorProto.INT64), value("go", [], TensorProto.BOOL), value("v", shape)]
    scan = body("scan", [make("Relu", ["s"], ["p"])], [value("s")], ["p"])
    for node in (
        make("If", ["yes"], ["y"], **branches),
        make("Loop", ["count", "yes", "x"], ["y"], body=body("loop", again, given, ["go_on", "w"])),
        make("Scan", ["x"], ["y"], num_scan_inputs=1, body=scan),
    ):
        yield network([node], {"yes": np.asarray(True), "count": numbers(3)[0]})

    def functions(model: Any) -> None:
        opsets = [helper.make_opsetid("", 20), helper.make_opsetid("own", 1)]
        inner = [make("Relu", ["a"], ["b"])]
        for at in range(5):
            model.functions.append(helper.make_function("own", f"F{at}", ["a"], ["b"], inner, opsets))
            inner = [make(f"F{at}", [e], [r], domain="own") for e, r in (("a", "m"), ("m", "b"))]

    yield network([make("F4", ["x"], ["y"], domain="own")], {}, functions)

    def aside(model: Any) -> None:
        tensor = model.graph.initializer.add(
            name="w", data_type=1, dims=[4, 1, 1], data_location=TensorProto.EXTERNAL
        )
        for key, text in (("location", "own.bin"), ("offset", "0"), ("length", "16")):
            tensor.external_data.add(key=key, value=text)

    yield network([make("Add", ["x", "w"], ["y"])], {}, aside)

    def thin(model: Any) -> None:
        values = numpy_helper.from_array(weight(2), "w")
        sparse = helper.make_sparse_tensor(values, numpy_helper.from_array(numbers(0, 3), "w_at"), [4, 1, 1])
        model.graph.sparse_initializer.append(sparse)
        model.graph.initializer.append(helper.make_tensor("said", TensorProto.STRING, [1], [b"\xff"]))

    yield network([make("Add", ["x", "w"], ["y"])], {}, thin)
    codes = np.random.default_rng(0).integers(-128, 128, (3, 4, 3, 3), np.int8)
    levels = {"s": np.float32(0.05), "z": np.int8(3), "w": codes, "ws": np.full(3, 0.01, np.float32)}
    qdq = [
        make("QuantizeLinear", ["x", "s", "z"], ["xq"]),
        make("DequantizeLinear", ["xq", "s", "z"], ["xd"]),
        make("DequantizeLinear", ["w", "ws", "wz"], ["wd"], axis=0),
        make("Conv", ["xd", "wd"], ["c"]),
        make("QuantizeLinear", ["c", "s", "z"], ["cq"]),
        make("DequantizeLinear", ["cq", "s", "z"], ["y"]),
    ]
    yield network(qdq, {**levels, "wz": np.zeros(3, np.int8)})
    operators = [
        make("QuantizeLinear", ["x", "s", "z"], ["xq"]),
        make("QLinearConv", ["xq", "s", "z", "w", "ws", "wz", "s", "z"], ["c"]),
        make("QLinearAdd", ["c", "s", "z", "c", "s", "z", "s", "z"], ["a"], domain="com.microsoft"),
        make("DequantizeLinear", ["a", "s", "z"], ["y"]),
    ]
    yield network(operators, {**levels, "wz": np.zeros(3, np.int8)})
