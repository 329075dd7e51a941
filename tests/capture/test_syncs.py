"""Syncs are noted with their stacks, and the user's own warnings and filters are left alone."""

import warnings
from pathlib import Path

import pytest

from decodeprof.capture.invoke import Caller
from decodeprof.capture.places import Places
from decodeprof.capture.syncs import SyncCollector, warnings_noted
from decodeprof.capture.watch import Watch
from decodeprof.recording import SyncPass

SYNC = "called a synchronizing CUDA operation (Triggered internally at somewhere.cpp:1.)"
NOTICE = "Synchronization debug mode is a prototype feature and does not yet detect all"


def synchronise(text: str = SYNC) -> None:
    warnings.warn(text, UserWarning, stacklevel=1)


class Steps:
    now = 0


def noted(function, *, boundaries: int = 3) -> SyncPass:  # type: ignore[no-untyped-def]
    collector = SyncCollector(lambda: Steps.now)
    with warnings_noted(collector):
        synchronise()  # Not the target's.
        with collector.noting():
            Caller(Watch()).call(function)
        synchronise()
    return collector.result(Places(str(Path(__file__).parent)), boundaries=boundaries)


def test_each_sync_is_an_event_and_each_stack_a_site() -> None:
    def target() -> None:
        for step in (0, 1, 1, 2):
            Steps.now = step
            synchronise()
        synchronise()

    found = noted(target)
    assert [(event.step, event.site, event.kind) for event in found.events] == [
        (0, 0, "warned"),
        (1, 0, "warned"),
        (1, 0, "warned"),
        (2, 0, "warned"),
        (2, 1, "warned"),
    ]
    assert found.steps == 2
    assert len(found.sites) == 2
    first = found.sites[0]
    assert first.file == "test_syncs.py"
    assert first.function == "synchronise"
    assert first.code == "warnings.warn(text, UserWarning, stacklevel=1)"
    # From the target inwards: nothing of decodeprof, of pytest or of the warnings module.
    assert [line.split(" ")[1].rpartition(".")[2] for line in first.stack] == [
        "target",
        "synchronise",
    ]


def test_without_boundaries_a_sync_belongs_to_no_step() -> None:
    found = noted(synchronise, boundaries=0)
    assert [event.step for event in found.events] == [-1]
    assert found.steps == 0


def test_the_users_filters_are_neither_obeyed_nor_lost() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        before = list(warnings.filters)
        found = noted(lambda: [synchronise() for _ in range(3)])
        assert len(found.events) == 3
        assert list(warnings.filters) == before


def test_other_warnings_are_shown_and_the_notice_is_not() -> None:
    def target() -> None:
        synchronise("something else")
        synchronise(NOTICE)

    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        found = noted(target)
    assert found.events == []
    assert [str(each.message) for each in shown] == ["something else"]


def test_lines_are_quoted_with_their_neighbours() -> None:
    places = Places(str(Path(__file__).parent))
    collector = SyncCollector(lambda: 0)
    with warnings_noted(collector), collector.noting():
        Caller(Watch()).call(synchronise)
    site = collector.result(places, boundaries=1).sites[0]
    quoted = places.sources["test_syncs.py"]
    assert quoted[site.line].strip() == site.code
    assert set(range(site.line - 2, site.line + 1)) <= set(quoted)


def test_a_sync_in_library_code_stands_at_the_library_line() -> None:
    import torch

    torch_file = torch.__file__
    from decodeprof.capture.places import Frame

    package = str(Path(pytest.__file__).parents[1] / "transformers" / "generation" / "u.py")
    stack = [
        Frame(torch_file, 1, "item"),
        Frame(package, 5, "sample"),
        Frame(str(Path(__file__)), 3, "generate"),
    ]
    site = Places(str(Path(__file__).parent)).site(stack)
    assert (site.file, site.line, site.function) == ("transformers/generation/u.py", 5, "sample")
    assert site.stack == ["test_syncs.py:3 generate", "transformers/generation/u.py:5 sample"]
