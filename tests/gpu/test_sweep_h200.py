"""What the sweeps keep: traces of both ends and of the first point behind the crossing."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.gpu import sweep_h200
from tests.gpu.keep_sweeps import keep
from tests.gpu.sweep_h200 import PARTS, POINTS, run_part, traced, visible, whole_lines, write_traces


def timed(value: int, eager: int, graph: int) -> dict[str, Any]:
    return {"kind": "timed", "value": value, "eager_ns": [eager], "graph_ns": [graph]}


def test_the_point_behind_the_crossing_is_the_first_where_a_graph_gains_nothing() -> None:
    lines = [{"spec": {}}, timed(1, 100, 10), timed(2, 100, 60), timed(4, 120, 115)]
    assert traced([*lines, timed(8, 230, 229)]) == {1: 3, 4: 2, 8: 2}
    assert traced(lines) == {1: 3, 4: 2}
    # A point that failed is none.
    assert traced([*lines, {"kind": "failed", "value": 4, "reason": "out of memory"}]) == {
        1: 3,
        2: 2,
    }


def test_the_gpus_are_those_that_were_told() -> None:
    assert visible(1, "3") == ["3"]
    assert visible(2, "5,6,7") == ["5", "6"]
    assert visible(2, None) == visible(2, "") == ["0", "1"]


def test_without_a_crossing_both_ends_are_kept() -> None:
    assert traced([timed(1, 100, 10), timed(2, 100, 60)]) == {1: 3, 2: 2}
    assert traced([{"spec": {}}]) == {}


@pytest.mark.filterwarnings("ignore:.*Profiler clears events.*:UserWarning")
def test_a_trace_is_kept_and_cut_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = sweep_h200.SweepSpec(phase="toy", axis="batch", values=(1, 2), layers=2, width=16)
    monkeypatch.setitem(PARTS, "toy", small)
    (tmp_path / "toy").mkdir()
    write_traces("toy", {2: 3}, tmp_path / "toy")
    (tmp_path / "toy" / POINTS).write_text('{"device": "NVIDIA H200", "torch": "2"}\n')
    keep(tmp_path / "toy", tmp_path / "kept", "toy", note="")
    assert 'device = "NVIDIA H200"' in (tmp_path / "kept" / "PROVENANCE.toml").read_text()
    text = gzip.decompress((tmp_path / "kept" / "batch_2.json.gz").read_bytes())
    events = json.loads(text)["traceEvents"]
    assert sum(e["name"] == "decodeprof.step phase=decode" for e in events) == 3
    assert any("Input Dims" in e["args"] for e in events)
    assert not any("Record function id" in e["args"] for e in events)
    assert b"traceName" not in text


def test_a_part_that_was_cut_off_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = sweep_h200.SweepSpec(phase="toy", axis="batch", values=(1, 2), layers=2, width=16)
    monkeypatch.setitem(PARTS, "toy", small)
    run_part("toy", tmp_path, 60)
    path = tmp_path / POINTS
    whole = whole_lines(path)
    assert [json.loads(line).get("kind") for line in whole] == [None, "timed", "timed", "again"]
    path.write_text("\n".join(whole[:2]) + '\n{"value": 2, "kind": "tim')
    run_part("toy", tmp_path, 60)
    kinds = [(x.get("value"), x.get("kind")) for x in map(json.loads, whole_lines(path))]
    assert kinds == [(None, None), (1, "timed"), (2, "timed"), (1, "again")]
