from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from decodeprof.reference.hf_story import table
from tests.golden import check_golden

ROOT = Path(__file__).parents[2]


def measured() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / "fixtures/hf_story/hf_story.json").read_text())
    return found


def test_the_report_is_made_of_what_was_measured() -> None:
    check_golden(ROOT / "reports/hf_story.txt", table.hf_story_text(measured()).encode())


def test_it_tells_every_variant() -> None:
    pytest.importorskip("torch")
    from decodeprof.reference.hf_story.variants import VARIANTS

    assert set(table.VARIANTS) == set(VARIANTS)


def test_what_is_not_measured_is_named_and_what_is_measured_is_not() -> None:
    results = measured()
    row = results["lengths"][0]
    results["lengths"] = [
        {**row, "name": name, "new_tokens": length}
        for name in table.VARIANTS
        for length in table.LENGTHS
    ]
    assert "Not measured" not in table.hf_story_text(results)
    last = results["lengths"].pop()
    found = table.hf_story_text(results)
    assert f"ran out: {last['name']} at {last['new_tokens']} tokens." in found


def test_a_steady_host_is_not_called_unsteady() -> None:
    results = measured()
    assert "the host is shared" in table.hf_story_text(results)
    for row in results["checks"]:
        row["seconds"] = row["batch"] / 100
    assert "the host is shared" not in table.hf_story_text(results)
