"""A site is known by its content: lines may move, but nothing new hides behind what is known."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from decodeprof.diagnosis.baseline import (
    baseline_json,
    baseline_of,
    may_be_replaced,
    new_sites,
    read_baseline,
)
from decodeprof.errors import DecodeprofError
from decodeprof.model.diagnosis import SyncSite
from tests.report.diagnoses import full, sync_site

LINELESS = {"file": None, "line": None, "function": None, "code": None, "in_user_code": None}


def new(before: list[SyncSite], after: list[SyncSite]) -> list[SyncSite]:
    return new_sites(full(syncs=after), baseline_of(full(syncs=before)))


def test_the_same_sites_are_known() -> None:
    assert new(full().syncs, full().syncs) == []


def test_a_site_that_moved_is_known() -> None:
    moved = sync_site(line=97, code="    next_token  = int(logits.argmax(-1))")
    before = sync_site(code="next_token = int(logits.argmax(-1))")
    assert new([before], [moved]) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"file": "other.py"},
        {"function": "sample"},
        {"code": "if bool(done.all()): break"},
        {"op": "aten::nonzero"},
        {"phase": "prefill"},
    ],
)
def test_another_file_function_text_op_or_phase_is_new(changes: dict[str, str]) -> None:
    after = sync_site(**changes)
    assert new([sync_site()], [sync_site(), after]) == [after]


def test_a_second_line_of_the_same_text_is_new() -> None:
    twin = sync_site(line=44)
    assert new([sync_site()], [sync_site(), twin]) == [twin]
    assert new([sync_site(), twin], [sync_site(line=50), sync_site(line=53)]) == []


def test_two_ops_of_one_line_do_not_make_room_for_a_second_line() -> None:
    other = sync_site(op="aten::nonzero")
    assert new([sync_site(), other], [sync_site(), other]) == []
    twin = sync_site(line=44)
    assert new([sync_site(), other], [sync_site(), other, twin]) == [twin]


def test_an_op_that_was_not_seen_agrees_with_any() -> None:
    detected = sync_site(op=None, api=None)
    assert new([sync_site()], [detected]) == []
    assert new([detected], [sync_site()]) == []


def test_how_often_a_known_line_runs_is_not_what_this_gates() -> None:
    assert new([sync_site(calls_per_step=1 / 16)], [sync_site(calls_per_step=1 / 31)]) == []


def test_without_a_line_more_calls_of_an_op_are_new() -> None:
    one = sync_site(**LINELESS)
    assert new([one], [one]) == []
    two = sync_site(**LINELESS, calls_per_step=2.0)
    assert new([one], [two]) == [two]
    assert new([two], [one]) == []
    other = sync_site(**{**LINELESS, "op": "aten::nonzero"})
    assert new([one], [one, other]) == [other]


def test_what_waits_by_chance_is_in_no_baseline() -> None:
    chance = [sync_site(api="cudaMemcpyAsync"), sync_site(api="cudaFree")]
    assert baseline_of(full(syncs=chance)).syncs == []
    assert new([], chance) == []


def test_a_file_read_again_is_the_same_and_knows_no_line_number(tmp_path: Path) -> None:
    baseline = baseline_of(full())
    path = tmp_path / "syncs.json"
    path.write_bytes(baseline_json(baseline))
    assert read_baseline(path) == baseline
    assert b"41" not in path.read_bytes()
    turned = full(syncs=list(reversed(full().syncs)))
    assert baseline_json(baseline_of(turned)) == baseline_json(baseline)


@pytest.mark.parametrize(
    ("data", "what", "code"),
    [
        (None, "there is no baseline", 2),
        (b"{", "is no baseline", 1),
        (b'{"syncs": []}', "is no baseline", 1),
        (b"\xff", "is no baseline", 1),
        (b'{"decodeprof_baseline": 2, "syncs": []}', "of another version", 1),
    ],
)
def test_what_is_no_baseline_is_said(
    data: bytes | None, what: str, code: int, tmp_path: Path
) -> None:
    path = tmp_path / "syncs.json"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(DecodeprofError) as caught:
        read_baseline(path)
    assert what in caught.value.what
    assert caught.value.exit_code == code


def test_only_a_baseline_is_written_over(tmp_path: Path) -> None:
    path = tmp_path / "syncs.json"
    assert may_be_replaced(path)
    path.write_bytes(baseline_json(baseline_of(full())))
    assert may_be_replaced(path)
    path.write_bytes(msgspec.json.encode({"mine": 1}))
    assert not may_be_replaced(path)
    assert not may_be_replaced(tmp_path)
