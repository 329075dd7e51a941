from __future__ import annotations

from dataclasses import replace

import pytest

from decodeprof.ingest.distributed import member_of
from decodeprof.ingest.read import read_trace
from decodeprof.model.trace import Member
from tests import traces
from tests.reading import trace_of
from tests.scenarios import decode_loop
from tests.write_kineto import LAYOUTS, MODERN

INFO = {
    "backend": "nccl",
    "rank": 3,
    "world_size": 4,
    "pg_count": 3,
    "pg_config": [
        {"pg_name": "0", "pg_size": 4, "ranks": [0, 1, 2, 3]},
        {"pg_name": "1", "pg_size": 2, "ranks": [3, 2]},
        {"pg_name": "2", "pg_size": 1, "ranks": [3]},
    ],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_rank_is_read_in_every_layout(layout: str) -> None:
    scenario = decode_loop(steps=1).build()
    trace = trace_of(scenario, layout, replace(MODERN, distributed=INFO))
    assert trace.member == Member(rank=3, world_size=4, groups=((0, 1, 2, 3), (2, 3)))
    assert trace_of(scenario, layout).member is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b"", None),
        (b"{}", None),
        (b"[]", None),
        (b'"rank 3"', None),
        (b'{"rank": -1}', None),
        (b'{"rank": {"of": 3}}', None),
        (b'{"rank": "2", "world_size": "8"}', Member(rank=2, world_size=8)),
        (b'{"rank": 1, "world_size": 0}', Member(rank=1)),
        (b'{"rank": 4, "world_size": 4}', None),
        (b'{"rank": 3, "world_size": 10000000000000}', None),
        (b'{"rank": 10000000000000}', None),
        (b'{"rank": 1, "pg_config": {"0": "nccl"}}', Member(rank=1)),
        (b'{"rank": 1, "pg_config": [{"ranks": "0,1"}]}', Member(rank=1)),
        (b'{"rank": 1, "pg_config": [{"ranks": [null, 1]}]}', Member(rank=1)),
    ],
)
def test_odd_metadata_is_no_error(text: bytes, found: Member | None) -> None:
    assert member_of(text) == found


@pytest.mark.traces
@traces.needs_traces
@pytest.mark.parametrize(
    ("name", "rank", "world_size"), [("cpu_only", 34, 300), ("sglang_decode_cudagraph_b300", 0, 1)]
)
def test_real_metadata(name: str, rank: int, world_size: int) -> None:
    folder = traces.folder()
    assert folder is not None
    member = read_trace(folder / "torch" / f"{name}.json.gz").member
    assert member is not None
    assert (member.rank, member.world_size) == (rank, world_size)
    assert all(rank in group for group in member.groups)
