"""The library as a user compiles it: standards, compilers, instances, weights, symbols. ONNX Runtime is the truth."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from ansi_c_library import SANITIZERS, library, outputs
from onnx import helper
from segment_networks import network, normal

from nnkit.boards import BOARDS
from nnkit.custom_ops import DetectionOutput, PriorBox
from nnkit.graph import Model
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.importers.onnx_importer import import_onnx
from nnkit_ansi_c.runner import STRICT

X = {"x": np.asarray(normal(1, 3, 9, 8))}


def small() -> Model:
    """Two convolutions whose results are joined, with windows, pads, groups and a classifier behind."""
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1], name="first"),
        helper.make_node("Relu", ["c1"], ["p"]),
        helper.make_node("Conv", ["p", "w2"], ["q"], pads=[1, 1, 1, 1], group=4, name="depthwise"),
        helper.make_node("Concat", ["p", "q"], ["whole"], axis=1),
        helper.make_node("MaxPool", ["whole"], ["m"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("GlobalAveragePool", ["m"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("Gemm", ["f", "w3", "b3"], ["scores"], transB=1),
        helper.make_node("Softmax", ["scores"], ["y"]),
    ]
    shapes = {"w1": (4, 3, 3, 3), "b1": (4,), "w2": (4, 1, 3, 3), "w3": (5, 8), "b3": (5,)}
    constants = {name: np.asarray(normal(*shape, seed=len(name) + shape[0])) for name, shape in shapes.items()}
    return network(nodes, X, constants)


@pytest.mark.parametrize("name", ["a_squeezenet11", "b_mbv1_025", "c_resnet8", "d_dscnn"])
def test_benchmark_networks_equal_onnx_runtime(tmp_path: Path, shared_dir: Path, name: str) -> None:
    model = import_onnx(shared_dir / "nets" / f"{name}.onnx").model
    program = library(model, tmp_path)
    spec = model.inputs[0]
    given = {spec.name: np.random.default_rng(1).normal(size=spec.shape).astype(np.float32)}
    expected = FloatSession(model).run(given)
    computed = outputs(tmp_path, program, given, flags=("-O2",) if name.startswith("a") else SANITIZERS)
    for value, array in expected.items():
        largest = float(np.abs(array).max())
        np.testing.assert_allclose(computed[value].ravel(), array.ravel(), rtol=0, atol=2e-5 * largest)


@pytest.mark.parametrize(
    ("compiler", "standard"),
    [
        *((compiler, f"-std={each}") for compiler in ("gcc", "clang") for each in ("c90", "c99", "c11")),
        *((compiler, f"-std={each}") for compiler in ("g++", "clang++") for each in ("c++98", "c++11")),
    ],
)
def test_it_compiles_without_a_warning(tmp_path: Path, compiler: str, standard: str) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    program = library(small(), tmp_path, "arrays")
    flags = [standard, *STRICT[1:], "-Wshadow", f"-I{tmp_path}", "-O2", "-ffp-contract=off"]
    language = ["-x", "c++"] if compiler.endswith("++") else ["-x", "c"]
    files = [str(path) for path in sorted(tmp_path.glob("*.c"))]
    command = [compiler, *flags, *language, *files, "-x", "none", "-o", str(tmp_path / "run"), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    (tmp_path / "in.bin").write_bytes(X["x"].tobytes())
    subprocess.run([tmp_path / "run", tmp_path / "in.bin", tmp_path / "out.bin"], check=True)
    computed = np.frombuffer((tmp_path / "out.bin").read_bytes(), np.float32)
    (expected,) = FloatSession(small()).run(X).values()
    np.testing.assert_allclose(computed, expected.ravel(), rtol=1e-5)
    assert program.outputs == ("y",)


@pytest.mark.parametrize("weights", ["blob", "arrays"])
def test_weights_by_reference_and_as_arrays(tmp_path: Path, weights: Literal["blob", "arrays"]) -> None:
    program = library(small(), tmp_path, weights)
    (expected,) = FloatSession(small()).run(X).values()
    np.testing.assert_allclose(outputs(tmp_path, program, X)["y"].ravel(), expected.ravel(), rtol=1e-5)
    assert (tmp_path / "net_weights.bin").exists() == (weights == "blob")


def test_it_needs_nothing_but_a_few_functions_of_mathematics(tmp_path: Path) -> None:
    """No heap, no input or output, no data that a call could change."""
    library(small(), tmp_path, "arrays")
    files = [str(path) for path in sorted(tmp_path.glob("*.c")) if path.name != "example.c"]
    objects = tmp_path / "all.o"
    subprocess.run(["cc", "-r", "-nostdlib", "-O1", f"-I{tmp_path}", *files, "-o", objects], check=True)
    symbols = [line.split() for line in subprocess.check_output(["nm", objects], text=True).splitlines()]
    missing = {each[-1] for each in symbols if each[-2] == "U"} - {"_GLOBAL_OFFSET_TABLE_", "__stack_chk_fail"}
    assert missing <= {"expf", "expm1f", "logf", "log1pf", "powf", "sqrtf", "tanhf", "floorf", "ceilf", "memset"}
    assert not [each for each in symbols if each[-2] in "bBdDcC"]


TWO = """
#include <pthread.h>
#include <stdio.h>
#include "net.h"

typedef struct job { net_arena arena; float given[NET_X_VALUES]; float result[NET_Y_VALUES]; } job;
static job jobs[2];

static void *work(void *argument)
{
    job *mine = (job *)argument;
    net_context context;
    int i;
    net_init(&context, &mine->arena, net_weights);
    for (i = 0; i < 50; i++) {
        net_run(&context, mine->given, mine->result);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    int i;
    for (i = 0; i < 2; i++) {
        if (fread(jobs[i].given, sizeof(float), NET_X_VALUES, stdin) != NET_X_VALUES) {
            return 1;
        }
    }
    for (i = 0; i < 2; i++) {
        pthread_create(&threads[i], NULL, work, &jobs[i]);
    }
    for (i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        fwrite(jobs[i].result, sizeof(float), NET_Y_VALUES, stdout);
    }
    return 0;
}
"""


def test_two_instances_in_two_threads(tmp_path: Path) -> None:
    """Under the thread sanitizer, with weights in common."""
    library(small(), tmp_path, "arrays")
    (tmp_path / "two.c").write_text(TWO)
    files = [str(path) for path in sorted(tmp_path.glob("*.c")) if path.name != "example.c"]
    flags = ["-O1", "-g", "-fsanitize=thread", "-pthread", "-ffp-contract=off", f"-I{tmp_path}"]
    subprocess.run(["cc", *flags, *files, "-o", tmp_path / "two", "-lm"], check=True)
    inputs = [X["x"], np.asarray(normal(1, 3, 9, 8, seed=5))]
    done = subprocess.run(
        [tmp_path / "two"], input=b"".join(each.tobytes() for each in inputs), capture_output=True, check=True
    )
    computed = np.frombuffer(done.stdout, np.float32).reshape(2, -1)
    for values, given in zip(computed, inputs, strict=True):
        (expected,) = FloatSession(small()).run({"x": given}).values()
        np.testing.assert_allclose(values, expected.ravel(), rtol=1e-5)


def test_make_builds_the_library_and_the_example(tmp_path: Path) -> None:
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    library(small(), tmp_path)
    subprocess.run(["make", "-s", "-C", tmp_path, "example"], check=True, capture_output=True)
    (tmp_path / "in.bin").write_bytes(X["x"].tobytes())
    subprocess.run([tmp_path / "example", tmp_path / "in.bin", tmp_path / "out.bin"], check=True)
    (expected,) = FloatSession(small()).run(X).values()
    computed = np.frombuffer((tmp_path / "out.bin").read_bytes(), np.float32)
    np.testing.assert_allclose(computed, expected.ravel(), rtol=1e-5)


def test_make_compiles_all_of_it_for_the_core_that_is_asked_for(tmp_path: Path) -> None:
    """The weights too: this compiler's own default is another core, and objects of two do not link."""
    if shutil.which("make") is None or (missing := BOARDS["rv32imac"].missing()) is not None:
        pytest.skip(missing or "make is not installed")
    library(small(), tmp_path)
    tools = ["CC=riscv64-unknown-elf-gcc", "AR=riscv64-unknown-elf-ar"]
    flags = "CFLAGS=-O1 -march=rv32imac -mabi=ilp32 --specs=picolibc.specs"
    subprocess.run(["make", "-s", "-C", tmp_path, *tools, flags, "all"], check=True, capture_output=True)
    assert {path.read_bytes()[4] for path in tmp_path.glob("*.o")} == {1}  # ELF of 32 bits


def test_cmake_builds_the_library(tmp_path: Path) -> None:
    if shutil.which("cmake") is None:
        pytest.skip("cmake is not installed")
    library(small(), tmp_path / "net")
    subprocess.run(["cmake", "-S", tmp_path / "net", "-B", tmp_path / "out"], check=True, capture_output=True)
    subprocess.run(["cmake", "--build", tmp_path / "out"], check=True, capture_output=True)
    assert (tmp_path / "out" / "libnet.a").exists()


def test_prior_boxes_are_constants(tmp_path: Path) -> None:
    """An SSD's tail: what depends on shapes alone is worked out when the code is made."""
    arrays = {"loc": np.asarray(normal(1, 64)) * 0.1, "conf": np.abs(normal(1, 32)), "x": np.zeros((1, 3, 40, 40))}
    arrays = {name: array.astype(np.float32) for name, array in arrays.items()}
    arrays["map"] = np.zeros((1, 2, 4, 4), np.float32)
    nodes = [
        PriorBox((10.0,)).node(["map", "x"], ["priors"]),
        DetectionOutput(2, keep_top_k=5, confidence_threshold=0.3).node(["loc", "conf", "priors"], ["y"]),
    ]
    model = network(nodes, arrays, {})
    program = library(model, tmp_path)
    assert [op.op_type for op in program.ops] == ["DetectionOutput"]
    (expected,) = FloatSession(model).run(arrays).values()
    np.testing.assert_allclose(outputs(tmp_path, program, arrays)["y"].ravel(), expected.ravel(), atol=1e-5)


def test_inputs_may_be_called_as_they_like(tmp_path: Path) -> None:
    """Names of constants, types and functions of the library, keywords, and what is no name in C."""
    names = ["nnkit window_0", "grid_0", "context", "floats", "net_run", "int", "a/b:0 */", "2nd", "read"]
    arrays = {name: np.asarray(normal(1, 4, seed=index)) for index, name in enumerate(names)}
    nodes = [helper.make_node("Sum", names, ["total"]), helper.make_node("Relu", ["total"], ["return"])]
    model = network(nodes, arrays, {})
    program = library(model, tmp_path)
    (expected,) = FloatSession(model).run(arrays).values()
    (computed,) = outputs(tmp_path, program, arrays).values()
    np.testing.assert_allclose(computed.ravel(), expected.ravel(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["b_mbv1_025", "c_resnet8", "d_dscnn"])
def test_an_input_in_the_arena_takes_no_memory_of_its_own(tmp_path: Path, shared_dir: Path, name: str) -> None:
    """The arena is as small as with the caller's input: by then the input has been read."""
    model = import_onnx(shared_dir / "nets" / f"{name}.onnx").model
    program = library(model, tmp_path / "in", inputs_in_arena=True)
    library(model, tmp_path / "beside")
    arenas = [json.loads((tmp_path / each / "net.json").read_text())["arena_bytes"] for each in ("in", "beside")]
    assert arenas[0] == arenas[1]
    spec = model.inputs[0]
    given = {spec.name: np.random.default_rng(1).normal(size=spec.shape).astype(np.float32)}
    ((value, expected),) = FloatSession(model).run(given).items()
    computed = outputs(tmp_path / "in", program, given)[value]
    np.testing.assert_allclose(computed.ravel(), expected.ravel(), rtol=0, atol=2e-5 * float(np.abs(expected).max()))


def test_several_inputs_in_the_arena_one_of_them_overwritten_at_once(tmp_path: Path) -> None:
    arrays = {name: np.asarray(normal(1, 4, 6, 6, seed=index)) for index, name in enumerate("ab")}
    nodes = [
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("Add", ["r", "b"], ["s"]),
        helper.make_node("Sigmoid", ["s"], ["y"]),
    ]
    model = network(nodes, arrays, {})
    program = library(model, tmp_path, inputs_in_arena=True)
    header = (tmp_path / "net.h").read_text()
    assert "#define NET_A_IN(arena)" in header
    assert "void net_run(const net_context *context, float *y);" in header
    (expected,) = FloatSession(model).run(arrays).values()
    np.testing.assert_allclose(outputs(tmp_path, program, arrays)["y"].ravel(), expected.ravel(), rtol=1e-5)
