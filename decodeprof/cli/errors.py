"""What does a user see when something goes wrong? The one place that prints errors.

error: `trace.json.gz` holds no GPU activity
  0 of 48,211 events are kernels; the profiler ran with CPU activity only
hint: record with `decodeprof diagnose my_script.py:generate`
"""

from __future__ import annotations

import errno
import os
import re
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass

import click

from decodeprof.errors import (
    EXIT_ASKED_WRONGLY,
    EXIT_COULD_NOT,
    EXIT_INTERRUPTED,
    DecodeprofError,
)

_CANNOT_WRITE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG})
"""What writing to stdout may end in, when what it leads to is full or broken."""
_CANNOT_REACH = frozenset(
    {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG, errno.ENOTDIR, errno.ELOOP}
)
"""What a path may end in that the user named, wherever it is first looked at."""


@dataclass
class Session:
    """What options that stand on any command set for the whole run."""

    debug: bool = False


def run(group: click.Group, arguments: Sequence[str]) -> int:
    """Run a command line; whatever it raises becomes a message and an exit code."""
    _open_what_is_closed()
    session = Session()
    try:
        result = group.main(list(arguments), "decodeprof", standalone_mode=False, obj=session)
        sys.stdout.flush()  # A full disk is met here, and not after the last word.
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
    except OSError as error:
        return _of_the_system(error, session)
    # The last resort: a fault of decodeprof's own must end in a message too, and is reported.
    except Exception as error:
        return _unforeseen(error, session)
    return result if isinstance(result, int) else 0


def _open_what_is_closed() -> None:
    """Give streams that the caller closed (`>&-`) somewhere to lead to.

    Else the next file that is opened takes their number, and what is meant for a terminal is
    written into it.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115


def _of_the_system(error: OSError, session: Session) -> int:
    """Files are named in their errors; what has no name is stdout."""
    if error.filename is not None and error.errno in _CANNOT_REACH:
        if session.debug:
            click.echo(traceback.format_exc(), err=True, nl=False)
        print_error(_cannot_reach(error))
        return EXIT_COULD_NOT
    if error.filename is not None or error.errno not in _CANNOT_WRITE:
        return _unforeseen(error, session)
    _give_stdout_up()
    print_error(_cannot_write(error))
    return EXIT_COULD_NOT


def _unforeseen(error: Exception, session: Session) -> int:
    if session.debug:
        click.echo(traceback.format_exc(), err=True, nl=False)
    print_error(_unexpected(error, debug=session.debug))
    return EXIT_COULD_NOT


def _give_stdout_up() -> None:
    """Drop what is left to write: Python would try once more when it ends, and fail aloud."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        return  # It leads to no file of the system, so nothing is written at the end.


def _cannot_reach(error: OSError) -> DecodeprofError:
    return DecodeprofError(
        f"cannot reach `{os.fsdecode(error.filename)}`",
        why=error.strerror or "",
        hint="name another place, or see to its permissions",
    )


def _cannot_write(error: OSError) -> DecodeprofError:
    return DecodeprofError(
        "could not write the output",
        why=f"stdout: {error.strerror}",
        hint="make room there, or send it elsewhere",
    )


def print_error(error: DecodeprofError) -> None:
    """Write what happened, why, and what to do next to stderr.

    An interruption is no error: it is one line, which says what was kept.
    """
    if error.exit_code == EXIT_INTERRUPTED:
        click.echo(_safe("; ".join(part for part in (error.what, error.hint) if part)), err=True)
        return
    click.echo(f"{click.style('error:', fg='red', bold=True)} {_safe(error.what)}", err=True)
    for why in error.why.splitlines():
        click.echo(f"  {_safe(why)}".rstrip(), err=True)
    for index, hint in enumerate(error.hint.splitlines()):
        label = click.style("hint:", fg="cyan", bold=True) if index == 0 else "     "
        click.echo(f"{label} {_safe(hint)}", err=True)


def _safe(text: str) -> str:
    """The text without control characters: a file's name must not write to the terminal."""
    return "".join(c if c.isprintable() or c == " " else "\N{REPLACEMENT CHARACTER}" for c in text)


# How click tells of a range, and how a person would.
_IN_WORDS = (
    (r"is not a valid integer( range)?", "is not a whole number"),
    (r"is not a valid float( range)?", "is not a number"),
    (r"is not in the range x>=([\d.]+)", r"is less than \1"),
    (r"is not in the range x>([\d.]+)", r"is not more than \1"),
    (r"is not in the range ([\d.]+)<=x<=([\d.]+)", r"is not from \1 to \2"),
)


def _from_click(error: click.ClickException) -> DecodeprofError:
    message = error.format_message().rstrip(".")
    # click quotes with ', this package with backticks.
    message = re.sub(r"'([^'\n]*)'", r"`\1`", message)
    for pattern, words in _IN_WORDS:
        message = re.sub(pattern, words, message)
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
