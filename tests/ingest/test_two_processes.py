"""A second process reads half of a file: the trace is the same, or one process reads it alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from decodeprof.ingest.torch_trace import parse_file
from decodeprof.ingest.two_processes import read_in_two
from tests.bench import generate
from tests.ingest import reference
from tests.scenarios import decode_loop
from tests.write_kineto import LAYOUTS, write


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("two") / "trace.json"
    generate.write(path, steps=3)
    return path


def test_the_same_trace_and_the_truth(path: Path) -> None:
    both = read_in_two(path)
    assert both is not None
    one, two = parse_file(path, two_processes=False), parse_file(path, two_processes=True)
    assert reference.rows_of(two) == reference.rows_of(one) == reference.read(path.read_bytes())
    assert (two.devices, two.captured, two.origin_ns, two.caveats, two.versions) == (
        one.devices, one.captured, one.origin_ns, one.caveats, one.versions,
    )  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
def test_in_every_layout(tmp_path: Path, layout: str) -> None:
    path = write(tmp_path / "a.json", decode_loop(steps=2, layers=2).build(), layout)
    assert read_in_two(path) is not None
    assert reference.rows_of(parse_file(path, two_processes=True)) == reference.rows_of(
        parse_file(path, two_processes=False)
    )


@pytest.mark.parametrize("share", [0.3, 0.8, 1.0])
def test_a_damaged_file_is_left_to_one(path: Path, tmp_path: Path, share: float) -> None:
    text = bytearray(path.read_bytes())
    damaged = tmp_path / "damaged.json"
    if share == 1.0:
        del text[-len(text) // 4 :]
    else:
        at = int(len(text) * share)
        text[at : at + 200] = b"\xff" * 200
    damaged.write_bytes(text)
    assert read_in_two(damaged) is None
    assert parse_file(damaged, two_processes=True).caveats


def test_what_is_no_trace_is_left_to_one(tmp_path: Path) -> None:
    for text in (b"", b"{}", b"[]", b"[1, 2]", b'{"traceEvents": [{"ph": "X"}]}'):
        path = tmp_path / "a.json"
        path.write_bytes(text)
        assert read_in_two(path) is None
