"""`decodeprof export`: what was read and found, for other programs."""

from __future__ import annotations

from pathlib import Path

import click

from decodeprof.cli.options import debug_option
from decodeprof.errors import UsageError


@click.command(
    "export",
    epilog="""\b
Examples:
  decodeprof export decodeprof-runs/generate-001 --perfetto
  decodeprof export trace.json.gz --perfetto --steps 3:6 --out steps.pftrace
""",
)
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--perfetto", is_flag=True, help="A timeline for ui.perfetto.dev.")
@click.option(
    "--steps",
    metavar="A:B",
    help="The timeline of the steps A to B - 1 alone, which opens fast; the first step is 0.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="The file; by default it goes into the recording, or for a trace into the current folder.",
)
@click.option("--force", is_flag=True, help="Replace what exists.")
@debug_option
def command(
    *, path: Path, perfetto: bool, steps: str | None, out: Path | None, force: bool
) -> None:
    """Write what is in PATH, a recording or a trace, in a format that other programs open.

    The names of the files that were written go to stdout.
    """
    from decodeprof.diagnosis.pipeline import analyze_path
    from decodeprof.export.files import timeline_path
    from decodeprof.export.perfetto.file import check_timeline, write_timeline_file
    from decodeprof.export.window import parse_steps

    if not perfetto:
        raise UsageError("no format was named", hint="add `--perfetto`")
    asked = parse_steps(steps) if steps is not None else None
    file = out if out is not None else timeline_path(path)
    check_timeline(file, force=force)
    write_timeline_file(analyze_path(path).evidence, file, force=force, steps=asked)
    click.echo(file)
