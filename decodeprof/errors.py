"""The errors that a user can meet: each says what happened, why, and what to do next.

Only `cli` prints them; everything below raises them. Exit codes are part of the interface:
0 done, 1 could not, 2 asked wrongly, 3 a gate failed, 4 a gate could not tell.
"""

from __future__ import annotations

EXIT_COULD_NOT = 1
EXIT_ASKED_WRONGLY = 2
EXIT_GATE_FAILED = 3
EXIT_GATE_COULD_NOT_TELL = 4
EXIT_INTERRUPTED = 130
"""128 + SIGINT, as shells report it."""


class DecodeprofError(Exception):
    """Something that stopped the work, told in the user's words.

    Args:
        what: one line: what could not be done. Literals stand in backticks.
        why: the cause, one or more lines; empty when `what` says it all.
        hint: what to do next: a command or a change; empty when there is none.
    """

    exit_code = EXIT_COULD_NOT

    def __init__(self, what: str, *, why: str = "", hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.why = why
        self.hint = hint

    def __str__(self) -> str:
        """All of it, as lines: a notebook or a test runner shows nothing else."""
        hint = f"hint: {self.hint}" if self.hint else ""
        return "\n".join(part for part in (self.what, self.why, hint) if part)


class UsageError(DecodeprofError):
    """The command was asked wrongly: a bad target, option or path."""

    exit_code = EXIT_ASKED_WRONGLY


class InputError(DecodeprofError):
    """A file is missing, is not what it was taken for, or holds nothing to analyse."""


class TargetError(DecodeprofError):
    """The user's own code failed, hung or left; `why` holds its traceback, cut to its frames."""
