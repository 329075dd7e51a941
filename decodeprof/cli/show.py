"""How does a diagnosis reach stdout, as a report or as JSON?"""

from __future__ import annotations

import io
import sys

from decodeprof.cli.options import Output
from decodeprof.model.diagnosis import Diagnosis
from decodeprof.report.blocks import View

WIDEST = 120
"""Lines longer than this are hard to follow; a wider terminal is not filled unless asked."""
UNKNOWN_WIDTH = 80


def show_diagnosis(diagnosis: Diagnosis, output: Output) -> None:
    """Write a diagnosis to stdout."""
    if output.as_json:
        from decodeprof.report.as_json import diagnosis_json

        write_data(diagnosis_json(diagnosis))
        return
    from decodeprof.report.view import view

    show_view(view(diagnosis), output)


def show_view(view: View, output: Output) -> None:
    """Write a view to stdout, in the terminal's colours where there is one."""
    from rich.console import Console

    from decodeprof.report.terminal import render

    if isinstance(sys.stdout, io.TextIOWrapper):  # not a notebook's or a test's own
        # A terminal that cannot write "µ" gets a "?"; it must not get a traceback.
        sys.stdout.reconfigure(errors="replace")
    # A terminal may say that it has no columns, where nobody told it how many.
    width = output.width or min(Console(file=sys.stdout).width or UNKNOWN_WIDTH, WIDEST)
    console = Console(file=sys.stdout, width=width, no_color=None if output.colour else True)
    render(view, console)


def write_data(data: bytes) -> None:
    """Write bytes to stdout as they are."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
