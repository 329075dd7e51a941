"""Limits hold, fail, or cannot be told; nothing unknown passes."""

from __future__ import annotations

import msgspec
import pytest

from decodeprof.diagnosis.check import check
from decodeprof.model.diagnosis import Diagnosis, Floors, Source
from decodeprof.model.gate import Baseline, GateResult, Limits
from tests.report.diagnoses import cpu_run, figures, foreign_trace, full, sync_site

EMPTY = Baseline(decodeprof_baseline=1, syncs=[])


def without(diagnosis: Diagnosis, table: str) -> Diagnosis:
    source = Source(
        kind=diagnosis.source.kind,
        name=diagnosis.source.name,
        captured=[each for each in diagnosis.source.captured if each != table],
    )
    return msgspec.structs.replace(diagnosis, source=source)


def only(diagnosis: Diagnosis, **limits: float) -> GateResult:
    [result] = check(diagnosis, Limits(**limits)).results
    return result


@pytest.mark.parametrize(
    ("limits", "found"),
    [
        ({"max_launches": 2508}, 2508),
        ({"max_kernels": 2508}, 2508),
        ({"max_syncs": 1.0625}, 1.0625),
    ],
)
def test_a_count_at_its_limit_holds_and_one_above_fails(
    limits: dict[str, float], found: float
) -> None:
    held = only(full(), **limits)
    assert (held.answer, held.found) == ("held", found)
    tighter = {name: value - 0.001 for name, value in limits.items()}
    failed = only(full(), **tighter)
    assert (failed.answer, failed.found) == ("failed", found)


def test_graph_launches_are_launches() -> None:
    diagnosis = full(step=figures(launches=3.0, graph_launches=2.0))
    result = only(diagnosis, max_launches=4)
    assert (result.answer, result.found) == ("failed", 5)
    assert "3 kernel launches and 2 graph launches" in result.text


def test_too_many_syncs_are_shown_with_their_places() -> None:
    result = only(full(), max_syncs=0)
    assert [site.line for site in result.sites] == [41, 312]
    assert only(full(), max_syncs=2).sites == []


def test_what_only_a_detector_saw_counts_and_is_not_counted_twice() -> None:
    seen = sync_site(api=None, call_ns=None, calls_per_step=1 / 16)
    assert only(full(step=figures(syncs=0.0), syncs=[seen]), max_syncs=0).answer == "failed"
    # A call of the trace without a line may be the one that the detector has with its line.
    lineless = sync_site(file=None, line=None, function=None, code=None)
    same = full(step=figures(syncs=1.0), syncs=[lineless, sync_site(api=None)])
    assert only(same, max_syncs=1).answer == "held"


def test_what_waits_by_chance_is_not_counted() -> None:
    pageable = sync_site(api="cudaMemcpyAsync")
    freed = sync_site(api="cudaFree")
    result = only(full(step=figures(syncs=0.0), syncs=[pageable, freed]), max_syncs=0)
    assert (result.answer, result.found) == ("held", 0)


@pytest.mark.parametrize("name", ["max_syncs", "max_launches", "max_kernels", "min_mbu"])
def test_a_run_without_a_gpu_tells_nothing(name: str) -> None:
    result = only(cpu_run(), **{name: 0.0})
    assert result.answer == "unknown"
    assert result.found is None
    assert "nothing ran on a GPU" in result.text
    assert result.capture


@pytest.mark.parametrize(
    ("table", "limits"),
    [
        ("calls", {"max_syncs": 9}),
        ("calls", {"max_launches": 9_999}),
        ("device", {"max_kernels": 9_999}),
    ],
)
def test_what_was_not_captured_is_not_zero(table: str, limits: dict[str, float]) -> None:
    result = only(without(full(), table), **limits)
    assert result.answer == "unknown"
    assert "the capture does not hold" in result.text


def test_without_a_step_there_is_nothing_to_count_in() -> None:
    result = only(full(step=None), max_kernels=9_999)
    assert result.answer == "unknown"
    assert "no decode step" in result.text


def test_mbu_is_floor_bytes_over_the_unprofiled_step() -> None:
    # 278,900 ns of reading in a step of 49.7 ms.
    share = 278_900 / 49_700_000
    assert only(full(), min_mbu=share).answer == "held"
    failed = only(full(), min_mbu=share * 1.01)
    assert failed.answer == "failed"
    assert failed.found == share
    assert "1.19 GB" in failed.text


def test_mbu_in_profiled_time_is_enough_or_unknown() -> None:
    trace = msgspec.structs.replace(foreign_trace(), floors=full().floors)
    assert trace.step is not None
    assert trace.step.unprofiled_ns is None
    assert trace.step.profiled_ns is not None
    share = 278_900 / trace.step.profiled_ns
    assert only(trace, min_mbu=share).answer == "held"
    result = only(trace, min_mbu=share * 1.01)
    assert result.answer == "unknown"
    assert result.found == share


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"bytes": None, "bytes_ns": None}, "bytes"),
        ({"bytes_ns": None, "bandwidth_bytes_per_s": None}, "bandwidth"),
    ],
)
def test_mbu_without_bytes_or_bandwidth_is_unknown(changes: dict[str, None], reason: str) -> None:
    floors = full().floors
    assert isinstance(floors, Floors)
    result = only(full(floors=msgspec.structs.replace(floors, **changes)), min_mbu=0)
    assert result.answer == "unknown"
    assert reason in result.text


def test_one_failure_outweighs_what_could_not_be_told() -> None:
    blind = without(full(), "calls")
    assert check(blind, Limits(max_launches=1, max_kernels=9_999)).answer == "unknown"
    assert check(blind, Limits(max_launches=1, max_kernels=1)).answer == "failed"
    assert check(full(), Limits(max_launches=9_999, max_kernels=9_999)).answer == "held"


def test_new_syncs_against_an_empty_baseline() -> None:
    result = check(full(), Limits(), baseline=EMPTY).results[0]
    assert (result.answer, result.found) == ("failed", 3)
    assert result.sites == full().syncs


def test_new_syncs_cannot_be_told_without_api_calls() -> None:
    blind = msgspec.structs.replace(without(full(), "calls"), syncs=[])
    assert check(blind, Limits(), baseline=EMPTY).answer == "unknown"
