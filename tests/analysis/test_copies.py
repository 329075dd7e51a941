from __future__ import annotations

import pytest

from decodeprof import mark
from decodeprof.analysis.copies import TO_DEVICE, TO_HOST, HostCopies, host_copies
from decodeprof.analysis.nesting import nest
from decodeprof.analysis.sites import sites_of
from tests.build import TraceBuilder
from tests.reading import gaps_of, steps_of, trace_of

US = 1_000


def copies_of(b: TraceBuilder) -> list[HostCopies]:
    trace = trace_of(b.build())
    steps, nesting = steps_of(trace), nest(trace)
    rows = steps.rows("decode")
    sites = sites_of(trace, steps, gaps_of(trace), rows=rows, nesting=nesting, seen=())
    return host_copies(trace, steps, rows=rows, nesting=nesting, sites=sites)


def in_a_step(b: TraceBuilder, name: str, *, waits: bool) -> None:
    with b.annotation(mark.label(mark.STEP, phase="decode")):
        b.launch("kernel", 5 * US)
        with b.op("aten::copy_"):
            b.copy(1 * US, name=name, size=32)
            if waits:
                b.sync(stream=7)


@pytest.mark.parametrize(
    ("name", "direction", "pageable"),
    [
        ("Memcpy HtoD (Pageable -> Device)", TO_DEVICE, True),
        ("Memcpy HtoD (Pinned -> Device)", TO_DEVICE, False),
        ("Memcpy DtoH (Device -> Pageable)", TO_HOST, True),
        ("Memcpy DtoH (Device -> Pinned)", TO_HOST, False),
    ],
)
@pytest.mark.parametrize("waits", [True, False])
def test_direction_memory_and_wait(name: str, direction: str, pageable: bool, waits: bool) -> None:
    b = TraceBuilder()
    for _ in range(3):
        in_a_step(b, name, waits=waits)
    assert copies_of(b) == [
        HostCopies(
            direction=direction,
            pageable=pageable,
            op="aten::copy_",
            site=0 if waits else None,
            count=3,
            bytes=96,
        )
    ]


def test_copies_within_the_device_are_none() -> None:
    b = TraceBuilder()
    for _ in range(3):
        in_a_step(b, "Memcpy DtoD (Device -> Device)", waits=False)
    assert copies_of(b) == []


def test_a_copy_that_blocks_by_itself_is_its_own_site() -> None:
    b = TraceBuilder()
    for _ in range(3):
        with b.annotation(mark.label(mark.STEP, phase="decode")):
            b.launch("kernel", 5 * US)
            b.copy(1 * US, name="Memcpy DtoH (Device -> Pageable)", api="cudaMemcpy", waits=True)
    [copy] = copies_of(b)
    assert (copy.site, copy.op, copy.count) == (0, None, 3)
