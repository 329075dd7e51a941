"""`decodeprof analyze`: a report from what was recorded earlier, anywhere."""

from __future__ import annotations

from pathlib import Path

import click

from decodeprof.cli.options import Output, debug_option, output_options
from decodeprof.cli.show import show_diagnosis


@click.command(
    "analyze",
    epilog="""\b
Examples:
  decodeprof analyze decodeprof-runs/generate-001
  decodeprof analyze trace.json.gz
  decodeprof analyze trace.json.gz --json > diagnosis.json
""",
)
@click.argument("path", type=click.Path(path_type=Path))
@output_options
@debug_option
def command(*, path: Path, output: Output) -> None:
    """Report on PATH: a recording's directory, or a trace of torch.profiler (.json or .json.gz).

    It needs neither a GPU nor torch, and executes nothing from the trace. A trace holds no
    unprofiled run: its report gives no unprofiled step time, and says so.
    """
    from decodeprof.diagnosis.pipeline import analyze_path

    show_diagnosis(analyze_path(path).diagnosis, output)
