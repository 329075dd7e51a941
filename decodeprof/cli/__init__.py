"""The command line: one module per command, imported when it is called."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn

from decodeprof.cli.errors import run
from decodeprof.cli.lazy import LazyGroup

__all__ = ["main"]

# Name: what `--help` says of it, in the order in which a newcomer needs them.
_COMMANDS = {
    "demo": "diagnose the packaged loop here, then show a recording made on a GPU",
    "diagnose": "run a generate function, measure it and say what bounds it",
    "analyze": "report on a recording or a torch trace; needs no GPU and no torch",
    "compare": "set two recordings side by side: what changed, and did the prediction hold",
    "export": "write a timeline or tables for other programs",
    "open": "show a recording's timeline in ui.perfetto.dev",
    "rollup": "analyse thousands of traces into one Parquet table, on a Dask cluster",
    "check": "hold a recording or a trace against limits: a gate for CI",
    "learn": "write a page that teaches launch-bound and memory-bound with a live model",
    "sweep": "measure a step along one axis: where launch-bound ends, and what padding costs",
    "lint": "predict syncs and graph hazards on a machine with no GPU",
    "graph-check": "capture the decode step as a CUDA graph, or say what stops it",
    "explain": "print the manual page of a finding's rule, or list all rules",
    "doctor": "say what works on this machine, and why the rest does not",
}
_HELP = """Say why each token of a PyTorch generation loop takes as long as it takes.

\b
  decodeprof diagnose my_script.py:generate
  decodeprof analyze trace.json.gz

Reports go to stdout, progress and errors to stderr. Exit codes: 0 done, 1 could not,
2 asked wrongly, 3 a gate failed, 4 a gate could not tell.
"""

group = LazyGroup(name="decodeprof", commands_help=_COMMANDS, help=_HELP)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and leave with its exit code."""
    sys.exit(run(group, sys.argv[1:] if arguments is None else arguments))
