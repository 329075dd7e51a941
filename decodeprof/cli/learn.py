"""`decodeprof learn`: the page that teaches launch-bound and memory-bound."""

from __future__ import annotations

import webbrowser
from pathlib import Path

import click

from decodeprof.cli.options import NewPath, debug_option, say
from decodeprof.errors import UsageError

PAGE = Path("decodeprof-learn.html")


@click.command(
    "learn",
    epilog="""\b
Examples:
  decodeprof learn
  decodeprof learn --open
  decodeprof learn --out launch-bound.html
""",
)
@click.option(
    "--out",
    type=NewPath(),
    default=PAGE,
    show_default=True,
    metavar="FILE",
    help="Where the page goes.",
)
@click.option("--open", "wanted", is_flag=True, help="Open it in the browser.")
@click.option("--force", is_flag=True, help="Replace a file that is no such page.")
@debug_option
def command(*, out: Path, wanted: bool, force: bool) -> None:
    """Write a page that teaches why a fast GPU makes tokens slowly, and when it stops.

    One file, for somebody who can program and knows no GPUs: what a launch is, why the GPU starves,
    what a sync does to the queue, what a graph replays, the roofline, and the crossing; with a live
    model of a decode step beside measured curves, and five questions. It asks for nothing from the
    network.
    """
    from decodeprof.recording import write_whole
    from decodeprof.teach.curves import packaged_curves
    from decodeprof.teach.page import MARK, learn_page

    if out.is_file() and not force and not _begins(out, MARK.encode()):
        raise UsageError(
            f"`{out}` exists and was not written by `decodeprof learn`",
            hint="`--force` replaces it",
        )
    write_whole(out, learn_page(packaged_curves()).encode())
    say(f"page: {out}")
    if wanted and not webbrowser.open(out.resolve().as_uri()):
        say("no browser could be opened: open the page by hand")


def _begins(path: Path, start: bytes) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(start)) == start
    except OSError:
        return False  # What cannot be read is taken for somebody's.
