"""The worked example's part of the README, made from what was recorded."""

from __future__ import annotations

import functools
import json

from decodeprof import units
from decodeprof.cli import staged
from decodeprof.cli.demo import FIXTURES
from decodeprof.report.stages import StageTable, figures, titles

BEGIN = "<!-- from the recordings: begin -->\n"
END = "<!-- from the recordings: end -->\n"
LARGE = FIXTURES / "stages_table/stages_8b.json"


@functools.cache
def recorded_stages() -> StageTable:
    """The table of the recordings, made once: it reads and analyses all of them."""
    return staged.recorded_stages(FIXTURES)


def readme_part() -> str:
    """What stands between the README's two marks."""
    return f"{_table(recorded_stages())}\n{_large()}"


def _table(table: StageTable) -> str:
    left = "| --- |" + " ---: |" * (len(titles()) - 1)
    lines = [f"| {' | '.join(titles())} |", left]
    lines += [f"| `{row.name}` | {' | '.join(figures(row)[1:])} |" for row in table.rows]
    return "\n".join(lines) + "\n"


def _large() -> str:
    found = json.loads(LARGE.read_bytes())
    floor_ns = found["weight_bytes"] / found["bandwidth_bytes_per_s"] * 1e9
    steps = [f"`{stage['name']}` {units.time(stage['step_ns'])}" for stage in found["stages"]]
    nearest = min(stage["step_ns"] for stage in found["stages"]) / floor_ns
    return (
        f"At the 8B shape a step reads {units.bytes_(found['weight_bytes'])}, which takes "
        f"{units.time(floor_ns)} at {units.bandwidth(found['bandwidth_bytes_per_s'])}.\n"
        f"Measured: {', '.join(steps)};\n"
        f"the shortest is {units.ratio(nearest)} that floor.\n"
    )
