"""`decodeprof demo`: the main job on the packaged loop, and on a recording made on a GPU."""

from __future__ import annotations

from pathlib import Path

import click

import decodeprof
from decodeprof.cli.errors import print_error
from decodeprof.cli.options import NewPath, Output, debug_option, output_options, say
from decodeprof.cli.pages import Page, write_page
from decodeprof.cli.recorded import record_and_diagnose
from decodeprof.cli.show import show_diagnosis, show_view, write_data
from decodeprof.errors import DecodeprofError, UsageError

TARGET = "decodeprof.reference.demo:generate"
BUDGET_S = 10.0
"""The packaged loop is small: its median is known long before, and a newcomer waits."""
FIXTURES = Path(decodeprof.__file__).resolve().parents[1] / "fixtures"
"""Recordings that lie beside the package in a source checkout; a wheel holds none."""
RECORDED = "plain_0p6b"


@click.command(
    "demo",
    epilog="""\b
Examples:
  decodeprof demo
  decodeprof demo --recorded
  decodeprof demo --stages
""",
)
@click.option("--recorded", is_flag=True, help="Only the recording made on a GPU; runs nothing.")
@click.option(
    "--stages",
    is_flag=True,
    help="Instead, every stage from this loop to a fast one in a table: run on the GPU, or as "
    "recorded where there is none or with --recorded.",
)
@click.option(
    "--out",
    type=NewPath(),
    metavar="DIR",
    help="Directory of the live recording; by default a new numbered one below decodeprof-runs.",
)
@output_options
@debug_option
def command(*, recorded: bool, stages: bool, out: Path | None, output: Output) -> int:
    """Show the main job: diagnose a plain loop here, then read a recording made on a GPU.

    The loop is a small Qwen3-shaped model with random weights that turns each token into a Python
    number. Without a GPU it runs on the CPU, and the report says what that can and cannot tell.
    With --json, each report is a JSON document on stdout, one after the other.
    """
    if stages:
        if out is not None:
            raise UsageError(
                "`--out` does not go with `--stages`", why="the stages write no recording"
            )
        _stages(output, recorded=recorded)
        return 0
    failed = None
    if not recorded:
        say(f"1. A plain generate loop, run here: decodeprof diagnose {TARGET}")
        try:
            _live(out, output)
        except DecodeprofError as error:
            # The second half needs neither torch nor a GPU: a newcomer sees it all the same.
            print_error(error)
            failed = error
        say()
        say(f"2. The same loop at 0.6B size, recorded on a GPU: decodeprof analyze {_shown()}")
    _recorded(output)
    return 0 if failed is None else failed.exit_code


def _stages(output: Output, *, recorded: bool) -> None:
    from decodeprof.cli.staged import measured_stages, recorded_stages
    from decodeprof.report.stages import StageTable, stages_view

    table: StageTable | str = ""
    if not recorded:
        say("running every stage where there is a GPU; most of the time is spent compiling")
        table = measured_stages()
        if isinstance(table, str):
            say(f"nothing was run: {table}; these are recordings made on a GPU")
    if isinstance(table, str):
        table = recorded_stages(FIXTURES)
    if output.as_json:
        import msgspec

        write_data(msgspec.json.format(msgspec.json.encode(table), indent=1) + b"\n")
        return
    show_view(stages_view(table), output)


def _live(out: Path | None, output: Output) -> None:
    from decodeprof.capture import Job

    directory, analyzed = record_and_diagnose(Job(target=TARGET, budget_s=BUDGET_S), out=out)
    show_diagnosis(analyzed.diagnosis, output)
    write_page(analyzed, directory, Page())
    say(f"to see this again: decodeprof analyze {directory}")


def _recorded(output: Output) -> None:
    from decodeprof.diagnosis.pipeline import analyze_path

    directory = FIXTURES / RECORDED
    if not directory.is_dir():
        raise DecodeprofError(
            "there is no recording from a GPU to show here",
            why=f"an installed wheel holds none; they lie in `fixtures/{RECORDED}` of the source "
            "checkout",
            hint="run `make demo` in a checkout",
        )
    show_diagnosis(analyze_path(directory).diagnosis, output)


def _shown() -> str:
    return f"fixtures/{RECORDED}"
