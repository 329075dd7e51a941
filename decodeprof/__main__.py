"""Runs the command line: ``decodeprof`` and ``python -m decodeprof``."""

from __future__ import annotations

import sys
from typing import NoReturn

INTERRUPTED = 130
"""`decodeprof.errors.EXIT_INTERRUPTED`, which may not be imported yet."""


def main() -> NoReturn:
    """Run the command line; Ctrl-C is one line even while its modules are still being loaded."""
    try:
        from decodeprof.cli import main as command_line

        command_line()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
