from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.golden import check_golden
from tests.gpu.lint_agreement import CASES, compared, predicted, report

ROOT = Path(__file__).parents[2]


def kept() -> list[dict[str, Any]]:
    path = ROOT / "fixtures/lint_agreement/agreement.json"
    found: list[dict[str, Any]] = json.loads(path.read_text())
    return found


def test_the_report_is_made_of_the_rows() -> None:
    check_golden(ROOT / "reports/lint_agreement.txt", report(kept()).encode())


def test_every_case_was_predicted_and_seen_on_the_same_lines_as_often() -> None:
    rows = kept()
    assert [row["case"] for row in rows] == list(CASES)
    for row in rows:
        assert row["lines"] == row["gpu_trace_lines"], row["case"]
        assert row["lint"] == row["gpu_trace"] == row["cupti"], row["case"]
        assert row["lint_prefill"] == row["gpu_trace_prefill"] == row["cupti_prefill"], row["case"]


@pytest.mark.parametrize(
    "name", ["stage_plain", "stage_pipelined", "hf_gpt2_greedy", "hf_llama_beams"]
)
def test_lint_still_predicts_as_many_syncs_as_the_gpu_saw(name: str) -> None:
    pytest.importorskip("transformers")
    seen = next(row for row in kept() if row["case"] == name)
    now = compared(name, predicted(name), {"error": "no GPU is needed"})
    assert (now["whole_steps"], now["lint"], now["lint_prefill"]) == (
        seen["whole_steps"],
        seen["gpu_trace"],
        seen["gpu_trace_prefill"],
    )


def test_a_line_that_only_one_side_has_is_named() -> None:
    place = {"file": "loop.py", "line": 7}
    lint = {
        "decode_steps": 2,
        "syncs": [{"place": place, "in_decode": 2, "in_prefill": 0}],
        "copies": [],
        "hazards": None,
        "ops_per_step": 3,
    }
    seen = {"steps": 3, "events": [[1, "loop.py:9"], [3, "loop.py:7"]]}
    gpu = {"sync_debug": seen, "gpu_trace": seen, "cupti": {"1": 1}, "passes": {}}
    row = compared("a", lint, gpu)
    assert (row["missed_lines"], row["false_lines"]) == (["loop.py:9"], ["loop.py:7"])
    assert "missed ['loop.py:9'], false ['loop.py:7']" in report([row])
