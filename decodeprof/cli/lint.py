"""`decodeprof lint`: would-be syncs and graph hazards, on a machine with no GPU."""

from __future__ import annotations

import typing

import click

from decodeprof.cli.options import FiniteRange, Output, PlainOption, debug_option, output_options
from decodeprof.cli.progress import shown_progress
from decodeprof.cli.show import show_view, write_data

if typing.TYPE_CHECKING:
    from decodeprof.model.lint import LintReport

DEFAULT_TIMEOUT_S = 900.0
"""A model of real size takes minutes on a CPU; a target that hangs must still end in a message."""


@click.command(
    "lint",
    epilog="""\b
Examples:
  decodeprof lint my_script.py:generate --arg model=@model --arg max_new_tokens=8
  decodeprof lint my_script.py:generate --setup make_inputs --json
\b
  a script that never names a device:
    decodeprof lint my_script.py:generate --on-cuda
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
    "--new-tokens",
    cls=PlainOption,
    type=click.IntRange(min=1),
    metavar="N",
    help="Tokens that one call makes, where neither its yields nor its result show it.",
)
@click.option(
    "--on-cuda",
    is_flag=True,
    help="Make a GPU the default device, for a script that names none.",
)
@click.option(
    "--timeout",
    "timeout_s",
    cls=PlainOption,
    type=FiniteRange(min=0, min_open=True),
    default=DEFAULT_TIMEOUT_S,
    show_default=True,
    metavar="SECONDS",
    help="Stop the target after so long; what was predicted by then is told.",
)
@output_options
@debug_option
def command(
    *,
    target: str,
    args: tuple[str, ...],
    setup: str | None,
    new_tokens: int | None,
    on_cuda: bool,
    timeout_s: float,
    output: Output,
) -> None:
    """Predict where TARGET would wait for a GPU, and what a CUDA graph of its step would get wrong.

    TARGET is named as for `decodeprof diagnose`. It runs twice in a child process, on the CPU and
    with real values, while `torch.cuda.is_available()` is true and its tensors answer that they
    live on the GPU they were sent to. A small model and a few tokens are enough: the lines are the
    same as those of a large one.
    """
    from decodeprof.analysis.linted import lint_report
    from decodeprof.capture import Job
    from decodeprof.lint.supervise import LintStopped, run_lint

    job = Job(
        target=target, args=list(args), setup=setup, new_tokens=new_tokens, timeout_s=timeout_s
    )
    try:
        with shown_progress() as show:
            run = run_lint(job, default_device="cuda" if on_cuda else None, progress=show)
    except LintStopped as stopped:
        if stopped.run is not None:
            _show(lint_report(stopped.run), output)
        raise
    _show(lint_report(run), output)


def _show(report: LintReport, output: Output) -> None:
    import msgspec

    from decodeprof.report.lint import lint_view

    if output.as_json:
        encoded = msgspec.json.encode(report, order="deterministic")
        write_data(msgspec.json.format(encoded, indent=1) + b"\n")
        return
    show_view(lint_view(report), output)
