"""A device that waits inside a collective looks busy: the verdict must not call that work."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from decodeprof.diagnosis.pipeline import analyze_path
from decodeprof.diagnosis.verdict import Bound, judge, sentence_of
from tests.ranks import rank_loop
from tests.scenarios import US
from tests.write_kineto import write

BUSY = Bound(
    step_ns=1_000,
    device_floor_ns=1_000,
    busy_ns=1_000,
    sync_saving_ns=None,
    host_saving_ns=None,
    bytes_ns=300,
    flops_ns=10,
)


def told(collective_ns: int) -> str:
    bound = dataclasses.replace(BUSY, collective_ns=collective_ns)
    return sentence_of(judge(bound), bound, launching="", what="it", timed="")


def test_a_step_that_is_mostly_collectives_is_not_blamed_on_its_kernels() -> None:
    assert judge(BUSY) == "kernel"
    assert judge(dataclasses.replace(BUSY, collective_ns=500)) == "kernel"
    assert judge(dataclasses.replace(BUSY, collective_ns=501)) == "device"


def test_collectives_are_told_of_from_a_tenth_of_the_busy_time_on() -> None:
    assert "collectives" not in told(100)
    assert told(101).endswith(
        "Of the busy time 10 % is inside collectives alone, where a GPU that waits for other "
        "ranks looks busy and does no work."
    )


def sentence(path: Path, waits_ns: int, *, steps: int) -> str:
    write(path, rank_loop(waits_ns=waits_ns, steps=steps, collectives=2).build())
    return analyze_path(path).diagnosis.verdict.sentence


def test_the_share_is_that_of_the_step_that_is_shown(tmp_path: Path) -> None:
    step = analyze_path(write(tmp_path / "a.json", rank_loop().build())).diagnosis.step
    assert step is not None
    assert step.busy_ns is not None
    rest = step.busy_ns - 12 * US
    waits = 3 * rest - 24 * US  # so that three quarters of the busy time are collectives
    assert "75 % is inside collectives alone" in sentence(tmp_path / "b.json", waits, steps=5)
    assert "inside collectives alone" in sentence(tmp_path / "c.json", waits, steps=0)
