"""Where does a page go, and may it?

Into the recording that it is of, which is decodeprof's own; the page of a trace from elsewhere goes
below decodeprof-runs, since nothing is written beside other people's files. A page that decodeprof
wrote is made again from the same source at any time, so that in a recording it is replaced; what is
not a page, or was asked for by name, is replaced with `--force` only.
"""

from __future__ import annotations

import functools
import os
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from decodeprof.cli.options import NamedPath, say
from decodeprof.errors import InputError, UsageError

if typing.TYPE_CHECKING:
    from decodeprof.diagnosis.pipeline import Analyzed
    from decodeprof.model.ranks import RankReport

F = TypeVar("F", bound=Callable[..., Any])

PAGE_FILE = "report.html"
RUNS = Path("decodeprof-runs")
"""Recordings of which the user did not say where they go, and pages of traces."""
_HINT = "name another place with `--html PATH`, or write none with `--no-html`"


@dataclass(frozen=True)
class Page:
    """What the user asked of the page."""

    wanted: bool = True
    path: Path | None = None
    """None: the usual place."""
    force: bool = False


def page_options(function: F) -> F:
    """Add `--html`, `--no-html` and `--force`; the command gets them as `page`."""

    @functools.wraps(function)
    def command(
        *args: Any, html: Path | None, no_html: bool, force: bool, as_json: bool, **rest: Any
    ) -> Any:
        if html is not None and no_html:
            raise UsageError("`--html` and `--no-html` exclude each other")
        # Who asks for JSON reads no page; named, it is written all the same.
        page = Page(wanted=html is not None or not (no_html or as_json), path=html, force=force)
        return function(*args, page=page, as_json=as_json, **rest)

    for option in (
        click.option(
            "--force", is_flag=True, help="Replace what exists at the page's or timeline's place."
        ),
        click.option("--no-html", is_flag=True, help="Write no page."),
        click.option(
            "--html",
            type=NamedPath(),
            metavar="PATH",
            help="Write the page to PATH; by default it goes into the recording, or for a trace "
            "below decodeprof-runs.",
        ),
    ):
        command = option(command)
    return typing.cast(F, command)


def check_page(page: Page, *sources: Path) -> None:
    """Refuse a page's place before any work is done.

    Raises:
        UsageError: something is there, and may not be replaced.
    """
    from decodeprof.export.files import check_source_kept

    if page.path is not None:
        for source in sources:
            check_source_kept(page.path, source)
    if page.path is not None and page.path.exists() and not page.force:
        raise UsageError(f"`{page.path}` exists", hint="`--force` replaces it")


def write_page(analyzed: Analyzed, source: Path, page: Page) -> None:
    """Write the page of what was analysed, and say where it is.

    Raises:
        InputError: it cannot be written there.
        UsageError: something else is there.
    """
    if not page.wanted:
        return
    text = page_text(analyzed)
    if page.path is not None:
        path = page.path
        _write(path, text)
    else:
        path = _usual(source, text, force=page.force)
    say(f"page: {path}")


def write_ranks_page(report: RankReport, sources: Sequence[Path], page: Page) -> None:
    """Write the page of several ranks, and say where it is; by default below decodeprof-runs.

    Raises:
        InputError: it cannot be written there.
    """
    if not page.wanted:
        return
    from decodeprof.diagnosis.charts.pages import rule_pages
    from decodeprof.report.html.ranks import ranks_html

    codes = {finding.code for rank in report.ranks for finding in rank.diagnosis.findings}
    text = ranks_html(report, rule_pages(codes)).encode()
    path = page.path
    if path is not None:
        _write(path, text)
    else:
        folders = {source.resolve().parent.name for source in sources}
        path = _below_runs(f"{folders.pop()}-ranks" if len(folders) == 1 else "ranks", text)
    say(f"page: {path}")


def page_text(analyzed: Analyzed) -> bytes:
    """The page of what was analysed."""
    from decodeprof.diagnosis.charts import charts_of
    from decodeprof.report.html import html

    return html(analyzed.diagnosis, charts_of(analyzed.evidence, analyzed.diagnosis)).encode()


def _usual(source: Path, text: bytes, *, force: bool) -> Path:
    """Write to the usual place of a source's page, and give it."""
    from decodeprof.export.files import recording_folder
    from decodeprof.report.html import MARK

    folder = recording_folder(source)
    if folder is not None and os.access(folder, os.W_OK):
        path = folder / PAGE_FILE
        if path.exists() and not force and not _begins(path, MARK.encode()):
            raise UsageError(
                f"`{path}` exists and is no page of decodeprof's", hint="`--force` replaces it"
            )
        _write(path, text)
        return path
    return _below_runs(source.resolve().name.split(".")[0] or "trace", text)


def _below_runs(name: str, text: bytes) -> Path:
    """A page in a folder of its own, by a name; one with the same text is that page."""
    from decodeprof.capture.directory import new_directory

    try:
        folder = new_directory(RUNS, name)
        stem = folder.name.rpartition("-")[0]
        for path in sorted(RUNS.glob(f"{stem}-[0-9]*/{PAGE_FILE}")):
            if path.is_file() and path.stat().st_size == len(text) and path.read_bytes() == text:
                return path
        folder.mkdir(parents=True)
    except OSError as error:
        raise InputError(
            f"cannot write below `{RUNS}`", why=str(error.strerror), hint=_HINT
        ) from None
    _write(folder / PAGE_FILE, text)
    return folder / PAGE_FILE


def _begins(path: Path, start: bytes) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(start)) == start
    except OSError:
        return False


def _write(path: Path, text: bytes) -> None:
    from decodeprof.recording import write_whole

    try:
        write_whole(path, text)
    except InputError as error:
        error.hint = _HINT
        raise
