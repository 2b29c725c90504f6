"""Targets, their options, runners, corrections, tags and rules."""

from __future__ import annotations

from pathlib import Path

import pytest
from mistakes import Mistake, check_mistake

MISTAKES = (
    Mistake(
        "list of targets",
        "targets:\n  gap8: {}",
        "targets: [gap8, onnx_qdq]",
        "9:10",
        "'targets' must be a section of keys",
        "write `targets: {gap8: {}, onnx_qdq: {}}`",
        "targets: {gap8: {}, onnx_qdq: {}}",
    ),
    Mistake(
        "no such target",
        "gap8: {}",
        "gap9: {}",
        "10:3",
        "no target 'gap9' is installed",
        "did you mean 'gap8'?",
        "gap8: {}",
    ),
    Mistake(
        "no target", "  gap8: {}\n", "", "9:9", "'targets' names no target", "write `targets: {", "  ansi_c: {}\n"
    ),
    Mistake(
        "required option",
        "gap8: {}",
        "tpu: {}",
        "10:3",
        "the key 'chip' is missing",
        "add `chip: bm1684x`",
        "tpu: {chip: bm1684x}",
    ),
    Mistake(
        "correction",
        "gap8: {}",
        "gap8: {calibration: {corrections: [adaround]}}",
        "10:37",
        "does not offer the correction adaround",
        "it offers: equalize, bias_correction",
        "gap8: {calibration: {corrections: [bias_correction]}}",
    ),
    Mistake(
        "runner",
        "verify: {",
        "verify: {require: [hots], ",
        "11:20",
        "has a runner 'hots'",
        "did you mean 'host'?",
        "verify: {require: [host], ",
    ),
    Mistake(
        "tag of no layer",
        "gap8: {}",
        "gap8: {tags: {hp: [conf9]}}",
        "10:22",
        "tags.hp: 'conf9' matches no layer",
        "did you mean 'conv9'",
        "gap8: {tags: {hp: [conv9]}}",
    ),
    Mistake(
        "auto without a gate",
        "verify: {gates: {cosine: 0.99, sqnr_db: 20, max_abs: 10}}",
        "tags: {hp: auto}",
        "11:12",
        "`hp: auto` has no gate to search for",
        "add verify: {gates: {cosine: 0.999}}",
        "tags: {hp: auto}\nverify: {gates: {cosine: 0.999}}",
    ),
    Mistake(
        "rule",
        "gap8: {}",
        "gap8: {restructure: [fold_batchnorm]}",
        "10:24",
        "there is no rewrite rule 'fold_batchnorm'",
        "did you mean 'fold_batch_norm' (or batch_norm_to_conv",
        "gap8: {restructure: [fold_batch_norm]}",
    ),
    Mistake(
        "rule without options",
        "gap8: {}",
        "gap8: {restructure: [replace_tail]}",
        "10:24",
        "the rule 'replace_tail' cannot be without at",
        "write `replace_tail: {at: ...}`",
        "gap8: {restructure: [{replace_tail: {at: conv9}}]}",
    ),
)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_it_is_told_and_the_remedy_mends_it(
    mistake: Mistake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    check_mistake(mistake, tmp_path, monkeypatch, capsys)
