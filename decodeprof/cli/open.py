"""`decodeprof open`: a recording's timeline in ui.perfetto.dev."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import webbrowser
from collections.abc import Iterator
from pathlib import Path

import click

from decodeprof.cli.options import NamedPath, PlainOption, debug_option, say
from decodeprof.export.serve import PORT, link, serve_once

_TIMELINE_ENDING = ".pftrace"


@click.command(
    "open",
    epilog="""\b
Examples:
  decodeprof open decodeprof-runs/generate-001
  decodeprof open timeline.pftrace
\b
  where the browser runs on another machine, forward the port from there:
    ssh -L 9001:127.0.0.1:9001 HOST
""",
)
@click.argument("path", type=NamedPath())
@click.option("--no-browser", is_flag=True, help="Print the link, and open no browser.")
@click.option(
    "--port",
    cls=PlainOption,
    type=click.IntRange(min=1, max=65_535),
    default=PORT,
    show_default=True,
    metavar="N",
    help="Where to serve the file. The page reads from port 9001 alone: another one is for "
    "forwarding it there.",
)
@debug_option
def command(*, path: Path, no_browser: bool, port: int) -> None:
    """Show PATH, a recording, a trace or a .pftrace file, in ui.perfetto.dev.

    The page reads the timeline from a server on this machine's loopback address: nothing is
    uploaded. The link goes to stdout; the command ends when the page has read the file, or with
    Ctrl-C. A recording without a timeline.pftrace gets a temporary one.
    """
    with _timeline(path) as file:

        def ready(_: int) -> None:
            address = link(file.name)
            click.echo(address)
            sys.stdout.flush()
            if no_browser or not _opened(address):
                say("open this link in a browser")
            say("serving the timeline until the page has read it; Ctrl-C ends it")

        serve_once(file, port=port, ready=ready)
    say("the page has read the timeline")


@contextlib.contextmanager
def _timeline(path: Path) -> Iterator[Path]:
    """The timeline of what is at the path: one that is there, or a temporary one."""
    from decodeprof.export.files import recording_folder, timeline_path

    if path.name.endswith(_TIMELINE_ENDING):
        yield path
        return
    if recording_folder(path) is not None and timeline_path(path).is_file():
        yield timeline_path(path)
        return
    from decodeprof.diagnosis.pipeline import analyze_path
    from decodeprof.export.perfetto.file import write_timeline_file
    from decodeprof.export.perfetto.writer import check_available

    check_available()
    analyzed = analyze_path(path)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / timeline_path(path).name
        write_timeline_file(analyzed.evidence, file)
        yield file


def _opened(address: str) -> bool:
    """Open a browser with windows, if there is one; one in the terminal cannot show the page."""
    windows = sys.platform in ("darwin", "win32") or any(
        name in os.environ for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    )
    try:
        return windows and webbrowser.open(address)
    except webbrowser.Error:
        return False
