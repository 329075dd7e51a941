"""Options that several commands share, and what they ask of the output."""

from __future__ import annotations

import functools
import math
import sys
import typing
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from decodeprof.cli.errors import Session

F = TypeVar("F", bound=Callable[..., Any])

NARROWEST = 64
"""Below this the table of blocking calls does not fit, whose columns are all figures."""


@dataclass(frozen=True)
class Output:
    """How a report is to be written."""

    as_json: bool = False
    width: int | None = None
    """None: as wide as the terminal, within reason."""
    colour: bool = True


class NamedPath(click.Path):
    """A path. Empty, as from an unset variable, it would be the current folder."""

    def __init__(self, *, file_okay: bool = True) -> None:
        super().__init__(path_type=Path, file_okay=file_okay)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path."""
        if value == "":
            self.fail("it is empty", param, ctx)
        return super().convert(value, param, ctx)


class NewPath(NamedPath):
    """A path to write to."""


class FiniteRange(click.FloatRange):
    """A number within a range; neither an infinity nor what is no number at all."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The number."""
        number: float = super().convert(value, param, ctx)
        # NaN is in every range, since it is neither less nor more than its ends.
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number", param, ctx)
        return number


class PlainOption(click.Option):
    """An option whose help does not spell out its range: the sentence says what it takes."""

    def get_help_extra(self, ctx: click.Context) -> click.types.OptionHelpExtra:
        """What click adds in brackets, less the range."""
        extra = super().get_help_extra(ctx)
        extra.pop("range", None)
        return extra


def output_options(function: F) -> F:
    """Add `--json`, `--width` and `--no-color`; the command gets them as `output`."""

    @functools.wraps(function)
    def command(*args: Any, as_json: bool, width: int | None, no_color: bool, **rest: Any) -> Any:
        output = Output(as_json=as_json, width=width, colour=not no_color)
        return function(*args, output=output, **rest)

    for option in (
        click.option("--no-color", is_flag=True, help="No colour; NO_COLOR=1 does the same."),
        click.option(
            "--width",
            cls=PlainOption,
            type=click.IntRange(min=NARROWEST),
            metavar="COLUMNS",
            help="Width of the report; the terminal's when not given.",
        ),
        click.option(
            "--json", "as_json", is_flag=True, help="Print JSON to stdout instead of the report."
        ),
    ):
        command = option(command)
    return typing.cast(F, command)


def debug_option(function: F) -> F:
    """Add `--debug`, which shows the traceback of an error."""
    return click.option(
        "--debug",
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=_set_debug,
        help="Show the traceback of an error.",
    )(function)


def _set_debug(ctx: click.Context, _option: click.Parameter, wanted: bool) -> None:
    session = ctx.find_object(Session)
    if session is not None and wanted:
        session.debug = True


def say(text: str = "") -> None:
    """Write a line for the person to stderr; stdout is for data."""
    click.echo(text, file=sys.stderr)
