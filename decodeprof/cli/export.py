"""`decodeprof export`: what was read and found, for other programs."""

from __future__ import annotations

from pathlib import Path

import click

from decodeprof.cli.options import NamedPath, NewPath, debug_option
from decodeprof.errors import UsageError


@click.command(
    "export",
    epilog="""\b
Examples:
  decodeprof export decodeprof-runs/generate-001 --perfetto
  decodeprof export trace.json.gz --perfetto --steps 3:6 --out steps.pftrace
  decodeprof export trace.json.gz --parquet --out tables
""",
)
@click.argument("path", type=NamedPath())
@click.option("--perfetto", is_flag=True, help="A timeline for ui.perfetto.dev.")
@click.option(
    "--csv", is_flag=True, help="Tables: steps, gaps, syncs, kernels, what_ifs and findings."
)
@click.option("--parquet", is_flag=True, help="The same tables for pandas, DuckDB and polars.")
@click.option(
    "--steps",
    metavar="A:B",
    help="The timeline of the steps A to B - 1 alone, which opens fast; the first step is 0.",
)
@click.option(
    "--out",
    type=NewPath(),
    metavar="PATH",
    help="The timeline's file, or the tables' folder; by default in the recording, or for a trace "
    "in the current folder.",
)
@click.option("--force", is_flag=True, help="Replace what exists.")
@debug_option
def command(
    *,
    path: Path,
    perfetto: bool,
    csv: bool,
    parquet: bool,
    steps: str | None,
    out: Path | None,
    force: bool,
) -> None:
    """Write what is in PATH, a recording or a trace, in a format that other programs open.

    The names of the files that were written go to stdout.
    """
    from decodeprof.diagnosis.pipeline import analyze_path
    from decodeprof.export.files import check_source_kept, tables_path, timeline_path
    from decodeprof.export.perfetto.file import check_timeline, write_timeline_file
    from decodeprof.export.table_files import check_tables, formats_of, write_tables
    from decodeprof.export.tables import idle_of, tables_of
    from decodeprof.export.window import parse_steps

    formats = formats_of(csv=csv, parquet=parquet)
    _check(perfetto=perfetto, tables=bool(formats), steps=steps, out=out)
    asked = parse_steps(steps) if steps is not None else None
    timeline, folder = out or timeline_path(path), out or tables_path(path)
    # What cannot be written is said before the analysis, not after it.
    if perfetto:
        check_source_kept(timeline, path)
        check_timeline(timeline, force=force)
    if formats:
        check_tables(folder, formats, force=force)
    analyzed = analyze_path(path)
    if perfetto:
        write_timeline_file(analyzed.evidence, timeline, force=force, steps=asked)
        click.echo(timeline)
    if formats:
        tables = tables_of(analyzed.diagnosis, idle_of(analyzed.evidence))
        for file in write_tables(tables, folder, formats, force=force):
            click.echo(file)


def _check(*, perfetto: bool, tables: bool, steps: str | None, out: Path | None) -> None:
    if not (perfetto or tables):
        raise UsageError("no format was named", hint="add `--perfetto`, `--csv` or `--parquet`")
    if perfetto and tables and out is not None:
        raise UsageError(
            "`--out` names one place",
            why="a timeline is a file, tables go into a folder",
            hint="export them one after the other, or leave `--out` away",
        )
    if steps is not None and not perfetto:
        raise UsageError(
            "`--steps` is of the timeline alone",
            why="the tables have a column `step` to choose by",
            hint="add `--perfetto`, or leave `--steps` away",
        )
