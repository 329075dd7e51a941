"""`decodeprof doctor`: what works on this machine, and why the rest does not."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
from collections.abc import Iterable

import click

from decodeprof import __version__
from decodeprof.cli.checks.check import Check
from decodeprof.cli.checks.nsys import check_nsys, installed
from decodeprof.cli.checks.torch import check_torch, probe
from decodeprof.cli.options import Output, debug_option, output_options
from decodeprof.cli.show import show_view, write_data

_REQUIRED = ("click", "msgspec", "numpy", "rich")


@click.command(
    "doctor",
    epilog="""\b
Examples:
  decodeprof doctor
  decodeprof doctor --json
""",
)
@output_options
@debug_option
def command(*, output: Output) -> None:
    """Say what works on this machine, and what to do about the rest.

    Each thing is really tried: a few kernels run under the profiler in a child process where there
    is a GPU, and nsys is called. "Cannot tell" is an answer of its own. The exit code is 0 all the
    same: a laptop without a GPU is no fault.
    """
    checks = [
        Check(name="decodeprof", answer="works", detail=__version__),
        Check(name="Python", answer="works", detail=platform.python_version()),
        check_packages(_REQUIRED),
        *check_torch(probe()),
        *check_nsys(installed()),
        check_perfetto(),
    ]
    if output.as_json:
        import msgspec

        write_data(msgspec.json.format(msgspec.json.encode(checks), indent=1) + b"\n")
    else:
        _show(checks, output)


def check_packages(names: Iterable[str]) -> Check:
    """Whether the packages that every command needs are there, and which versions."""
    found = []
    missing = []
    for name in names:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            missing.append(name)
    if missing:
        return Check(
            name="packages",
            answer="does not",
            detail=f"{', '.join(missing)} not installed",
            hint=f"pip install {' '.join(missing)}",
        )
    return Check(name="packages", answer="works", detail=", ".join(found))


def check_perfetto() -> Check:
    """Whether the package that writes Perfetto's format is there."""
    if importlib.util.find_spec("perfetto") is None:
        return Check(
            name="Perfetto export",
            answer="does not",
            detail="the `perfetto` package is not installed; nothing else needs it",
            hint="pip install perfetto",
        )
    version = importlib.metadata.version("perfetto")
    return Check(name="Perfetto export", answer="works", detail=f"perfetto {version}")


def _show(checks: list[Check], output: Output) -> None:
    from decodeprof.report.blocks import Fact, Facts, Section, Span, Style, View, line

    styles: dict[str, tuple[str, Style]] = {
        "works": ("✓", "good"),
        "does not": ("✗", "bad"),
        "cannot tell": ("?", "warning"),
    }
    rows = []
    for check in checks:
        mark, style = styles[check.answer]
        value = line(Span(f"{mark} {check.answer}", style))
        detail = "; ".join(part for part in (check.detail, check.hint) if part)
        rows.append(Fact(check.name, value, line(detail)))
    section = Section("checks", "What works on this machine", (Facts(tuple(rows)),))
    show_view(View(line("decodeprof doctor"), (section,)), output)
