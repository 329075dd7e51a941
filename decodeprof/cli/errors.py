"""What does a user see when something goes wrong? The one place that prints errors.

error: `trace.json.gz` holds no GPU activity
  0 of 48,211 events are kernels; the profiler ran with CPU activity only
hint: record with `decodeprof diagnose my_script.py:generate`
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Sequence
from dataclasses import dataclass

import click

from decodeprof.errors import EXIT_ASKED_WRONGLY, EXIT_COULD_NOT, DecodeprofError

EXIT_INTERRUPTED = 130
"""128 + SIGINT, as shells report it."""


@dataclass
class Session:
    """What options that stand on any command set for the whole run."""

    debug: bool = False


def run(group: click.Group, arguments: Sequence[str]) -> int:
    """Run a command line; whatever it raises becomes a message and an exit code."""
    session = Session()
    try:
        result = group.main(list(arguments), "decodeprof", standalone_mode=False, obj=session)
    except click.ClickException as error:
        print_error(_from_click(error))
        return EXIT_ASKED_WRONGLY if isinstance(error, click.UsageError) else EXIT_COULD_NOT
    except DecodeprofError as error:
        if session.debug:
            click.echo(traceback.format_exc(), err=True, nl=False)
        print_error(error)
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted", err=True)
        return EXIT_INTERRUPTED
    # The last resort: a fault of decodeprof's own must end in a message too, and is reported.
    except Exception as error:
        if session.debug:
            click.echo(traceback.format_exc(), err=True, nl=False)
        print_error(_unexpected(error, debug=session.debug))
        return EXIT_COULD_NOT
    return result if isinstance(result, int) else 0


def print_error(error: DecodeprofError) -> None:
    """Write what happened, why, and what to do next to stderr."""
    click.echo(f"{click.style('error:', fg='red', bold=True)} {_safe(error.what)}", err=True)
    for why in error.why.splitlines():
        click.echo(f"  {_safe(why)}".rstrip(), err=True)
    for index, hint in enumerate(error.hint.splitlines()):
        label = click.style("hint:", fg="cyan", bold=True) if index == 0 else "     "
        click.echo(f"{label} {_safe(hint)}", err=True)


def _safe(text: str) -> str:
    """The text without control characters: a file's name must not write to the terminal."""
    return "".join(c if c.isprintable() or c == " " else "\N{REPLACEMENT CHARACTER}" for c in text)


def _from_click(error: click.ClickException) -> DecodeprofError:
    message = error.format_message().rstrip(".")
    # click quotes with ', this package with backticks.
    message = re.sub(r"'([^'\n]*)'", r"`\1`", message)
    what, _, why = (message[:1].lower() + message[1:]).partition("\n")
    context = error.ctx if isinstance(error, click.UsageError) else None
    path = "decodeprof" if context is None else context.command_path
    return DecodeprofError(what, why=why.strip(), hint=f"`{path} --help` says how it is called")


def _unexpected(error: Exception, *, debug: bool) -> DecodeprofError:
    again = "the traceback is above" if debug else "run it again with `--debug` for the traceback"
    return DecodeprofError(
        "decodeprof failed in a way that it did not foresee",
        why=f"{type(error).__name__}: {error}",
        hint=f"this is a fault of decodeprof, not of your code; {again}",
    )
