"""`decodeprof check`: a gate for CI on what a decode step holds."""

from __future__ import annotations

import math
import typing
from pathlib import Path

import click

from decodeprof import units
from decodeprof.cli.options import (
    FiniteRange,
    NamedPath,
    Output,
    PlainOption,
    debug_option,
    output_options,
    say,
)
from decodeprof.cli.show import show_view, write_data
from decodeprof.errors import (
    EXIT_GATE_COULD_NOT_TELL,
    EXIT_GATE_FAILED,
    DecodeprofError,
    InputError,
    UsageError,
)

if typing.TYPE_CHECKING:
    from decodeprof.model.diagnosis import Diagnosis, SyncSite
    from decodeprof.model.gate import Baseline, Checked, Limits

_EXIT_CODES = {"held": 0, "failed": EXIT_GATE_FAILED, "unknown": EXIT_GATE_COULD_NOT_TELL}
_COUNT = FiniteRange(min=0)


@click.command(
    "check",
    epilog="""\b
Examples:
  decodeprof check decodeprof-runs/generate-001 --max-syncs 1 --max-launches 700
  decodeprof check trace.json.gz --write-baseline syncs.json
  decodeprof check trace.json.gz --no-new-syncs --baseline syncs.json --format github
""",
)
@click.argument("path", type=NamedPath())
@click.option(
    "--max-syncs",
    "--max-syncs-per-step",
    cls=PlainOption,
    type=_COUNT,
    metavar="N",
    help="Blocking calls that a decode step may hold; 0.0625 is one in 16 steps.",
)
@click.option(
    "--max-launches",
    "--max-launches-per-step",
    cls=PlainOption,
    type=_COUNT,
    metavar="N",
    help="Kernel and graph launches that a decode step may hold.",
)
@click.option(
    "--max-kernels",
    "--max-kernels-per-step",
    cls=PlainOption,
    type=_COUNT,
    metavar="N",
    help="Kernels that a decode step may hold.",
)
@click.option(
    "--min-mbu",
    cls=PlainOption,
    type=FiniteRange(min=0, max=1),
    metavar="SHARE",
    help="Share of the memory bandwidth, 0 to 1, that a decode step must reach: the bytes that it "
    "must move ÷ its time ÷ the bandwidth. The one limit that depends on a time.",
)
@click.option(
    "--no-new-syncs",
    is_flag=True,
    help="No blocking call that the baseline does not know, in a decode step or the prefill.",
)
@click.option(
    "--baseline",
    type=NamedPath(),
    metavar="FILE",
    help="The blocking calls that are known; --no-new-syncs goes by it.",
)
@click.option(
    "--write-baseline",
    type=NamedPath(),
    metavar="FILE",
    help="Write the blocking calls of PATH as the new baseline.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "github"]),
    help="How the answer is printed; github annotates the lines of a pull request.",
)
@click.option(
    "--source-root",
    type=NamedPath(file_okay=False),
    default=Path(),
    metavar="DIR",
    help="For github: the folder, from the repository's root, to which the recording's file names "
    "are relative; that of the script that was recorded.",
)
@output_options
@debug_option
def command(
    *,
    path: Path,
    max_syncs: float | None,
    max_launches: float | None,
    max_kernels: float | None,
    min_mbu: float | None,
    no_new_syncs: bool,
    baseline: Path | None,
    write_baseline: Path | None,
    form: str | None,
    source_root: Path,
    output: Output,
) -> int:
    """Hold PATH, a recording or a trace, against limits: a gate for CI.

    Exit code 0: every limit holds. 3: one failed. 4: one could not be told, since what was not
    captured is never taken for 0. Limits that are not given come from [tool.decodeprof.check] of
    the nearest pyproject.toml, under the same names.
    """
    from decodeprof.diagnosis.check import check
    from decodeprof.diagnosis.pipeline import analyze_path
    from decodeprof.model.gate import Limits

    if output.as_json and form not in (None, "json"):
        raise UsageError(f"`--json` does not go with `--format {form}`", hint="give one of them")
    given = Limits(
        max_syncs=max_syncs, max_launches=max_launches, max_kernels=max_kernels, min_mbu=min_mbu
    )
    limits, known = _asked(
        given, baseline, no_new_syncs=no_new_syncs, writes=write_baseline is not None
    )
    diagnosis = analyze_path(path).diagnosis
    if write_baseline is not None:
        _write(diagnosis, write_baseline)
    checked = check(diagnosis, limits, baseline=known)
    if checked.results:
        form = "json" if output.as_json else form or "text"
        _show(checked, output, form=form, source_root=source_root)
    return _EXIT_CODES[checked.answer]


def _asked(
    given: Limits, baseline: Path | None, *, no_new_syncs: bool, writes: bool
) -> tuple[Limits, Baseline | None]:
    """The limits of the command line, filled up with the project's, and the baseline to go by."""
    import msgspec

    from decodeprof.cli.settings import FILE, TABLE, check_settings
    from decodeprof.diagnosis.baseline import read_baseline

    settings, place = check_settings(Path.cwd())
    asked = {
        name: getattr(settings, name) if value is None else value
        for name, value in msgspec.structs.asdict(given).items()
    }
    if baseline is None and settings.baseline is not None and place is not None:
        baseline = place.parent / settings.baseline
    # A baseline that is named is there to be compared with; one that is written now is not yet.
    wanted = no_new_syncs or (
        baseline is not None and settings.no_new_syncs is not False and not writes
    )
    if (no_new_syncs or settings.no_new_syncs) and baseline is None and not writes:
        raise UsageError(
            "`--no-new-syncs` needs a baseline to go by",
            why="a blocking call is new when the baseline does not hold it",
            hint="write one with `--write-baseline FILE`, commit it, and name it with `--baseline`",
        )
    if all(value is None for value in asked.values()) and not wanted and not writes:
        raise UsageError(
            "there is nothing to check",
            why=f"no limit was given, and no {FILE} here has a table `[{TABLE}]`",
            hint="for example `--max-syncs 1`; `decodeprof check --help` lists the limits",
        )
    for name, value in asked.items():
        if value is not None and not math.isfinite(value):
            option = f"--{name.replace('_', '-')}"
            raise UsageError(f"`{option}` takes a number, not {value}")
    limits = msgspec.convert(asked, type(given))
    return limits, read_baseline(baseline) if wanted and baseline is not None else None


def _write(diagnosis: Diagnosis, path: Path) -> None:
    """Write the baseline; nothing where the blocking calls are not known."""
    from decodeprof.diagnosis.baseline import baseline_json, baseline_of, may_be_replaced
    from decodeprof.diagnosis.check import why_syncs_unknown
    from decodeprof.recording import write_whole

    unknown = why_syncs_unknown(diagnosis)
    if unknown is not None:
        error = DecodeprofError(
            "no baseline was written: the blocking calls are not known",
            why=unknown[0],
            hint=unknown[1],
        )
        error.exit_code = EXIT_GATE_COULD_NOT_TELL
        raise error
    if not may_be_replaced(path):
        raise UsageError(
            f"`{path}` exists and is no baseline",
            why="nothing but an earlier baseline is written over",
            hint="name another file with `--write-baseline`",
        )
    baseline = baseline_of(diagnosis)
    try:
        write_whole(path, baseline_json(baseline))
    except InputError as error:
        error.hint = "name another file with `--write-baseline`"
        raise
    sites = len(baseline.syncs)
    say(f"wrote {units.counted(sites, 'blocking call site')} to {path}")


def _show(checked: Checked, output: Output, *, form: str, source_root: Path) -> None:
    from decodeprof.report.gate import gate_view, github_lines

    if form == "json":
        import msgspec

        encoded = msgspec.json.encode(checked, order="deterministic")
        write_data(msgspec.json.format(encoded, indent=1) + b"\n")
    elif form == "github":
        lines = github_lines(checked, locate=lambda site: _located(site, source_root))
        write_data(lines.encode(errors="replace"))
    else:
        show_view(gate_view(checked), output)


def _located(site: SyncSite, root: Path) -> tuple[str, int] | None:
    """Where a site is in this checkout: its own line, or the innermost one that called it."""
    frames: list[tuple[str | None, int | None]] = [(site.file, site.line)]
    for frame in reversed(site.stack):
        file, _, line = frame.partition(" ")[0].rpartition(":")
        frames.append((file, int(line) if line.isdigit() else None))
    for name, line_number in frames:
        if name and line_number is not None and ".." not in Path(name).parts:
            path = root / name
            if not Path(name).is_absolute() and path.is_file():
                return path.as_posix(), line_number
    return None
