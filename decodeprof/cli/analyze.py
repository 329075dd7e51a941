"""`decodeprof analyze`: a report from what was recorded earlier, anywhere."""

from __future__ import annotations

from pathlib import Path

import click

from decodeprof.cli.options import Output, PlainOption, debug_option, output_options
from decodeprof.cli.pages import Page, check_page, page_options, write_page
from decodeprof.cli.show import show_diagnosis
from decodeprof.cli.timelines import check_timeline_of, perfetto_option, write_timeline_of


@click.command(
    "analyze",
    epilog="""\b
Examples:
  decodeprof analyze decodeprof-runs/generate-001
  decodeprof analyze trace.json.gz
  decodeprof analyze trace.json.gz --json > diagnosis.json
  decodeprof analyze trace.json.gz --html trace.html
  decodeprof analyze report.sqlite --process 4711
""",
)
@click.argument("path", type=click.Path(path_type=Path))
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
def command(*, path: Path, process: int | None, perfetto: bool, output: Output, page: Page) -> None:
    """Report on PATH: a recording's directory, or a trace.

    A trace is torch.profiler's (.json or .json.gz), an SQLite export of nsys (.sqlite), or a
    report of nsys (.nsys-rep), which the `nsys` on this machine exports first.

    It needs neither a GPU nor torch, and executes nothing from the trace. A trace holds no
    unprofiled run: its report gives no unprofiled step time, and says so.

    The same report, with a timeline and charts, is written as a page that opens offline.
    """
    from decodeprof.diagnosis.pipeline import analyze_path

    check_page(page)
    if perfetto:
        check_timeline_of(path, force=page.force)
    analyzed = analyze_path(path, process=process)
    show_diagnosis(analyzed.diagnosis, output)
    write_page(analyzed, path, page)
    if perfetto:
        write_timeline_of(analyzed, path, force=page.force)
