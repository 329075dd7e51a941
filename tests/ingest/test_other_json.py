from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from decodeprof.ingest import other_json
from decodeprof.ingest.other_json import is_other_json
from tests.scenarios import decode_loop
from tests.write_kineto import kineto

OTHER = {
    "object": b'{"a": [1]}',
    "text": b'"words"',
    "list of numbers": b"[1, 2]",
    "behind a mark": b'\xef\xbb\xbf {"a": 1}',
}
PERHAPS_A_TRACE = {
    "no events": b'{"traceEvents": null, "a": 1}',
    "bare list": b'[{"ph": "X"}]',
    "empty list": b"[]",
    "empty": b"",
    "cut short": b'{"schemaVersion": 1, "trac',
    "not JSON": b"hello",
    "no text": b'{"a\xff": 1}',
    "deep": b"[" * 100_000,
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("content", OTHER.values(), ids=OTHER)
def test_sound_json_without_events_is(content: bytes, packed: bool, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(gzip.compress(content) if packed else content)
    assert is_other_json(path)


@pytest.mark.parametrize("content", PERHAPS_A_TRACE.values(), ids=PERHAPS_A_TRACE)
def test_what_may_be_left_of_a_trace_is_not(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    assert not is_other_json(path)


def test_a_trace_is_not_nor_what_is_too_large_nor_what_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(kineto(decode_loop().build()))
    assert not is_other_json(path)
    path.write_bytes(gzip.compress(OTHER["object"])[:-9])
    assert not is_other_json(path)
    path.write_bytes(gzip.compress(b'{"a": "' + b"x" * 100 + b'"}'))
    assert is_other_json(path)
    monkeypatch.setattr(other_json, "LARGEST_BYTES", 100)
    assert not is_other_json(path)
    assert not is_other_json(tmp_path)
    assert not is_other_json(tmp_path / "none")
