"""How does a person see that a recording goes on? On stderr, so that stdout stays data."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from decodeprof.cli.options import say


class Stage(Protocol):
    """What a recording says of itself while it runs."""

    @property
    def pass_name(self) -> str:
        """The pass that runs."""

    @property
    def text(self) -> str:
        """What it does."""

    @property
    def fraction(self) -> float | None:
        """How much of the pass is done, 0 to 1; None: cannot be told."""


Shown = Callable[[Stage], None]
QUIET_S = 5.0
"""A log gets a line of a running pass no more often: a timing pass may make hundreds of runs."""


@contextmanager
def shown_progress() -> Iterator[Shown]:
    """Give a function that shows a stage: live in a terminal, else one line a pass."""
    if not sys.stderr.isatty():
        yield _lines()
        return
    with _live() as show:
        yield show


def _lines(now: Callable[[], float] = time.monotonic) -> Shown:
    """Plain lines for logs: each pass as it begins, then now and then what it does."""
    last_pass = ""
    said_s = now()

    def show(stage: Stage) -> None:
        nonlocal last_pass, said_s
        if stage.pass_name == last_pass and now() - said_s < QUIET_S:
            return
        last_pass, said_s = stage.pass_name, now()
        say(f"{stage.pass_name}: {stage.text}" if stage.text else stage.pass_name)

    return show


@contextmanager
def _live() -> Iterator[Shown]:
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    progress = Progress(
        SpinnerColumn(),
        TextColumn("{task.fields[pass_name]}", style="bold"),
        BarColumn(bar_width=20),
        TimeElapsedColumn(),
        TextColumn("{task.description}", style="dim"),
        console=Console(stderr=True),
        transient=True,
    )
    tasks: dict[str, int] = {}

    def show(stage: Stage) -> None:
        if stage.pass_name not in tasks:
            for done in tasks.values():
                progress.update(done, total=1, completed=1)  # type: ignore[arg-type]
                progress.stop_task(done)  # type: ignore[arg-type]
            tasks[stage.pass_name] = progress.add_task(
                escape(stage.text), total=None, pass_name=escape(stage.pass_name)
            )
        progress.update(
            tasks[stage.pass_name],  # type: ignore[arg-type]
            description=escape(stage.text),
            total=None if stage.fraction is None else 1,
            completed=stage.fraction or 0,
        )

    with progress:
        yield show
