"""`decodeprof compare`: what changed per step, and did the prediction come true?"""

from __future__ import annotations

from pathlib import Path

import click

from decodeprof.cli.options import NamedPath, Output, debug_option, output_options
from decodeprof.cli.show import show_view, write_data
from decodeprof.errors import UsageError


@click.command(
    "compare",
    epilog="""\b
Examples:
  decodeprof compare
  decodeprof compare decodeprof-runs/generate-001 decodeprof-runs/generate-002
  decodeprof compare before.json.gz after.json.gz --json
""",
)
@click.argument("before", type=NamedPath(), required=False)
@click.argument("after", type=NamedPath(), required=False)
@output_options
@debug_option
def command(*, before: Path | None, after: Path | None, output: Output) -> None:
    """Set two recordings or traces side by side, BEFORE and AFTER a change.

    With no arguments, the last two recordings below decodeprof-runs. Which change was made is read
    off the counts, and its prediction in BEFORE is held against the step time in AFTER.
    """
    import msgspec

    from decodeprof.diagnosis.compare import compare
    from decodeprof.diagnosis.pipeline import analyze_path
    from decodeprof.report.comparison import comparison_view

    if before is None:
        before, after = _last_two()
    if after is None:
        raise UsageError(
            "compare takes two paths, or none",
            why=f"only `{before}` was named",
            hint="decodeprof compare BEFORE AFTER",
        )
    found = compare(analyze_path(before).diagnosis, analyze_path(after).diagnosis)
    if output.as_json:
        encoded = msgspec.json.encode(found, order="deterministic")
        write_data(msgspec.json.format(encoded, indent=1) + b"\n")
        return
    show_view(comparison_view(found), output)


def _last_two() -> tuple[Path, Path]:
    from decodeprof.capture.directory import DEFAULT_PARENT
    from decodeprof.recording import RECORDING_FILE

    found = sorted(
        DEFAULT_PARENT.glob(f"*/{RECORDING_FILE}"), key=lambda p: (p.stat().st_mtime_ns, str(p))
    )
    if len(found) < 2:
        raise UsageError(
            "there are no two recordings to compare",
            why=f"`{DEFAULT_PARENT}` here holds {len(found)}",
            hint="name two: decodeprof compare BEFORE AFTER",
        )
    return found[-2].parent, found[-1].parent
