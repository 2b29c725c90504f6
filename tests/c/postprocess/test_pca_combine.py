"""pca_combine in C against its definition in numpy."""

from __future__ import annotations

import numpy as np
import pytest

from nnkit.c.postprocess.emit import emit_postprocess
from nnkit.postprocess import PcaCombine, combine_stored
from nnkit.program.formats import Fixed

ERROR_NULL = -1


FORMATS = [Fixed(32, 12), Fixed(16, 5), Fixed(8, 3), Fixed(8, 0, signed=False), Fixed(32, -3), Fixed(32, 30)]


@pytest.mark.parametrize(
    ("number", "features", "components"),
    [(FORMATS[0], 3, 1), (FORMATS[0], 300, 128), *((number, 17, 9) for number in FORMATS[1:])],
    ids=str,
)
def test_generated_c_equals_numpy(run_driver, number, features, components):
    params = PcaCombine(features, components, number)
    rng = np.random.default_rng(components)
    low, high = number.qmin, number.qmax
    pairs = [np.zeros((2, params.length)), np.full((2, params.length), high), np.full((2, params.length), low)]
    pairs += [rng.integers(max(low, -s), min(high, s) + 1, (2, params.length)) for s in (1, 2, 100, 5000, 2**31)]
    halves = [pair.astype(number.dtype) for pair in pairs]
    answer = run_driver([params], "pca_combine_driver.c", b"".join(pair.tobytes() for pair in halves))
    record = np.dtype([("status", "<i4"), ("feature", "<f4", (components,))])
    nulls, answers = np.frombuffer(answer[:12], "<i4"), np.frombuffer(answer[12:], record)
    assert nulls.tolist() == [ERROR_NULL] * 3
    assert answers["status"].tolist() == [0] * len(halves)
    for feature, pair in zip(answers["feature"], halves, strict=True):
        np.testing.assert_array_equal(feature, combine_stored(params, *pair))


@pytest.mark.parametrize(("compiler", "standard"), [("gcc", "c90"), ("clang", "c99"), ("g++", "c++11")])
def test_compiles_anywhere(tmp_path, compile_sources, compiler, standard):
    emit_postprocess([PcaCombine(8, 4, Fixed(32, 12))], tmp_path)
    flags = ["-x", "c++"] if compiler == "g++" else []
    compile_sources(compiler, standard, tmp_path, *flags)
