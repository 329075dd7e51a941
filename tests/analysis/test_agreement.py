"""Sources side by side: what counts as agreement, and causes that only a count proves."""

from __future__ import annotations

import pytest

from decodeprof.analysis.agreement import Comparison, Witness, compare

MS = 1_000_000


def witness(source: str, **values: float | None) -> Witness:
    return Witness(source, values)


def row(quantity: str, *witnesses: Witness) -> Comparison:
    return next(r for r in compare(witnesses) if r.quantity == quantity)


def test_one_source_is_compared_with_nothing() -> None:
    assert compare([witness("torch", kernels=5)]) == []
    # The unprofiled time is what a source is held against, not a second source.
    assert compare([witness("unprofiled", step_ns=MS), witness("torch", step_ns=MS)]) == []


def test_sources_stand_in_one_order_and_silent_ones_hold_none() -> None:
    found = row("kernels", witness("nsys", kernels=12), witness("torch", kernels=12))
    assert list(found.values.items()) == [("torch", 12), ("nsys", 12)]
    assert found.agrees is True
    found = row("syncs", witness("sync_debug", syncs=1), witness("nsys", syncs=None, kernels=3))
    assert found.values == {"sync_debug": 1, "nsys": None}
    assert found.agrees is None


@pytest.mark.parametrize(
    ("quantity", "a", "b", "agrees"),
    [
        ("kernels", 500, 504, True),
        ("kernels", 500, 510, False),
        ("graph_launches", 1, 0, False),
        ("busy_ns", 10 * MS, 10.4 * MS, True),
        ("busy_ns", 10 * MS, 11 * MS, False),
        ("step_ns", 20 * MS, 21.5 * MS, True),
        ("step_ns", 20 * MS, 30 * MS, False),
        ("syncs", 0, 0, True),
    ],
)
def test_how_far_apart_still_agrees(quantity: str, a: float, b: float, agrees: bool) -> None:
    found = row(quantity, witness("torch", **{quantity: a}), witness("nsys", **{quantity: b}))
    assert found.agrees is agrees


class TestSyncs:
    def test_driver_calls_that_torch_profiler_drops(self) -> None:
        torch = Witness("torch", {"syncs": 1.0}, sync_calls={"cudaStreamSynchronize": 1.0})
        calls = {"cudaStreamSynchronize": 1.0, "cuStreamSynchronize": 2.0}
        nsys = Witness("nsys", {"syncs": 3.0}, sync_calls=calls)
        found = row("syncs", torch, nsys)
        assert found.agrees is False
        assert found.explanation == (
            "torch.profiler does not record calls of the driver: cuStreamSynchronize"
        )

    def test_a_driver_call_that_does_not_account_for_it_explains_nothing(self) -> None:
        torch = Witness("torch", {"syncs": 1.0})
        nsys = Witness("nsys", {"syncs": 3.0}, sync_calls={"cuStreamSynchronize": 1.0})
        assert row("syncs", torch, nsys).explanation is None

    def test_waits_that_sync_debug_cannot_see(self) -> None:
        warned = Witness("sync_debug", {"syncs": 1.0}, sync_places={"loop.py:9": 1.0})
        places = {"loop.py:9": 1.0, "loop.py:12": 1.0}
        hooked = Witness("gpu_trace", {"syncs": 2.0}, sync_places=places)
        found = row("syncs", warned, hooked)
        assert found.explanation is not None
        assert found.explanation.endswith("not of those that are asked for: loop.py:12")

    def test_more_at_a_place_that_both_know_is_unexplained(self) -> None:
        warned = Witness("sync_debug", {"syncs": 1.0}, sync_places={"loop.py:9": 1.0})
        hooked = Witness("gpu_trace", {"syncs": 2.0}, sync_places={"loop.py:9": 2.0})
        found = row("syncs", warned, hooked)
        assert (found.agrees, found.explanation) == (False, None)

    def test_a_copy_that_blocks_calls_no_hook(self) -> None:
        hooked = Witness("gpu_trace", {"syncs": 0.0})
        torch = Witness("torch", {"syncs": 1.0}, sync_calls={"cudaMemcpy": 1.0})
        found = row("syncs", hooked, torch)
        assert found.explanation is not None
        assert found.explanation.startswith("cudaMemcpy blocks")

    def test_one_unexplained_difference_leaves_the_row_unexplained(self) -> None:
        hooked = Witness("gpu_trace", {"syncs": 0.0})
        torch = Witness("torch", {"syncs": 1.0}, sync_calls={"cudaMemcpy": 1.0})
        nsys = Witness("nsys", {"syncs": 5.0})
        assert row("syncs", hooked, torch, nsys).explanation is None


class TestTraces:
    def test_kernels_from_before_the_start_belong_to_no_step(self) -> None:
        torch = Witness("torch", {"kernels": 90.0}, steps=10, unlinked=100)
        nsys = Witness("nsys", {"kernels": 100.0}, steps=10)
        found = row("kernels", torch, nsys)
        assert found.explanation is not None
        assert "100 device activities in the torch.profiler trace have no launch" in (
            found.explanation
        )

    def test_too_few_of_them_explain_nothing(self) -> None:
        torch = Witness("torch", {"kernels": 90.0}, steps=10, unlinked=99)
        nsys = Witness("nsys", {"kernels": 100.0}, steps=10)
        assert row("kernels", torch, nsys).explanation is None

    def test_whole_graphs_are_silent_on_kernels_and_busy_inside(self) -> None:
        torch = Witness("torch", {"kernels": 90.0, "busy_ns": 10 * MS})
        nsys = Witness("nsys", {"kernels": None, "busy_ns": 12 * MS}, whole_graphs=True)
        kernels, busy = row("kernels", torch, nsys), row("busy_ns", torch, nsys)
        assert kernels.agrees is None
        assert kernels.explanation is not None
        assert busy.explanation is not None
        assert "gaps included" in busy.explanation

    def test_a_busy_time_that_differs_is_shown_unexplained(self) -> None:
        found = row("busy_ns", witness("torch", busy_ns=10 * MS), witness("nsys", busy_ns=12 * MS))
        assert (found.agrees, found.explanation) == (False, None)

    def test_steps_that_only_the_host_lengthens(self) -> None:
        torch = witness("torch", busy_ns=10 * MS, step_ns=40 * MS)
        nsys = witness("nsys", busy_ns=10 * MS, step_ns=60 * MS)
        found = row("step_ns", torch, nsys)
        assert found.explanation is not None
        assert "busy as long in both" in found.explanation
        slower = witness("nsys", busy_ns=14 * MS, step_ns=60 * MS)
        assert row("step_ns", torch, slower).explanation is None

    def test_a_profiler_makes_nothing_faster(self) -> None:
        sources = [witness("torch", step_ns=40 * MS), witness("nsys", step_ns=40 * MS)]
        slow = row("step_ns", witness("unprofiled", step_ns=20 * MS), *sources)
        assert slow.explanation is not None
        assert "the unprofiled time is the true one" in slow.explanation
        odd = row("step_ns", witness("unprofiled", step_ns=60 * MS), *sources)
        assert (odd.agrees, odd.explanation) == (False, None)
