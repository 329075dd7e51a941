"""`decodeprof rollup`: one table of thousands of traces, wherever they lie."""

from __future__ import annotations

import time

import click

from decodeprof import units
from decodeprof.cli.options import Output, PlainOption, debug_option, output_options, say
from decodeprof.cli.show import show_view, write_data
from decodeprof.errors import EXIT_COULD_NOT, UsageError
from decodeprof.model.rollup import Progress, Summary

# How often it is said how far it is, where nobody may be looking: a log should stay readable.
_SAID_EVERY_S = 5.0


@click.command(
    "rollup",
    epilog="""\b
Examples:
  decodeprof rollup 'traces/**/*.json.gz' --out table.parquet
  decodeprof rollup s3://bucket/2026-11-30/ --out s3://bucket/table.parquet
  decodeprof rollup gs://bucket/traces/ --out table.parquet --scheduler tcp://10.0.0.5:8786
""",
)
@click.argument("sources", metavar="GLOB_OR_URL…", nargs=-1, required=True)
@click.option(
    "--out",
    required=True,
    metavar="TABLE",
    help="Folder of the table, or its URL; what it holds already is not done again.",
)
@click.option(
    "--scheduler",
    metavar="ADDRESS",
    help="Dask scheduler to give the work to; by default this machine's own workers do it.",
)
@click.option(
    "--workers",
    cls=PlainOption,
    type=click.IntRange(min=1),
    metavar="N",
    help="How many workers of this machine's own; one for each processor when not given.",
)
@output_options
@debug_option
def command(
    *,
    sources: tuple[str, ...],
    out: str,
    scheduler: str | None,
    workers: int | None,
    output: Output,
) -> int:
    """Analyse many traces into one Parquet table: a row for each trace, and for each step.

    Each GLOB_OR_URL is a path, a glob or a URL that fsspec opens (s3://, gs://, hdfs://); a folder
    stands for all traces and recordings below it. A trace that cannot be analysed is a row with its
    error. A second run does only what is new: a trace is known by the hash of its bytes.
    """
    from decodeprof.fleet.sources import check_installed, find_sources

    if scheduler is not None and workers is not None:
        raise UsageError("`--workers` are this machine's; `--scheduler` has workers of its own")
    if not out:
        raise UsageError("`--out` is empty")
    if not all(sources):
        # As from an unset variable; it would be the current folder.
        raise UsageError("one of the names of traces is empty")
    check_installed()
    from decodeprof.fleet.cluster import cluster
    from decodeprof.fleet.run import roll_up_all
    from decodeprof.fleet.table import Table

    table = Table(out)
    done = table.read_done()
    found = find_sources(sources)
    summary = roll_up_all(
        found,
        table,
        done=done,
        cluster=lambda: cluster(scheduler=scheduler, workers=workers),
        told=_Said(),
    )
    _show(summary, output)
    return EXIT_COULD_NOT if summary.failed else 0


class _Said:
    """Says how far it is, every few seconds."""

    def __init__(self) -> None:
        self._at = time.monotonic()

    def __call__(self, progress: Progress) -> None:
        if progress.done < progress.of and time.monotonic() - self._at < _SAID_EVERY_S:
            return
        self._at = time.monotonic()
        say(f"{progress.done:,} of {units.counted(progress.of, 'trace')}")


def _show(summary: Summary, output: Output) -> None:
    if output.as_json:
        import msgspec

        encoded = msgspec.json.encode(summary, order="deterministic")
        write_data(msgspec.json.format(encoded, indent=1) + b"\n")
        return
    from decodeprof.report.rollup import rollup_view

    show_view(rollup_view(summary), output)
