from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from decodeprof.diagnosis.ranks import analyze_ranks
from decodeprof.errors import InputError, UsageError
from decodeprof.model import ranks as contract
from decodeprof.report.ranks import ranks_view
from decodeprof.report.terminal import text
from tests import write_nsys
from tests.ranks import MOVING_NS, rank_loop, write_rank, write_ranks
from tests.scenarios import US
from tests.write_kineto import write
from tests.write_nsys import as_nsys_sees


def test_the_late_rank_is_found_and_what_the_others_wait(tmp_path: Path) -> None:
    late = [10 * US, 70 * US, 0, 20 * US]
    report = analyze_ranks(write_ranks(tmp_path, late))
    assert (report.slowest, report.slowest_by, report.world_size) == (1, "own time", 4)
    assert report.missing == []
    assert [rank.rank for rank in report.ranks] == [0, 1, 2, 3]
    assert [rank.waiting_ns for rank in report.ranks] == [70 * US - one for one in late]
    assert report.own_ns is not None
    assert report.stretch_ns is not None
    assert report.own_ns.high - report.own_ns.low == 70 * US
    assert (report.own_ns.high_rank, report.own_ns.low_rank) == (1, 2)
    assert report.stretch_ns.low == report.stretch_ns.high
    for rank in report.ranks:
        assert rank.waiting_ns is not None
        assert rank.collective_ns == MOVING_NS
        parts = rank.compute_ns + rank.collective_ns + rank.waiting_ns + rank.idle_ns
        assert parts == rank.stretch_ns
        step = rank.diagnosis.step
        assert step is not None
        assert step.busy_ns == rank.stretch_ns - rank.idle_ns
        assert (rank.collectives, rank.syncs) == (1, 1)
    assert report.differences == []
    assert report.sentence.startswith("Rank 1 holds the others up")
    assert "Rank 2 waits 70 µs inside collectives" in report.sentence


def test_even_ranks_accuse_nobody(tmp_path: Path) -> None:
    report = analyze_ranks(write_ranks(tmp_path, [0, 1 * US]))
    assert report.slowest is None
    assert report.sentence.startswith("The 2 ranks are even")


def test_ranks_that_launch_more_are_named(tmp_path: Path) -> None:
    paths = write_ranks(tmp_path, [0, 0, 0])
    write_rank(paths[1], rank_loop(extra_kernels=3).build(), 1, 3)
    report = analyze_ranks(paths)
    assert report.differences is not None
    found = {d.quantity: (d.odd, d.usual) for d in report.differences}
    usual = report.ranks[0].kernels
    assert usual is not None
    assert found == {"kernels": ({1: usual + 3}, usual), "launches": ({1: usual + 3}, usual)}


def test_two_ranks_that_differ_are_both_named(tmp_path: Path) -> None:
    paths = write_ranks(tmp_path, [0, 0])
    write_rank(paths[1], rank_loop(extra_kernels=1).build(), 1, 2)
    differences = analyze_ranks(paths).differences
    assert differences is not None
    (found,) = [d for d in differences if d.quantity == "kernels"]
    assert (found.usual, sorted(found.odd)) == (None, [0, 1])


def test_a_missing_rank_makes_waiting_a_lower_bound(tmp_path: Path) -> None:
    report = analyze_ranks(write_ranks(tmp_path, [0, 90 * US, 30 * US])[::2])
    assert (report.world_size, report.missing) == (3, [1])
    assert [rank.waiting_ns for rank in report.ranks] == [30 * US, 0]
    (caveat,) = [text for text in report.caveats if text.startswith("Of 3 ranks 2 were analysed")]
    assert "no trace of 1, so that the waiting inside collectives is a lower bound" in caveat
    alone = analyze_ranks(write_ranks(tmp_path, [0, 90 * US])[:1])
    (caveat,) = [text for text in alone.caveats if "ranks" in text]
    assert caveat == "Of 2 ranks 1 was analysed; there is no trace of 1."


def test_groups_of_some_ranks_leave_the_waiting_unknown(tmp_path: Path) -> None:
    paths = write_ranks(tmp_path, [0, 40 * US])
    files = (tmp_path / "plain.json", tmp_path / "other.json")
    for rank, path in enumerate(files):
        write_rank(path, rank_loop(waits_ns=rank * 40 * US).build(), rank, 4)
        groups = '"ranks": [0, 1, 2, 3]', f'"ranks": [{rank}, {rank + 2}]'
        path.write_text(path.read_text().replace(*groups))
    report = analyze_ranks(files)
    assert [rank.waiting_ns for rank in report.ranks] == [None, None]
    assert report.waiting_unknown is not None
    assert "several process groups" in report.waiting_unknown
    assert (report.slowest, report.slowest_by, report.own_ns) == (1, "stretch", None)
    assert "which is no work done, cannot be told" in report.sentence
    assert analyze_ranks(paths).waiting_unknown is None


def test_bad_files_are_named_and_the_others_go_on(tmp_path: Path) -> None:
    paths = write_ranks(tmp_path, [0, 0])
    (tmp_path / "notes.json").write_text('{"a": 1}')
    report = analyze_ranks([*paths, tmp_path / "notes.json", tmp_path / "nowhere.json"])
    assert [rank.rank for rank in report.ranks] == [0, 1]
    assert [failed.name for failed in report.failed] == [
        str(tmp_path / "notes.json"),
        str(tmp_path / "nowhere.json"),
    ]
    assert all(failed.what for failed in report.failed)
    with pytest.raises(InputError, match="of 2 traces none could"):
        analyze_ranks([tmp_path / "notes.json", tmp_path / "nowhere.json"])
    with pytest.raises(UsageError, match="of 1 trace none could"):
        analyze_ranks([tmp_path / "nowhere.json"])


def test_ranks_without_metadata_are_numbered_by_name(tmp_path: Path) -> None:
    paths = write_ranks(tmp_path, [0, 0], names="run_rank{rank}.json", said=False)
    report = analyze_ranks(paths[::-1])
    assert [(rank.rank, rank.rank_from) for rank in report.ranks] == [(0, "name"), (1, "name")]
    assert report.world_size is None


def test_ranks_without_steps_are_compared_over_the_recording(tmp_path: Path) -> None:
    paths = []
    for rank in range(2):
        scenario = rank_loop(steps=0, waits_ns=rank * 50 * US).build()
        paths.append(write(tmp_path / f"rank{rank}.json", scenario))
    report = analyze_ranks(paths)
    kinds = {rank.stretch for rank in report.ranks}
    assert kinds <= {"prefill", "window"}
    assert report.stretch_ns is not None
    assert [rank.waiting_ns for rank in report.ranks] == [0, 50 * US]


def test_stretches_of_different_kinds_are_not_compared(tmp_path: Path) -> None:
    paths = write_ranks(tmp_path, [0, 0])
    write_rank(paths[1], rank_loop(steps=0).build(), 1, 2)
    report = analyze_ranks(paths)
    assert len({rank.stretch for rank in report.ranks}) == 2
    assert (report.stretch_ns, report.differences, report.slowest) == (None, None, None)
    told = text(ranks_view(report), width=100)
    assert "unknown: their figures are of stretches of different kinds" in told
    assert "equally often" not in told


def test_calls_that_were_not_captured_are_unknown_and_not_none(tmp_path: Path) -> None:
    names = ["rank0.sqlite", "rank1.sqlite"]
    paths = [
        write_nsys.write(tmp_path / name, as_nsys_sees(rank_loop(steps=0).build()))
        for name in names
    ]
    with closing(sqlite3.connect(paths[1])) as database:
        database.execute("DROP TABLE CUPTI_ACTIVITY_KIND_RUNTIME")
        database.commit()
    last = analyze_ranks(paths).ranks[1]
    assert last.stretch == "window"
    assert (last.launches, last.graph_launches, last.syncs) == (None, None, None)
    assert last.kernels


def test_the_schema_is_that_of_the_types() -> None:
    path = Path(contract.__file__).with_name("ranks.schema.json")
    assert path.read_bytes() == contract.json_schema()
