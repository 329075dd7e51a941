"""What a diagnosis' rows say of kernels."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from decodeprof.diagnosis.pipeline import analyze_path
from decodeprof.model.diagnosis import KernelRow
from tests.scenarios import decode_loop
from tests.write_kineto import write

FIXTURE = Path(__file__).parents[2] / "fixtures" / "plain_0p6b"


def check(kernels: list[KernelRow]) -> int:
    """Hold each family against its names; how many families have bytes."""
    named: dict[str, list[KernelRow]] = defaultdict(list)
    for row in kernels:
        if row.name is not None:
            named[row.family].append(row)
    families = [row for row in kernels if row.name is None]
    assert {row.family for row in families} == set(named)
    times = [row.time_ns_per_step for row in families]
    assert times == sorted(times, reverse=True)
    for row in families:
        members = named[row.family]
        # Each is rounded on its own.
        assert row.time_ns_per_step == pytest.approx(
            sum(one.time_ns_per_step for one in members), abs=len(members)
        )
        sizes = [one.bytes for one in members if one.bytes is not None]
        if len(sizes) < len(members):
            assert (row.bytes, row.achieved_bytes_per_s) == (None, None)
            continue
        assert row.bytes == pytest.approx(sum(sizes), abs=len(members))
        assert row.achieved_bytes_per_s == pytest.approx(
            sum(sizes) * 1e9 / row.time_ns_per_step, rel=0.01
        )
    return sum(row.bytes is not None for row in families)


@pytest.mark.skipif(not FIXTURE.is_dir(), reason="no recordings in this checkout")
def test_a_familys_bytes_are_those_of_its_kernels() -> None:
    assert check(analyze_path(FIXTURE).diagnosis.kernels) > 3


def test_without_shapes_a_familys_bytes_are_unknown(tmp_path: Path) -> None:
    kernels = analyze_path(write(tmp_path / "t.json", decode_loop().build())).diagnosis.kernels
    check(kernels)
    assert all(row.bytes is None for row in kernels if row.family == "matrix")
