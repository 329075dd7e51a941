"""`decodeprof diagnose`: record a target, analyse the recording, report."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from decodeprof.cli.options import (
    FiniteRange,
    NewPath,
    Output,
    PlainOption,
    debug_option,
    output_options,
)
from decodeprof.cli.pages import Page, write_page
from decodeprof.cli.recorded import record_and_diagnose
from decodeprof.cli.show import show_diagnosis
from decodeprof.cli.timelines import check_perfetto, perfetto_option, write_timeline_of

DEFAULT_TIMEOUT_S = 900.0
"""A large model may load for minutes; a target that hangs must still end in a message."""
DEFAULT_BUDGET_S = 20.0
"""Within this most loops' medians are known to 3 %; a longer wait rarely changes a diagnosis."""


@click.command(
    "diagnose",
    epilog="""\b
Examples:
  a function whose arguments are attributes of the script, or JSON:
    decodeprof diagnose my_script.py:generate --arg model=@model --arg max_new_tokens=64
\b
  a set-up function that returns the keyword arguments as a dictionary:
    decodeprof diagnose my_script.py:generate --setup make_inputs
\b
  a method; the set-up function returns the instance:
    decodeprof diagnose my_engine.py:Engine.generate --setup build --arg 'prompt="Hello"'
\b
  a generator or an async function, in a module on the path:
    decodeprof diagnose my_package.serving:stream
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
    help="A function of the script, run once and untimed. It returns keyword arguments as a "
    "dictionary, or the instance of a method target.",
)
@click.option(
    "--new-tokens",
    cls=PlainOption,
    type=click.IntRange(min=1),
    metavar="N",
    help="Tokens that one call makes, where neither its yields nor its result show it.",
)
@click.option(
    "--device",
    metavar="NAME",
    help="cpu hides the GPUs, cuda:1 shows that one alone; by default the target chooses.",
)
@click.option(
    "--budget",
    "budget_s",
    cls=PlainOption,
    type=FiniteRange(min=0, min_open=True),
    default=DEFAULT_BUDGET_S,
    show_default=True,
    metavar="SECONDS",
    help="Time for the unprofiled timing, which ends earlier when its median is known to 3 %.",
)
@click.option(
    "--timeout",
    "timeout_s",
    cls=PlainOption,
    type=FiniteRange(min=0, min_open=True),
    default=DEFAULT_TIMEOUT_S,
    show_default=True,
    metavar="SECONDS",
    help="Stop the target after so long; what had been recorded is kept.",
)
@click.option(
    "--nsys",
    is_flag=True,
    help="Record once more under `nsys profile`, and set what it sees beside torch.profiler.",
)
@click.option(
    "--graph-check",
    is_flag=True,
    help="Capture the decode step as a CUDA graph as well, and tell what was measured, or what "
    "stopped it.",
)
@click.option(
    "--step",
    metavar="NAME",
    help="For --graph-check: the function that is one decode step; by default the model's forward.",
)
@click.option(
    "--out",
    type=NewPath(),
    metavar="DIR",
    help="Directory of the recording; by default a new numbered one below decodeprof-runs.",
)
@perfetto_option
@output_options
@debug_option
def command(
    *,
    target: str,
    args: tuple[str, ...],
    setup: str | None,
    new_tokens: int | None,
    device: str | None,
    budget_s: float,
    timeout_s: float,
    nsys: bool,
    graph_check: bool,
    step: str | None,
    perfetto: bool,
    out: Path | None,
    output: Output,
) -> None:
    """Run TARGET, measure it, and say what bounds each token.

    TARGET is a generate function: path/to/script.py:name, package.module:name or either with
    Class.method. A function, a generator that yields tokens, a coroutine and an async generator
    all work; the engine needs no mark and is not patched.

    A child process runs it several times: unprofiled for speed, under torch.profiler and under
    sync-debug mode for structure. The recording that this leaves holds open formats; `decodeprof
    analyze` makes the report again from it on any machine.
    """
    from decodeprof.capture import Job

    job = Job(
        target=target,
        args=list(args),
        setup=setup,
        new_tokens=new_tokens,
        timeout_s=timeout_s,
        budget_s=budget_s,
        device=device,
        nsys=nsys,
        graph_check=graph_check,
        step=step,
    )
    if perfetto:
        check_perfetto()
    directory, analyzed = record_and_diagnose(job, out=out)
    show_diagnosis(analyzed.diagnosis, output)
    write_page(analyzed, directory, Page())
    if perfetto:
        write_timeline_of(analyzed, directory)
    click.echo(f"to see this again: decodeprof analyze {shlex.quote(str(directory))}", err=True)
