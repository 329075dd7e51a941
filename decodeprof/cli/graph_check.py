"""`decodeprof graph-check`: capture the decode step as a CUDA graph, or say what stops it."""

from __future__ import annotations

import click

from decodeprof.cli.options import Output, PlainOption, debug_option, output_options
from decodeprof.cli.progress import shown_progress
from decodeprof.cli.show import show_view, write_data

DEFAULT_TIMEOUT_S = 600.0
"""A large model may load for minutes; a target that hangs must still end in a message."""


@click.command(
    "graph-check",
    epilog="""\b
Examples:
  the decode forward of a generate loop:
    decodeprof graph-check my_script.py:generate --arg model=@model
\b
  a function that is one decode step, captured for three batch sizes:
    decodeprof graph-check my_script.py:generate --step decode_one --bucket batch=1,2,4
""",
)
@click.argument("target")
@click.option(
    "--arg",
    "args",
    multiple=True,
    metavar="NAME=VALUE",
    help="An argument: JSON, or @attribute of the script. Built anew for each call; repeatable.",
)
@click.option(
    "--setup",
    metavar="NAME",
    help="A function of the script, run once. It returns keyword arguments as a dictionary, or "
    "the instance of a method target.",
)
@click.option(
    "--step",
    metavar="NAME",
    help="The function that is one decode step, as the script calls it, or "
    "package.module:Class.method; by default the decode forward of the model.",
)
@click.option(
    "--bucket",
    "buckets",
    multiple=True,
    metavar="NAME=VALUES",
    help="Capture once for each value of an argument of TARGET, such as batch=1,2,4; repeatable.",
)
@click.option(
    "--device",
    metavar="NAME",
    help="cuda:1 shows that GPU alone; by default the target chooses.",
)
@click.option(
    "--timeout",
    "timeout_s",
    cls=PlainOption,
    type=click.FloatRange(min=0, min_open=True),
    default=DEFAULT_TIMEOUT_S,
    show_default=True,
    metavar="SECONDS",
    help="Stop after so long; what had been learnt by then is told.",
)
@output_options
@debug_option
def command(
    *,
    target: str,
    args: tuple[str, ...],
    setup: str | None,
    step: str | None,
    buckets: tuple[str, ...],
    device: str | None,
    timeout_s: float,
    output: Output,
) -> None:
    """Capture TARGET's decode step for real and measure it, or say what stops it.

    TARGET is named as for `decodeprof diagnose`. In a child process on a GPU, inside the target's
    own loop, the step is warmed up, captured and replayed: its replay must leave what the step
    itself leaves, for two consecutive inputs, so that a Python value which the graph baked in
    shows. Then the loop runs on with replays in place of the step, and is timed.

    Where the capture is refused, the first error is told with its line, the rule that it breaks
    and the change to make. Without a GPU, `decodeprof lint` predicts.
    """
    import msgspec

    from decodeprof.analysis.graph_checked import checked
    from decodeprof.capture import Job
    from decodeprof.capture.graph_check.supervise import check_graph
    from decodeprof.cli.graph_checked import with_piecewise
    from decodeprof.report.graph_check import graph_check_view

    job = Job(
        target=target,
        args=list(args),
        setup=setup,
        step=step,
        buckets=list(buckets),
        device=device,
        timeout_s=timeout_s,
    )
    with shown_progress() as show:
        found = checked(check_graph(job, progress=show))
        if found.segments:
            found = with_piecewise(job, found, show)
    if output.as_json:
        encoded = msgspec.json.encode(found, order="deterministic")
        write_data(msgspec.json.format(encoded, indent=1) + b"\n")
        return
    show_view(graph_check_view(found), output)
