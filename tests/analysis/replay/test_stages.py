"""Replay against the shipped recordings of every stage of the worked example."""

from pathlib import Path

import pytest

from decodeprof.analysis.replay.errors import reproduce
from decodeprof.ingest.read import read_trace
from tests.analysis.replay.sources import source_of

FIXTURES = Path(__file__).parents[3] / "fixtures"
STAGES = sorted(path.parent.name for path in FIXTURES.glob("stage_*/trace.json.gz"))
LARGEST_ERROR = 0.015


def test_there_are_stages() -> None:
    assert {"stage_graph", "stage_matvec", "stage_overlap", "stage_pipelined"} <= set(STAGES)


@pytest.mark.parametrize("stage", STAGES)
def test_unchanged_replay_reproduces_a_stage(stage: str) -> None:
    found = reproduce(source_of(read_trace(FIXTURES / stage / "trace.json.gz")))
    assert found is not None
    assert len(found.steps) >= 5
    assert found.error_share <= LARGEST_ERROR
