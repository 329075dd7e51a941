"""`decodeprof analyze`: a report from what was recorded earlier, anywhere."""

from __future__ import annotations

from pathlib import Path

import click

from decodeprof.cli.options import NamedPath, Output, PlainOption, debug_option, output_options, say
from decodeprof.cli.pages import Page, check_page, page_options, write_page
from decodeprof.cli.ranks import report_on, traces_of
from decodeprof.cli.show import show_diagnosis
from decodeprof.cli.timelines import check_timeline_of, perfetto_option, write_timeline_of
from decodeprof.errors import UsageError


@click.command(
    "analyze",
    epilog="""\b
Examples:
  decodeprof analyze decodeprof-runs/generate-001
  decodeprof analyze trace.json.gz
  decodeprof analyze trace.json.gz --json > diagnosis.json
  decodeprof analyze trace.json.gz --html trace.html
  decodeprof analyze report.sqlite --process 4711
  decodeprof analyze rank0.json.gz rank1.json.gz --html ranks.html
""",
)
@click.argument("paths", metavar="PATH…", type=NamedPath(), nargs=-1, required=True)
@click.option(
    "--process",
    cls=PlainOption,
    type=click.IntRange(min=0),
    metavar="PID",
    help="Of an nsys report that holds several processes, the one to take steps from; by default "
    "the one with the most GPU activity.",
)
@perfetto_option
@page_options
@output_options
@debug_option
def command(
    *, paths: tuple[Path, ...], process: int | None, perfetto: bool, output: Output, page: Page
) -> int:
    """Report on PATH: a recording's directory, a trace, or the traces of several ranks.

    A trace is torch.profiler's (.json or .json.gz), an SQLite export of nsys (.sqlite), or a
    report of nsys (.nsys-rep), which the `nsys` on this machine exports first.

    It needs neither a GPU nor torch, and executes nothing from the trace. A trace holds no
    unprofiled run: its report gives no unprofiled step time, and says so.

    The same report, with a timeline and charts, is written as a page that opens offline.

    Several traces, or a folder of them, are ranks that ran together: each is diagnosed, and one
    report says which rank holds the others up, and what they wait inside collectives. Its page
    folds each rank's own diagnosis.
    """
    from decodeprof.diagnosis.pipeline import analyze_path
    from decodeprof.ingest.nsys_convert import REPORTS

    traces = traces_of(paths)
    if len(traces) > 1:
        _one_trace_only(process=process, perfetto=perfetto)
        check_page(page, *traces)
        return report_on(traces, output, page)
    path = traces[0]
    check_page(page, path)
    if perfetto:
        check_timeline_of(path, force=page.force)
    if path.suffix in REPORTS and path.stat().st_size:
        say("`nsys export` comes first: minutes, where the report is of gigabytes")
    analyzed = analyze_path(path, process=process)
    show_diagnosis(analyzed.diagnosis, output)
    write_page(analyzed, path, page)
    if perfetto:
        write_timeline_of(analyzed, path, force=page.force)
    return 0


def _one_trace_only(*, process: int | None, perfetto: bool) -> None:
    """Refuse what is of one trace where several are given."""
    for option, wanted in {"--process": process is not None, "--perfetto": perfetto}.items():
        if wanted:
            raise UsageError(
                f"`{option}` takes one trace",
                why="several traces are ranks, of which there is one report",
                hint=f"name the rank's own: `decodeprof analyze FILE {option} …`",
            )
