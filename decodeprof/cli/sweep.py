"""`decodeprof sweep`: step times along one axis, and where the device overtakes the host."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from decodeprof.cli.diagnose import DEFAULT_TIMEOUT_S
from decodeprof.cli.options import (
    FiniteRange,
    NewPath,
    Output,
    PlainOption,
    debug_option,
    output_options,
    say,
)
from decodeprof.cli.sweep_values import buckets_of, histogram_of, vary_of
from decodeprof.errors import DecodeprofError, UsageError

if TYPE_CHECKING:
    from decodeprof.model.sweep import Sweep

BUDGET_S = 6.0
"""Of one point of a target: a sweep has many, and a curve needs each to a few percent only."""
_COUNT = click.IntRange(min=1)


@click.command(
    "sweep",
    epilog="""\b
Examples:
  a decode step of the reference decoder over the batch size:
    decodeprof sweep --vary batch=1,2,4,8,16,32,64,128 --shape 0.6b
\b
  the smallest thing that shows the passage, 32 × (matmul, SiLU, add):
    decodeprof sweep toy --vary batch=1,16,256,4096
\b
  a function of your own that takes the batch size as an argument:
    decodeprof sweep batched.py:generate --vary batch=1,2,4,8
\b
  which batch sizes to capture graphs for, from how often each is live:
    decodeprof sweep --vary batch=1,2,4,8,16 --live 1:50,3:30,7:20
\b
  a sweep measured earlier; runs nothing:
    decodeprof sweep --show decodeprof-runs/sweep-decode-batch-001
""",
)
@click.argument("target", required=False)
@click.option(
    "--vary",
    "vary",
    multiple=True,
    metavar="NAME=VALUES",
    help="What is varied: batch, context, prompt, layers or width, or the target's argument of "
    "that name. Values are whole numbers with commas between.",
)
@click.option("--shape", default="tiny", show_default=True, help="The decoder's: tiny, 0.6b or 8b.")
@click.option("--layers", type=_COUNT, cls=PlainOption, metavar="N", help="Layers; the shape's.")
@click.option(
    "--width-of-model",
    "model_width",
    type=_COUNT,
    cls=PlainOption,
    metavar="N",
    help="Width of the hidden state; the shape's.",
)
@click.option(
    "--batch",
    type=_COUNT,
    cls=PlainOption,
    default=1,
    show_default=True,
    metavar="N",
    help="Rows of a decode step.",
)
@click.option(
    "--context",
    type=_COUNT,
    cls=PlainOption,
    default=128,
    show_default=True,
    metavar="N",
    help="Tokens that a decode step attends to.",
)
@click.option("--fused", is_flag=True, help="The decoder with Triton kernels; a CPU has none.")
@click.option(
    "--arg",
    "args",
    multiple=True,
    metavar="NAME=VALUE",
    help="An argument of the target, as for diagnose.",
)
@click.option("--setup", metavar="NAME", help="The target's set-up function, as for diagnose.")
@click.option(
    "--new-tokens",
    type=_COUNT,
    cls=PlainOption,
    metavar="N",
    help="Tokens of one call of the target, as for diagnose.",
)
@click.option(
    "--graph-check",
    is_flag=True,
    help="Capture each point's step of the target as a CUDA graph as well, and time it; else its "
    "time is predicted.",
)
@click.option("--step", metavar="NAME", help="For --graph-check, as for diagnose.")
@click.option("--device", metavar="NAME", help="cpu or cuda; by default CUDA where there is one.")
@click.option(
    "--seconds",
    type=FiniteRange(min=0, min_open=True),
    cls=PlainOption,
    metavar="N",
    help="Begin no point after so long; run again to go on.",
)
@click.option(
    "--today",
    type=_COUNT,
    cls=PlainOption,
    metavar="VALUE",
    help="The value at which you run today; the first when not given.",
)
@click.option("--live", metavar="SIZE:COUNT,…", help="How often each batch size is live.")
@click.option(
    "--buckets",
    multiple=True,
    metavar="SIZES",
    help="A plan of captured batch sizes to weigh beside the usual ones; repeatable.",
)
@click.option(
    "--out",
    type=NewPath(),
    metavar="DIR",
    help="Directory of the sweep; an unfinished one is gone on with. By default a new "
    "numbered one below decodeprof-runs.",
)
@click.option(
    "--show",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Show a sweep measured earlier; runs nothing.",
)
@click.option("--csv", "as_csv", is_flag=True, help="Print the points as CSV instead.")
@output_options
@debug_option
def command(*, target: str | None, output: Output, **options: Any) -> None:
    """Measure a step along one axis, and say where the device overtakes the host.

    At each point: the unprofiled step launched kernel by kernel and as one CUDA graph, the kernels
    and their time from a short profile apart from it, and what host, device, bytes and FLOPs leave
    as floors. Every point is kept as soon as it ends; one that runs out of memory ends alone.

    Without TARGET, a decode step of the reference decoder (or its prompt pass, with --vary
    prompt=…); TARGET may be `toy`. On a CPU there is one curve, and the rest is said to be unknown.
    """
    if options["as_csv"] and output.as_json:
        raise UsageError("`--csv` does not go with `--json`", why="stdout holds one of them")
    if options["show"] is not None:
        if options["vary"] or target:
            raise UsageError("`--show` runs nothing", why="it takes neither a target nor `--vary`")
        _tell(options["show"], output, options, written=False)
        return
    if not options["vary"]:
        raise UsageError(
            "what is to be varied?", hint="decodeprof sweep --vary batch=1,2,4,8,16,32"
        )
    if len(options["vary"]) > 1:
        raise UsageError(
            "`--vary` is given twice",
            why="a sweep has one axis",
            hint="sweep the other one by itself, in a directory of its own",
        )
    axis, values = vary_of(options["vary"][0])
    live, _ = _questions(options)
    if live and axis != "batch":
        raise UsageError("`--live` is for a sweep over batch", why=f"this one is over {axis}")
    if options["today"] not in (None, *values) and options["out"] is None:
        raise UsageError(
            f"`--today {options['today']}` is no point of the sweep",
            why=f"its points are {', '.join(map(str, values))}",
        )
    out = options["out"] or _new_directory(target, axis)
    try:
        if target is None or target == "toy":
            _run_reference(target, axis, values, out, options)
        else:
            _run_target(target, axis, values, out, options)
    except KeyboardInterrupt:
        from decodeprof.cli.sweep_files import POINTS_FILE

        if (out / POINTS_FILE).is_file():
            kept = shlex.quote(str(out))
            say(f"what was measured is kept: the same command with `--out {kept}` goes on")
        raise
    sweep = _tell(out, output, options, written=True)
    if any(point.failed for point in sweep.points):
        kept = shlex.quote(str(out))
        say(f"the same command with `--out {kept}` tries again what was left out")
    say(f"to see this again: decodeprof sweep --show {shlex.quote(str(out))}")
    reasons = dict.fromkeys(point.failed for point in sweep.points)
    if None not in reasons:
        raise DecodeprofError("no point could be measured", why="\n".join(map(str, reasons)))


def _questions(options: dict[str, Any]) -> tuple[dict[int, int], list[list[int]]]:
    """What is asked of batch sizes: refused where it makes no sense, before anything is run."""
    from decodeprof.analysis.sweeps.padding import refuse

    live = histogram_of(options["live"]) if options["live"] is not None else {}
    plans = [buckets_of(text) for text in options["buckets"]]
    if plans and not live:
        raise UsageError("`--buckets` needs `--live`", why="a plan is weighed by what is live")
    if live:
        refuse(live, plans)
    return live, plans


def _new_directory(target: str | None, axis: str) -> Path:
    from decodeprof.capture import new_directory
    from decodeprof.cli.recorded import RUNS

    stem = "decode" if target is None else target.rpartition("/")[2].replace(".py", "")
    return new_directory(RUNS, f"sweep-{stem}-{axis}")


def _run_reference(
    target: str | None, axis: str, values: tuple[int, ...], out: Path, options: dict[str, Any]
) -> None:
    from decodeprof.capture.supervise import check_device
    from decodeprof.cli.sweep_run import Wanted, run

    check_device(options["device"])
    for name in ("args", "setup", "new_tokens", "graph_check", "step"):
        if options[name]:
            option = {"args": "arg"}.get(name, name.replace("_", "-"))
            raise UsageError(f"`--{option}` is for a target", why="none was named")
    phase = "toy" if target == "toy" else "prefill" if axis == "prompt" else "decode"
    subject = {"decode": "a decode step", "prefill": "a prompt pass", "toy": "the toy"}[phase]
    _refuse_options(
        tuple(name for name in _SETTINGS[phase] if name != axis),
        f"{subject} over {axis}",
        "leave it out",
    )
    spec = {
        "phase": phase,
        "axis": axis,
        "values": values,
        "shape": options["shape"],
        "layers": options["layers"],
        "width": options["model_width"],
        "batch": options["batch"],
        "context": options["context"],
        "fused": options["fused"],
    }
    run(Wanted(spec=spec, device=options["device"], seconds=options["seconds"]), out)


def _run_target(
    target: str, axis: str, values: tuple[int, ...], out: Path, options: dict[str, Any]
) -> None:
    from decodeprof.capture import Job
    from decodeprof.cli.sweep_target import TargetSweep, run

    _refuse_options((), "a target", "write `--arg NAME=VALUE`")
    if options["step"] is not None and not options["graph_check"]:
        raise UsageError("`--step` is for `--graph-check`", why="nothing else captures the step")
    job = Job(
        target=target,
        args=list(options["args"]),
        setup=options["setup"],
        new_tokens=options["new_tokens"],
        device=options["device"],
        timeout_s=DEFAULT_TIMEOUT_S,
        budget_s=BUDGET_S,
        graph_check=options["graph_check"],
        step=options["step"],
    )
    run(TargetSweep(job=job, axis=axis, values=values, seconds=options["seconds"]), out)


_SETTINGS = {
    "decode": ("shape", "layers", "width", "batch", "context", "fused"),
    "prefill": ("shape", "layers", "width"),
    "toy": ("layers", "width", "batch"),
}
"""What stays the same between the points, where it is not what is varied."""
_PARAMETERS = {"width": "model_width"}
_OPTIONS = {"width": "width-of-model"}


def _refuse_options(applies: tuple[str, ...], subject: str, hint: str) -> None:
    """Refuse settings that were given and that say nothing here: a silent one would mislead."""
    context = click.get_current_context()
    for name in _SETTINGS["decode"]:
        source = context.get_parameter_source(_PARAMETERS.get(name, name))
        if name not in applies and source is ParameterSource.COMMANDLINE:
            raise UsageError(
                f"`--{_OPTIONS.get(name, name)}` says nothing of {subject}",
                why=f"what does is {', '.join(applies)}" if applies else "it has its own arguments",
                hint=hint,
            )


def _tell(out: Path, output: Output, options: dict[str, Any], *, written: bool) -> Sweep:
    """Show a sweep; it is given back."""
    import msgspec

    from decodeprof.cli.show import WIDEST, show_view, write_data
    from decodeprof.cli.sweep_files import CSV_FILE, SWEEP_FILE
    from decodeprof.cli.sweep_judged import judged
    from decodeprof.recording import write_json, write_whole
    from decodeprof.report.sweep import sweep_csv, sweep_view

    live, plans = _questions(options)
    sweep = judged(out, today=options["today"], live=live, plans=plans)
    if written:
        write_json(out / SWEEP_FILE, sweep)
        write_whole(out / CSV_FILE, sweep_csv(sweep))
    if options["as_csv"]:
        write_data(sweep_csv(sweep))
    elif output.as_json:
        encoded = msgspec.json.encode(sweep, order="deterministic")
        write_data(msgspec.json.format(encoded, indent=1) + b"\n")
    else:
        from rich.console import Console

        width = output.width or min(Console().width, WIDEST)
        show_view(sweep_view(sweep, width=width), output)
    return sweep
